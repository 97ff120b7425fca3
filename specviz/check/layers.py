"""What a head reads of its target: layers, widths, the map of its smaller vocabulary, and what it says it is for."""

from collections.abc import Iterator, Sequence
from typing import Any

from specviz.check.findings import PairFinding, error, note, warning
from specviz.check.kinds import LLAMA_DFLASH
from specviz.check.side import ModelSide, whole_numbers
from specviz.model_folder import shown

_TAPS = ("eagle_aux_hidden_state_layer_ids", "aux_hidden_state_layer_ids", "target_layer_ids", "taps")


def check_layers(target: ModelSide, draft: ModelSide) -> Iterator[PairFinding]:
    """Nothing for a draft model that reads no states."""
    if draft.is_head:
        yield from _architecture(draft)
        yield from _taps(target, draft)
        yield from _target_layers(target, draft)
        yield from _widths(target, draft)
        yield from _map(target, draft)
        yield from _speculators(target, draft)


def _architecture(draft: ModelSide) -> Iterator[PairFinding]:
    """llama.cpp reads a drafter by the name of its architecture alone."""
    name = "".join(map(str, draft.config.get("architectures") or ()))
    if draft.gguf is not None and LLAMA_DFLASH in name and name != LLAMA_DFLASH:
        yield error(
            "architecture-unknown",
            3,
            f"its architecture is {shown(repr(name))}; llama.cpp knows such as '{LLAMA_DFLASH}'",
            "convert it again by llama.cpp's own converter",
        )


def _taps(target: ModelSide, draft: ModelSide) -> Iterator[PairFinding]:
    joined, tap_layers = draft.tensor("fc.weight"), draft.get(*_TAPS)
    taps = whole_numbers(tap_layers)
    if tap_layers is not None and taps is None:
        yield error("layers-odd", 1, f"{_TAPS[0]} is {shown(repr(tap_layers))}", "give a list of layer numbers")
    several = joined is not None and len(joined.shape) == 2 and target.width and joined.shape[1] >= 3 * target.width
    if tap_layers is None and several:
        yield warning(
            "layers-unnamed",
            1,
            f"the head joins several layers of its target (fc.weight {_shape(joined)}) and {_TAPS[0]} is not named",
            "the engine takes its own default: write the layers that it was trained on into config.json",
        )
    if not taps or target.layers is None:
        return
    last = target.layers - (draft.gguf is not None)  # llama.cpp counts from 0; elsewhere 0 is the embedding
    outside = [layer for layer in taps if not -target.layers <= layer <= last]
    if outside:
        there = f"{target.layers}, 0 to {last}" if draft.gguf is not None else f"{target.layers}"
        yield error("layers-outside", 1, f"it reads layers {outside}; the target has {there}", "use its own target")
    usual = _usual_layers(target.layers)
    if (
        not outside
        and usual[0] < usual[1] < usual[2]  # in a target of few layers they are not
        and len(taps) == len(usual)
        and any(abs(a - b) > 1 for a, b in zip(sorted(taps), usual, strict=True))
    ):
        yield note(
            "layers-unusual",
            1,
            f"the head reads layers {list(taps)} of {target.layers}; engines and trainers usually take {list(usual)}",
            "see on the card of the head which it was trained on; where that is not told, those",
        )
    if len(set(taps)) < len(taps) or list(taps) != sorted(taps):
        yield warning(
            "layers-unsorted",
            1,
            f"it reads layers {list(taps)}, twice or not in rising order",
            "states are joined in this order: check it against the order of training",
        )


def _usual_layers(n_layers: int) -> tuple[int, int, int]:
    """That engines read where a head names none, and heads are trained on: one low, one in the middle, one high."""
    return 2, n_layers // 2, n_layers - 3


def _target_layers(target: ModelSide, draft: ModelSide) -> Iterator[PairFinding]:
    """What block drafters say of the target that they were made for, and the token that stands for a place to fill."""
    trained_layers = draft.count("num_target_layers")
    if trained_layers is not None and target.layers is not None and trained_layers != target.layers:
        yield error(
            "target-layers",
            1,
            f"made for a target of {trained_layers} layers; this one has {target.layers}",
            "use its own target",
        )
    if draft.get("dflash_config", "block_size") is None or draft.get("speculators_config") is not None:
        return
    mask, rows = draft.count("mask_token_id"), target.count("vocab_size")
    if mask is None:
        yield error(
            "mask-missing",
            3,
            "it fills masked places and its config.json has no mask_token_id",
            "write the id that it was trained with: engines take some other embedding, or stop",
        )
    elif rows is not None and not 0 <= mask < rows:
        yield error(
            "mask-outside", 5, f"mask_token_id is {mask}; the target's embedding has {rows} rows", "use its own target"
        )


def _widths(target: ModelSide, draft: ModelSide) -> Iterator[PairFinding]:
    joined, width = draft.tensor("fc.weight"), target.width
    trained_width = draft.count("target_hidden_size", "target_width")
    if trained_width is not None and width is not None and trained_width != width:
        yield error(
            "width-differs", 1, f"made for states {trained_width} wide; the target's have {width}", "use its own target"
        )
    if joined is None or width is None or len(joined.shape) != 2:
        return
    taps = whole_numbers(draft.get(*_TAPS))
    if joined.shape[1] % width:
        yield error(
            "width-differs",
            1,
            f"fc.weight takes {joined.shape[1]} numbers, no multiple of the target's width {width}",
            "use the target that it was trained for",
        )
    elif taps and joined.shape[1] // width not in (len(taps), len(taps) + 1):  # some join the embedding too
        yield error(
            "layers-count",
            1,
            f"fc.weight joins {joined.shape[1] // width} states of {width}; {len(taps)} layers are named",
            "name as many layers as it was trained on",
        )


def _map(target: ModelSide, draft: ModelSide) -> Iterator[PairFinding]:
    rows, own = target.count("vocab_size"), draft.count("draft_vocab_size", "draft_vocab")
    table, out = draft.tensor("d2t"), draft.tensor("lm_head.weight")
    if own is not None and out is not None and out.shape[0] != own:
        yield error(
            "head-rows", 5, f"lm_head has {out.shape[0]} rows, draft_vocab_size is {own}", "correct config.json"
        )
    if own is not None and rows is not None and own < rows and table is None and draft.tensors:
        yield error(
            "d2t-missing",
            5,
            f"it drafts {own} of the target's {rows} ids and has no tensor d2t to say which",
            "save d2t with it: without the map its ids stand for other tokens",
        )
    if table is None:
        return
    if own is not None and table.size != own:
        yield error("d2t-size", 5, f"d2t has {table.size} entries, draft_vocab_size is {own}", "save both from one run")
        return
    values = draft.integers(table)
    if values is None:
        yield error("d2t-kind", 5, f"d2t holds {table.dtype}, not whole numbers", "save it as 64-bit whole numbers")
    elif rows is not None:
        yield from _mapped(values, rows)


def _mapped(values: Sequence[int], rows: int) -> Iterator[PairFinding]:
    """d2t holds differences: draft id i is target id i + d2t[i]."""
    ids = [place + value for place, value in enumerate(values)]
    at = next((place for place, id_ in enumerate(ids) if not 0 <= id_ < rows), None)
    if at is not None:
        yield error(
            "d2t-outside",
            5,
            f"d2t[{at}] leads to id {ids[at]}; the target has {rows}",
            "it holds differences (target id = draft id + d2t): save it so, for this target",
        )
    elif len(set(ids)) < len(ids):
        yield error(
            "d2t-twice",
            5,
            f"d2t leads {len(ids)} draft ids to only {len(set(ids))} target ids",
            "it holds differences, not the ids themselves: subtract the draft id from each",
        )
    elif len(values) < rows and not any(values):
        yield warning(
            "d2t-zero",
            3,
            f"d2t is all zeros: the {len(values)} draft ids are the first of the target",
            "a map is chosen by how often tokens occur; this one looks as if it was never filled",
        )


def _speculators(target: ModelSide, draft: ModelSide) -> Iterator[PairFinding]:
    speculators = draft.config.get("speculators_config")
    if speculators is None:
        return
    if not isinstance(speculators, dict):
        yield error("speculators-odd", 15, f"speculators_config is {shown(repr(speculators))}", "write it as an object")
        return
    lacking = [name for name in ("algorithm", "proposal_methods", "verifier") if not speculators.get(name)]
    if lacking:
        yield error(
            "speculators-lacks", 15, f"speculators_config has no {', '.join(lacking)}", "save it with the library again"
        )
    verifier = speculators.get("verifier")
    wanted, there = (
        part.get("architectures") if isinstance(part, dict) else None for part in (verifier, target.config)
    )
    if wanted and there and not {*map(str, wanted)} & {*map(str, there)}:
        yield error(
            "verifier-differs",
            1,
            f"speculators_config was made for {shown(wanted[0])}; the target is {shown(there[0])}",
            "use the target that it names",
        )
    named = str(verifier.get("name_or_path") or "") if isinstance(verifier, dict) else ""
    if named and named.rstrip("/").rpartition("/")[2] not in str(target.folder) + target.name:
        yield note(
            "verifier-named", 1, f"it was trained for {shown(named)}", "a fine-tune of it works, with fewer accepted"
        )
    listed = speculators.get("proposal_methods")
    methods = listed if isinstance(listed, list) else []
    draft_lengths = [method.get("speculative_tokens") for method in methods if isinstance(method, dict)]
    counts = [count for count in draft_lengths if isinstance(count, int) and count > 0]
    if methods and not counts:
        yield warning(
            "length-unnamed",
            14,
            "no proposal method says speculative_tokens",
            "give the engine a draft length yourself",
        )
    block = draft.count("block_size")
    if block and max(counts, default=0) > block:
        yield warning(
            "length-beyond", 14, f"it proposes {max(counts)} tokens from blocks of {block}", f"draft at most {block}"
        )


def _shape(tensor: Any) -> str:
    return "×".join(map(str, tensor.shape))
