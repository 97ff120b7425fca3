"""The attention function that models of this engine run with, registered under the library's interface.

The library materialises repeated keys and values for masked multi-row queries; folding the query groups into rows
gives the same numbers without the copy. Masks are boolean, `[1, 1, n, kv]`, or already tiled per
group `[1, 1, G * n, kv]` (done once a forward, not once a layer).

Rotary tables: worked out once by the library's module for many positions, then sliced.

Angles of the static kinds depend on the position alone. The dynamic ones look at the longest position of a call, so
they are asked every time.
"""

from typing import Any

import torch
from transformers import AttentionInterface
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

from specviz.engine.model.exact.attention import exact_attention
from specviz.engine.model.exact.plan import RowPlan
from specviz.errors import ModelError

Tensor = torch.Tensor

NAME = "specviz"

# Arguments of the library's attention interface that change nothing here: windows are in the mask, positions in the
# rotary tables, and the rest is for kernels, caches and outputs that a run does not ask for.
_WITHOUT_EFFECT = frozenset(
    {
        "sliding_window",
        "position_ids",
        "cache_position",
        "position_embeddings",
        "use_cache",
        "past_key_values",
        "layer_past",
        "output_attentions",
        "output_hidden_states",
        "output_router_logits",
        "return_dict",
        "deterministic",
        "num_items_in_batch",
        "logits_to_keep",
        "token_type_ids",
    }
)


def packed_attention(
    module: Any,
    query: Tensor,  # [B, H, n, D]
    key: Tensor,  # [B, K, kv, D]
    value: Tensor,
    attention_mask: "Tensor | RowPlan | None",
    scaling: float | None = None,
    dropout: float = 0.0,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Scaled dot-product attention with query groups as rows; returns `[B, n, H, D]`, as wide as values are.

    A `RowPlan` in place of the mask asks for rows that are exact. `s_aux` `[H]`: attention sinks, one more score of
    every row whose weight goes nowhere (GPT-OSS). Raises ModelError for an argument that nobody here knows: left out in
    silence, it would give wrong text.
    """
    for name, argument in kwargs.items():
        if argument is not None and name not in _WITHOUT_EFFECT and (name, argument) != ("is_causal", True):
            raise ModelError(f"its attention takes '{name}', which is not supported here")
    batch, heads, n, dim = query.shape
    if isinstance(attention_mask, RowPlan):
        scale = dim**-0.5 if scaling is None else scaling
        return exact_attention(query, key, value, attention_mask, scale, softcap, s_aux), None
    groups = heads // key.shape[1]
    mask = attention_mask
    if mask is None and n > 1:  # the library leaves the mask out for a plain causal prefill
        mask = query.new_ones(n, key.shape[2], dtype=torch.bool).tril(key.shape[2] - n)[None, None]
    if mask is not None and mask.shape[-2] == n and groups > 1:
        mask = mask.repeat(1, 1, groups, 1)
    packed = query.reshape(batch, key.shape[1], groups * n, dim)
    if s_aux is not None:
        sinks = s_aux.to(query.dtype).view(key.shape[1], groups, 1).expand(-1, -1, n).reshape(1, -1, groups * n, 1)
        out = _scored(packed, key, value, mask, dim**-0.5 if scaling is None else scaling, softcap, sinks)
    elif softcap is None:
        out = torch.nn.functional.scaled_dot_product_attention(packed, key, value, attn_mask=mask, scale=scaling)
    else:
        out = _scored(packed, key, value, mask, dim**-0.5 if scaling is None else scaling, softcap)
    return out.reshape(batch, heads, n, value.shape[3]).transpose(1, 2), None


def _scored(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    scale: float,
    cap: float | None,
    sinks: Tensor | None = None,
) -> Tensor:
    """Attention with tanh-capped scores (Gemma 2) or with sinks (GPT-OSS); no fused kernel takes them."""
    scores = query @ key.transpose(-1, -2)
    scores = scores * scale if cap is None else torch.tanh(scores * (scale / cap)) * cap
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    if sinks is not None:
        scores = torch.cat([scores, sinks], -1)
    weights = scores.softmax(-1, dtype=scores.dtype if scores.dtype == torch.float64 else torch.float32)
    if sinks is not None:
        weights = weights[..., :-1]
    return weights.to(query.dtype) @ value


def use_packed_attention(model: Any) -> None:
    """Make a loaded model run with `packed_attention`. Both interfaces: without the mask one the mask would be None."""
    AttentionInterface.register(NAME, packed_attention)
    AttentionMaskInterface.register(NAME, sdpa_mask)
    model.config._attn_implementation = NAME
    for config in {id(c): c for c in (model.config, model.config.get_text_config())}.values():
        config._attn_implementation = NAME
    for module in model.modules():
        if hasattr(module, "config") and hasattr(module.config, "_attn_implementation"):
            module.config._attn_implementation = NAME


_STEP = 512


class RopeTable:
    """Cosines and sines of one rotary module, for one layer type when it has several."""

    def __init__(self, rope: Any, layer_type: str | None = None) -> None:
        self.rope, self.layer_type = rope, layer_type
        kind = getattr(rope, "rope_type", "unknown")
        kind = kind[layer_type] if isinstance(kind, dict) and layer_type in kind else kind
        self.static = isinstance(kind, str) and kind in ("default", "linear", "llama3", "yarn")
        self._table: tuple[Tensor, Tensor] | None = None

    def at(self, hidden: Tensor, positions: list[int], where: Tensor) -> tuple[Tensor, Tensor]:
        """`(cos, sin)`, each `[1, n, head_dim]`. `where`: the positions as a tensor `[1, n]`."""
        if not self.static:
            return self._ask(hidden, where)
        cos, sin = self._upto(hidden, max(positions) + 1)
        first, n = positions[0], len(positions)
        if positions == list(range(first, first + n)):
            return cos.narrow(1, first, n), sin.narrow(1, first, n)
        return cos[:, where[0]], sin[:, where[0]]

    def _upto(self, hidden: Tensor, length: int) -> tuple[Tensor, Tensor]:
        table = self._table
        if table is None or table[0].shape[1] < length:
            size = -(-length // _STEP) * _STEP
            table = self._table = self._ask(hidden, torch.arange(size, device=hidden.device)[None])
        return table

    def _ask(self, hidden: Tensor, where: Tensor) -> tuple[Tensor, Tensor]:
        cos, sin = self.rope(hidden, where) if self.layer_type is None else self.rope(hidden, where, self.layer_type)
        return cos, sin
