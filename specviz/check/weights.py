"""Tensors that should be there, by index and headers alone; positions, windows, kinds of layers, and sizes."""

import re
from collections.abc import Iterator
from itertools import count

from specviz.check.findings import PairFinding, error, note, warning
from specviz.check.side import ModelSide
from specviz.model_folder import INDEX, layer_of, shown
from specviz.mtp_layers import own_mtp_layers

_DEAR = 0.5  # of the target's bytes: above it a draft model hardly ever pays
_FEW_BITS = 4
_RECURRENT = re.compile(r"linear|mamba|recurrent|conv|ssm", re.IGNORECASE)


def check_weights(target: ModelSide, draft: ModelSide) -> Iterator[PairFinding]:
    """Both sides' files, then how they fit."""
    for side, which in ((target, "target"), (draft, "draft")):
        yield from _index(side, which) if side.gguf is None else ()
        yield from _layers(side, which)
        yield from _windows(side, which)
        yield from _states(side, which)
    yield from _sizes(target, draft)
    yield from _positions(target, draft)


def _index(side: ModelSide, which: str) -> Iterator[PairFinding]:
    present = {path.name for path in side.files.values()}
    files = sorted({file for file in side.index.values() if not (side.folder / file).is_file()})
    if files:
        more = f" and {len(files) - 1} more" if len(files) > 1 else ""
        yield error(
            "shard-missing", 3, f"the {which}'s {INDEX} names {shown(files[0])}{more}, not there", "fetch it again"
        )
    gone = sorted(name for name, file in side.index.items() if file in present and name not in side.tensors)
    if gone:
        yield error(
            "tensor-missing",
            3,
            f"the {which}'s index names {shown(gone[0])}, which is not in its file ({len(gone)} such)",
            "fetch or save it again: what is missing is initialised at random, and nothing warns",
        )
    pickled = sorted(path.name for path in side.folder.glob("*") if path.suffix in (".pt", ".bin", ".pth"))
    if not side.tensors and pickled:
        yield error(
            "weights-pickled",
            3,
            f"the {which}'s weights are pickled ({shown(pickled[0])}), which is never opened here",
            "specviz models convert writes them as safetensors",
        )
    elif not side.tensors:
        yield error(
            "no-weights",
            3,
            f"the {which} has no .safetensors file",
            "save it with safe_serialization, or fetch it whole",
        )


def _layers(side: ModelSide, which: str) -> Iterator[PairFinding]:
    there = {layer for name in side.tensors if (layer := layer_of(name)) is not None}
    # Heads may number their layers behind the target's.
    if side.layers is not None and 0 < len(there) < side.layers:
        gone = next(layer for layer in count() if layer not in there)
        yield error(
            "layer-missing",
            3,
            f"the {which} has {side.layers:,} layers by its config, {len(there)} in its files: layer {gone} lacks",
            "fetch or save it again: a missing layer is initialised at random, and nothing warns",
        )
    if side.layers is not None and not side.is_head:
        own = side.layers + own_mtp_layers(side.config)
        extra = sorted(layer for layer in there if layer >= own)
        if extra:
            yield error(
                "layer-extra",
                3,
                f"the {which} has {side.layers} layers by its config, and its files hold layer {extra[0]} (from 0)",
                "mend num_hidden_layers in config.json: engines leave the others out, and nothing warns",
            )
    tied = side.get("tie_word_embeddings")
    if side.tensors and not side.is_head and tied is False and side.tensor("lm_head.weight") is None:
        names = [name for name in side.tensors if "embed_out" in name or name.endswith("output.weight")]
        if not names:
            yield error(
                "output-missing",
                3,
                f"the {which} has no lm_head.weight, and its embeddings are not tied",
                "save it again, or set tie_word_embeddings if they are one",
            )
    quantised = side.config.get("quantization_config")
    bits = quantised.get("bits", quantised.get("w_bit")) if isinstance(quantised, dict) else None
    if which == "draft" and isinstance(bits, int) and bits <= _FEW_BITS:
        yield warning(
            "few-bits", 3, f"the draft has {bits} bits a weight", "measure it beside its unquantised self: heads suffer"
        )


def _windows(side: ModelSide, which: str) -> Iterator[PairFinding]:
    kinds = side.get("layer_types")
    if isinstance(kinds, list) and side.layers is not None and len(kinds) != side.layers:
        yield error(
            "layer-types",
            2,
            f"the {which} has {side.layers} layers and {len(kinds)} layer_types",
            "correct config.json",
        )
    sliding = isinstance(kinds, list) and any("sliding" in str(kind) for kind in kinds)
    if sliding and (side.get("sliding_window") is None or side.get("use_sliding_window") is False):
        yield warning(
            "window-unset",
            2,
            f"the {which} has layers of kind sliding, and no window in force",
            "engines run them as full attention: set sliding_window and use_sliding_window as in training",
        )


def _states(side: ModelSide, which: str) -> Iterator[PairFinding]:
    kinds = side.get("layer_types")
    recurrent = [str(kind) for kind in kinds if _RECURRENT.search(str(kind))] if isinstance(kinds, list) else []
    if recurrent:
        yield warning(
            "state-recurrent",
            10,
            f"the {which} keeps a running state in some layers ({shown(recurrent[0])})",
            "a rejection must bring that state back: check greedy text against plain decoding first",
        )
    experts = side.count("num_experts", "num_local_experts", "n_routed_experts")
    if which == "target" and experts is not None and experts > 1:
        yield note(
            "experts",
            13,
            f"the target has {experts} experts: each drafted token may wake others",
            "verifying k tokens costs up to k times the weights: measure it, and keep drafts short",
        )


def _sizes(target: ModelSide, draft: ModelSide) -> Iterator[PairFinding]:
    n_mtp = own_mtp_layers(target.config, target.tensors)
    if target.same_as(draft) and n_mtp:
        yield note(
            "own-mtp",
            14,
            f"target and draft are one folder, which has {n_mtp} MTP layer{'s' * (n_mtp != 1)} of its own",
            f"serve it by the engine's MTP method and draft at most {n_mtp} token{'s' * (n_mtp != 1)} a round first: "
            "further ones call the same layer again",
        )
    elif target.same_as(draft):
        yield warning("same-model", 16, "target and draft are one folder", "all is accepted and nothing is won")
    elif draft.n_bytes > _DEAR * target.n_bytes > 0:
        share = draft.n_bytes / target.n_bytes
        yield warning(
            "draft-dear",
            12,
            f"the draft has {share:.0%} of the target's bytes",
            "a draft forward costs about that share of a target's: take a smaller draft, or short drafts",
        )
    mine, other = (side.get("torch_dtype", "dtype") for side in (target, draft))
    if isinstance(mine, str) and isinstance(other, str) and mine != other:
        yield note(
            "dtype-differs",
            9,
            f"the target is stored in {shown(mine)}, the draft in {shown(other)}",
            "near ties round otherwise; the text follows the target's precision alone",
        )


def _positions(target: ModelSide, draft: ModelSide) -> Iterator[PairFinding]:
    mine, other = (side.count("max_position_embeddings", "n_positions") for side in (target, draft))
    if mine is not None and other is not None and other < mine:
        yield warning(
            "positions-fewer",
            4,
            f"the draft knows {other:,} positions, the target {mine:,}",
            f"behind position {other:,} acceptance falls: keep texts shorter, or extend and train the draft",
        )
    if draft.is_head:
        bases = [side.get("rope_theta") for side in (target, draft)]
        if None not in bases and bases[0] != bases[1]:
            yield note(
                "rope-differs",
                2,
                f"rope_theta is {bases[0]:g} in the target and {bases[1]:g} in the head",
                "right where the head was trained so; a changed copy of it moves every position",
            )
