"""A decoder layer of the Llama kind in one function: what the library's modules compute, without their calls.

Between small products most of a layer's time is calls (123 us a layer against 51 where it was measured). Query, key and
value are one product here, gate and up another. A loaded model runs so where every layer gave the library's own numbers
on a few rows, bit for bit (`direct_backend`); a quantised draft model, whose weights are others anyway, where they are
near with the weights as they came.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.functional import rms_norm, silu

from specviz.engine.model import huge_pages
from specviz.engine.model.adapter import ModelAdapter
from specviz.engine.model.backend import TorchBackend
from specviz.engine.model.cache import KVCache
from specviz.engine.model.drafts.corrected import CorrectedLinear, Correction, joined
from specviz.engine.model.layers.attention import packed_attention
from specviz.engine.model.layers.hooked import present
from specviz.engine.model.selftest import tolerance

Tensor = torch.Tensor
Multiply = Callable[[Tensor], Tensor]
Make = Callable[[Tensor, Tensor | None], Multiply]  # of a weight `[out, in]` and a bias
Linear = Callable[[Tensor, Tensor, Tensor | None], Tensor]  # rows `[.., in]`, weight `[out, in]`, bias

_ATTENTION, _MLP = ("q_proj", "k_proj", "v_proj", "o_proj"), ("gate_proj", "up_proj", "down_proj")
_MODULES = {
    "layer": {"self_attn", "mlp", "input_layernorm", "post_attention_layernorm"},
    "self_attn": {*_ATTENTION, "q_norm", "k_norm"},
    "mlp": {*_MLP, "act_fn"},
}


@dataclass(frozen=True, slots=True)
class Norm:
    """The weight and epsilon of an RMS norm."""

    weight: Tensor
    eps: float

    @classmethod
    def of(cls, module: Any, dtype: torch.dtype) -> "Norm":
        return cls(module.weight.detach().to(dtype), module.variance_epsilon)

    def __call__(self, rows: Tensor) -> Tensor:
        return rms_norm(rows, self.weight.shape, self.weight, self.eps)


class DirectLayer:
    """Stands in a backend's list of layers. `make` packs a weight, `norm` reads a norm.

    Raises AttributeError for a layer that is built otherwise.
    """

    def __init__(
        self,
        layer: Any,
        make: Make,
        dtype: torch.dtype,
        norm: "Callable[[Any, torch.dtype], Multiply]" = lambda module, dtype: Norm.of(module, dtype),
    ) -> None:
        attention, mlp = layer.self_attn, layer.mlp
        for name, module in (("layer", layer), ("self_attn", attention), ("mlp", mlp)):
            if not set(module._modules) <= _MODULES[name] or not isinstance(module, nn.Module):
                raise AttributeError(f"unknown parts of {name}")
        if not isinstance(mlp.act_fn, nn.SiLU) and type(mlp.act_fn).__name__ != "SiLUActivation":
            raise AttributeError("another activation")
        self.index, self.scale, self.dim = attention.layer_idx, attention.scaling, attention.head_dim
        self.n_heads = attention.q_proj.weight.shape[0] // self.dim
        self.n_turned = self.n_heads + attention.k_proj.weight.shape[0] // self.dim  # heads with a position
        self.before = norm(layer.input_layernorm, dtype)
        self.behind = norm(layer.post_attention_layernorm, dtype)
        normed = "q_norm" in attention._modules
        self.norms = (
            *(layer.input_layernorm, layer.post_attention_layernorm),
            *((attention.q_norm, attention.k_norm) if normed else (None, None)),
        )
        self.of_query = norm(attention.q_norm, dtype) if normed else None
        self.of_key = norm(attention.k_norm, dtype) if normed else None
        self.qkv = _joined([attention.q_proj, attention.k_proj, attention.v_proj], make, dtype)
        self.out = _joined([attention.o_proj], make, dtype)
        self.gate_up = _joined([mlp.gate_proj, mlp.up_proj], make, dtype)
        self.down = _joined([mlp.down_proj], make, dtype)

    @property
    def dense(self) -> "list[Dense]":
        """Its products whose weights are as they came."""
        return [product for product in (self.qkv, self.out, self.gate_up, self.down) if isinstance(product, Dense)]

    def __call__(
        self,
        hidden: Tensor,
        attention_mask: Tensor | None,
        past_key_values: KVCache,
        position_embeddings: tuple[Tensor, Tensor],
        **_: Any,
    ) -> Tensor:
        """Rows `[1, n, width]` through the layer; keys and values go to the cache."""
        heads = self.qkv(self.before(hidden)).view(1, hidden.shape[1], -1, self.dim)  # [1, n, heads + 2 KV heads, dim]
        turned, values = heads[:, :, : self.n_turned], heads[:, :, self.n_turned :]
        if self.of_query is not None and self.of_key is not None:
            query, key = turned[:, :, : self.n_heads], turned[:, :, self.n_heads :]
            turned = torch.cat([self.of_query(query), self.of_key(key)], 2)
        cos, sin = position_embeddings
        half = self.dim // 2
        across = torch.cat([-turned[..., half:], turned[..., :half]], -1)
        turned = (turned * cos[:, :, None] + across * sin[:, :, None]).transpose(1, 2)
        keys, values = past_key_values.update(turned[:, self.n_heads :], values.transpose(1, 2), self.index)
        query = turned[:, : self.n_heads]
        mixed, _weights = packed_attention(None, query, keys, values, attention_mask, self.scale)
        hidden = hidden + self.out(mixed.flatten(2))
        gate, up = self.gate_up(self.behind(hidden)).chunk(2, -1)
        return hidden + self.down(silu(gate) * up)


def _joined(linears: list[Any], make: Make, dtype: torch.dtype) -> Multiply:
    """One product in place of several with the same input. Raises AttributeError for what is no linear layer."""
    if any(not isinstance(linear, nn.Linear) for linear in linears):
        raise AttributeError("no plain linear layer")
    weight = linears[0].weight
    if len(linears) > 1:
        weights = [linear.weight for linear in linears]
        stays = make is Dense and weight.is_cpu  # others are packed, and the one in sixteen bits is dropped
        weight = huge_pages.joined(weights) if stays else torch.cat(weights)
    biases = [linear.bias for linear in linears]
    bias = None
    if any(bias is not None for bias in biases):
        whole = [torch.zeros_like(lin.weight[:, 0]) if lin.bias is None else lin.bias for lin in linears]
        bias = torch.cat(whole).detach()
    product = make(weight.detach(), bias)
    corrections = [linear.correction if isinstance(linear, CorrectedLinear) else None for linear in linears]
    correction = joined(corrections, [linear.out_features for linear in linears])
    if correction is None:
        return product
    return Corrected(product, correction.to(dtype))


@dataclass(frozen=True, slots=True)
class Dense:
    """A product with weights `[out, in]` as they are."""

    weight: Tensor
    bias: Tensor | None = None
    multiply: Linear = nn.functional.linear

    def __call__(self, rows: Tensor) -> Tensor:
        return self.multiply(rows, self.weight, self.bias)


@dataclass(frozen=True, slots=True)
class Corrected:
    """A product, and what is added to it."""

    product: Multiply
    correction: Correction

    def __call__(self, rows: Tensor) -> Tensor:
        added: Tensor = self.correction(rows)
        return self.product(rows) + added


@torch.no_grad()  # not inference mode: its tensors could never be learnt behind
def direct_backend(adapter: ModelAdapter) -> TorchBackend | None:
    """A model's layers in their direct form; None unless each gives the library's numbers to the last bit.

    Weights of one product lie in one piece then, of which the library's modules hold their shares: no second copy.
    """
    layers: list[DirectLayer] = []
    for index, layer in enumerate(adapter.layers):
        try:
            direct = DirectLayer(layer, Dense, adapter.dtype, norm=lambda module, dtype: module.forward)
        except AttributeError:
            return None
        products = (direct.qkv, direct.gate_up)
        if not all(isinstance(product, Dense) for product in products) or not _equal(adapter, index, direct, layers):
            return None
        attention, mlp = layer.self_attn, layer.mlp
        joined = ((attention.q_proj, attention.k_proj, attention.v_proj), (mlp.gate_proj, mlp.up_proj))
        for product, linears in zip(products, joined, strict=True):
            sizes = [len(linear.weight) for linear in linears]
            for linear, share in zip(linears, product.weight.split(sizes), strict=True):  # type: ignore[attr-defined]
                linear.weight.data = share
        layers.append(direct)
    return TorchBackend(adapter, layers)


def direct_layers(backend: TorchBackend) -> list[DirectLayer]:
    """Its layers where all are in their direct form; else none."""
    layers = [layer for layer in backend.layers if isinstance(layer, DirectLayer)]
    return layers if len(layers) == len(backend.layers) else []


def _equal(adapter: ModelAdapter, index: int, direct: DirectLayer, before: Sequence[DirectLayer]) -> bool:
    """Whether a layer's two forms give equal bits: for some rows with a branch, and the first for one, few and many."""
    try:
        return all(
            torch.equal(*(_added(adapter, index, layer, n) for layer in (adapter.layers[index], direct)))
            for n in ((6,) if before else (6, 1, 2, 33))
        )
    except (TypeError, ValueError, RuntimeError, KeyError):
        return False


@torch.inference_mode()
def has_direct_form(adapter: ModelAdapter, index: int) -> bool:
    """Whether `DirectLayer` is that layer of the model: equal states on a chain with a branch, weights untouched."""
    library = adapter.layers[index]
    try:
        wanted = _added(adapter, index, library)
        with present(library):
            direct = _added(adapter, index, DirectLayer(library, Dense, adapter.dtype))
    except AttributeError:
        return False
    except (TypeError, ValueError, RuntimeError, KeyError):
        return False
    # By their lengths: single states of real models are large beside all others, and are rounded by as much.
    return float((direct - wanted).norm() / wanted.norm().clamp(min=1e-6)) < tolerance(adapter.dtype) / 3


def _added(adapter: ModelAdapter, index: int, layer: Any, n: int = 6) -> Tensor:
    """What a layer adds to the embeddings of `n` rows, `[1, n, width]`; of six the last two are a branch."""
    places = [0, 1, 2, 3, 2, 3] if n == 6 else list(range(n))
    visible = np.tri(n, dtype=np.bool_)
    if n == 6:
        visible[4:, 2:4] = False  # the branch leaves the line behind its second row
    hidden = adapter.embed([(7 * k + 3) % adapter.vocab for k in range(n)], places)
    inputs = adapter.backend.plain.inputs(hidden, places, visible, places)  # with the masks that any layer takes
    kind = adapter.types[index]
    out: Tensor = layer(
        hidden,
        attention_mask=inputs.masks[kind],
        position_ids=inputs.positions,
        past_key_values=adapter.new_cache(n),
        position_embeddings=inputs.rope[kind],
        use_cache=True,
    )
    return (out - hidden).to(torch.promote_types(hidden.dtype, torch.float32))
