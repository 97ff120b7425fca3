"""The attention function that models of this engine run with, registered under the library's interface.

The library materialises repeated keys and values for masked multi-row queries; folding the query groups into rows
gives the same numbers without the copy (`engine.md` 1.3). Masks are boolean, `[1, 1, n, kv]`, or already tiled per
group `[1, 1, G * n, kv]` (done once a forward, not once a layer).
"""

from typing import Any

import torch
from transformers import AttentionInterface
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

NAME = "specviz"
Tensor = torch.Tensor


def packed_attention(
    module: Any,
    query: Tensor,  # [B, H, n, D]
    key: Tensor,  # [B, K, kv, D]
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    softcap: float | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Scaled dot-product attention with query groups as rows; returns `[B, n, H, D]`."""
    batch, heads, n, dim = query.shape
    groups = heads // key.shape[1]
    mask = attention_mask
    if mask is None and n > 1:  # the library leaves the mask out for a plain causal prefill
        mask = query.new_ones(n, key.shape[2], dtype=torch.bool).tril(key.shape[2] - n)[None, None]
    if mask is not None and mask.shape[-2] == n and groups > 1:
        mask = mask.repeat(1, 1, groups, 1)
    packed = query.reshape(batch, key.shape[1], groups * n, dim)
    if softcap is None:
        out = torch.nn.functional.scaled_dot_product_attention(packed, key, value, attn_mask=mask, scale=scaling)
    else:
        out = _softcapped(packed, key, value, mask, dim**-0.5 if scaling is None else scaling, softcap)
    return out.reshape(batch, heads, n, dim).transpose(1, 2), None


def _softcapped(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float, cap: float) -> Tensor:
    """Attention with tanh-capped scores (Gemma 2); no fused kernel takes them."""
    scores = torch.tanh((query @ key.transpose(-1, -2)) * (scale / cap)) * cap
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    weights = scores.softmax(-1, dtype=scores.dtype if scores.dtype == torch.float64 else torch.float32)
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
