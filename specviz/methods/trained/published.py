"""Released EAGLE-3 and Medusa checkpoints in their published tensor layout, turned into drafters of ours.

Such a folder names its target by repository at best, never by its weights: sizes and vocabulary are compared, and what
cannot be known is said (`name_of`). What is not the authors' own network is refused in one line and never read wrongly:
scaled rotary positions, other layers' features, norms elsewhere, an embedding of its own, several blocks a head.
"""

import re
from pathlib import Path
from typing import Any

import torch

from specviz.engine.model.adapter import ModelAdapter
from specviz.errors import ModelError
from specviz.methods.trained.parts import OPTION, taps
from specviz.methods.trained.sizes import fault, shown

Tensor = torch.Tensor
_EAGLE_NAMES = {
    "fc.weight": "fc.weight",
    "norm.weight": "norm_out.weight",
    "lm_head.weight": "head.weight",
    "midlayer.input_layernorm.weight": "norm_token.weight",
    "midlayer.hidden_norm.weight": "layer.norm_attention.weight",
    "midlayer.post_attention_layernorm.weight": "layer.norm_mlp.weight",
    **{f"midlayer.self_attn.{k}_proj.weight": f"layer.{k}.weight" for k in "qkvo"},
    **{f"midlayer.mlp.{k}_proj.weight": f"layer.{k}.weight" for k in ("gate", "up", "down")},
}
_EAGLE_FIELDS = {
    "target_width": "hidden_size",
    "vocab": "vocab_size",
    "draft_vocab": "draft_vocab_size",
    "heads": "num_attention_heads",
    "kv_heads": "num_key_value_heads",
    "head_dim": "head_dim",
    "ff": "intermediate_size",
    "rope_theta": "rope_theta",
    "eps": "rms_norm_eps",
}
_NEEDED = ("target_width", "heads", "vocab", "ff")
_TABLES = ("eagle_config", "rope_parameters", "rope_scaling")
_PREFIXES = ("model.", "draft_model.", "module.")
_MEDUSA_PARTS = {"0.linear.weight": "inner", "0.linear.bias": "bias", "1.weight": "outer"}
_MEDUSA_NAME = re.compile(r"(?:medusa_head\.)?(0|[1-9][0-9]{0,2})\.(0\.linear\.weight|0\.linear\.bias|1\.weight)")
_USUAL_SHARES = (0.55, 0.12, 0.06, 0.04, 0.03, 0.02, 0.015, 0.012, 0.01, 0.008)
"""A stand-in for how often ranks are right, as no table comes with released heads; later heads see less."""


def name_of(folder: Path, config: dict[str, Any]) -> str:
    """What a published folder is called: its target where it names one."""
    base = config.get("base_model_name_or_path") or config.get("_name_or_path")
    base = " ".join(str(base or "").split())[:120]
    return f"{base} (published layout, target weights not named)" if base else f"{folder.name} (published layout)"


def eagle_tensors(folder: Path, tensors: dict[str, Tensor], adapter: ModelAdapter) -> dict[str, Tensor]:
    """The tensors of an EAGLE-3 checkpoint under our names, `d2t` `[V_d]` among them when it has one.

    Raises ModelError where one is missing or of a form that is not supported.
    """
    plain = {_plain(name): tensor for name, tensor in tensors.items()}
    if len(plain) < len(tensors):
        raise ModelError(f"{OPTION} {folder}: no EAGLE-3 checkpoint in the published layout: it holds a tensor twice")
    _refuse_own_embedding(folder, plain.pop("embed_tokens.weight", None), adapter)
    plain.pop("t2d", None)  # says again what d2t says
    d2t = plain.pop("d2t", None)
    unknown = sorted(set(plain) - set(_EAGLE_NAMES))
    missing = sorted(set(_EAGLE_NAMES) - set(plain))
    if unknown or missing:
        wrong = f"has {unknown[0][:80]}" if unknown else f"lacks {missing[0]}"
        raise ModelError(f"{OPTION} {folder}: no EAGLE-3 checkpoint in the published layout: it {wrong}")
    out = {ours: plain[theirs] for theirs, ours in _EAGLE_NAMES.items()}
    return out if d2t is None else {**out, "d2t": d2t}


def _plain(name: str) -> str:
    for prefix in _PREFIXES:
        name = name.removeprefix(prefix)
    return re.sub(r"^layers\.0\.", "midlayer.", name)


def _refuse_own_embedding(folder: Path, own: Tensor | None, adapter: ModelAdapter) -> None:
    """Some folders carry a copy of the target's embedding; another one would be read wrongly."""
    theirs = adapter.embedding.weight
    if own is not None and (own.shape != theirs.shape or not torch.allclose(own.to(theirs), theirs, atol=1e-2)):
        raise ModelError(
            f"{OPTION} {folder}: brings an embedding that is not the target {adapter.name}'s; it was made for another"
        )


def eagle_sizes(folder: Path, config: dict[str, Any], adapter: ModelAdapter) -> dict[str, Any]:
    """The fields of our config that a published `config.json` fixes. Raises ModelError for what is not supported."""
    odd = next((name for name in _TABLES if not isinstance(config.get(name) or {}, dict)), None)
    if odd is not None:
        raise ModelError(f"{OPTION} {folder}: config.json says {odd} = {shown(config[odd])}; it must be a table")
    wrong = _unsupported(config, taps(adapter.n_layers))
    if wrong is not None:
        raise ModelError(f"{OPTION} {folder}: a published EAGLE-3 drafter with {wrong} is not supported")
    rope = _rope(config)
    sizes = {ours: rope[theirs] for ours, theirs in _EAGLE_FIELDS.items() if theirs in rope}
    sizes = {ours: value for ours, value in sizes.items() if value is not None or ours in _NEEDED}
    wrong = fault(sizes, _NEEDED, _EAGLE_FIELDS)
    if wrong is None:
        heads = sizes["heads"]
        usual = {"kv_heads": heads, "head_dim": sizes["target_width"] // heads, "draft_vocab": sizes["vocab"]}
        sizes = {"rope_theta": 10_000.0, **usual, **sizes, "taps": taps(adapter.n_layers)}
        wrong = fault(sizes, named=_EAGLE_FIELDS)
    if wrong is not None:
        raise ModelError(f"{OPTION} {folder}: config.json of an EAGLE-3 checkpoint {wrong}")
    return sizes


def _rope(config: dict[str, Any]) -> dict[str, Any]:
    """With rotary settings, which newer files keep in a table of their own."""
    return {**config, **(config.get("rope_parameters") or {}), **(config.get("rope_scaling") or {})}


def _unsupported(config: dict[str, Any], usual: tuple[int, ...]) -> str | None:
    """What of a config would be read wrongly; the first thing found. `usual`: the layers that are read here."""
    own = config.get("eagle_config") or {}
    layers = own.get("eagle_aux_hidden_state_layer_ids", config.get("eagle_aux_hidden_state_layer_ids"))
    kind = _rope(config).get("rope_type", _rope(config).get("type", "default"))
    norms = [name for name in ("norm_before_residual", "norm_before_fc", "fc_norm", "norm_output") if config.get(name)]
    present = {
        "its layer in a table of its own (transformer_layer_config)": "transformer_layer_config" in config,
        f"{shown(config.get('num_hidden_layers'))} layers, not one,": config.get("num_hidden_layers", 1) != 1,
        f"rotary scaling {shown(kind)}": kind != "default",
        f"features of layers {shown(layers)}, not {list(usual)},": layers is not None and layers != list(usual),
        f"{norms[0] if norms else ''}": bool(norms),
        f"activation {shown(config.get('hidden_act'))}": config.get("hidden_act", "silu") != "silu",
    }
    return next((what for what, is_so in present.items() if is_so), None)


def medusa_tensors(folder: Path, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The heads of a Medusa checkpoint: `inner` `[heads, d, d]`, `bias` `[heads, d]`, `outer` `[heads, V, d]`.

    Raises ModelError where they cannot be stacked so.
    """
    by_place: dict[tuple[str, int], Tensor] = {}
    for name, tensor in tensors.items():
        place = _MEDUSA_NAME.fullmatch(name)
        if place is None:
            raise _no_heads(folder, f"it has {name[:80]}; one residual block a head is supported")
        by_place[_MEDUSA_PARTS[place[2]], int(place[1])] = tensor
    if len(by_place) < len(tensors):
        raise _no_heads(folder, "it holds a tensor twice")
    parts, n = tuple(_MEDUSA_PARTS.values()), 1 + max((head for _, head in by_place), default=-1)
    lacking = [head for head in range(n) for part in parts if (part, head) not in by_place]
    if lacking or not n:
        raise _no_heads(folder, f"head {lacking[0]} lacks a part" if lacking else "it has no heads")
    sizes = {tuple((by_place[part, head].shape, by_place[part, head].dtype) for part in parts) for head in range(n)}
    inner, outer = by_place["inner", 0], by_place["outer", 0]
    if len(sizes) > 1:
        raise _no_heads(folder, "heads of several sizes or types")
    if outer.dim() != 2 or inner.shape != (outer.shape[1],) * 2 or by_place["bias", 0].shape != outer.shape[1:]:
        held = " and ".join(str(list(by_place[part, 0].shape)) for part in parts)
        raise _no_heads(folder, f"tensors of {held} are no head; one is [d, d], [d] and [tokens, d]")
    return {part: torch.stack([by_place[part, head] for head in range(n)]) for part in parts}


def _no_heads(folder: Path, wrong: str) -> ModelError:
    return ModelError(f"{OPTION} {folder}: no Medusa checkpoint in the published layout: {wrong}")


def usual_shares(heads: int) -> tuple[tuple[float, ...], ...]:
    """The stand-in table for heads that bring none."""
    return tuple(tuple(round(value * 0.75**head, 6) for value in _USUAL_SHARES) for head in range(heads))
