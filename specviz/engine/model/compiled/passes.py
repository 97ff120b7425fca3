"""Passes over a few rows in one call of a kernel of our own, where a C compiler is at hand.

Between small products most of a pass is calls: the thirty layers of SmolLM2 are some nine hundred of them, which take
longer than reading its weights. The kernel takes rows through all layers with none (`passes.c`). It reads weights once
for any number of rows and adds every sum up in one order, so a row is as exact alone as among many, and none is padded.
The library's own modules are left as they are.
"""

from collections.abc import Collection, Sequence
from copy import copy
from ctypes import addressof, byref, c_void_p, sizeof
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from specviz.engine.model.adapter import ModelAdapter
from specviz.engine.model.cache import KVCache
from specviz.engine.model.compiled.build import NoKernel, NotCompiled
from specviz.engine.model.compiled.library import (
    Functions,
    KernelAttnIndex,
    KernelConfig,
    KernelHead,
    KernelLayer,
    KernelLora,
    functions,
)
from specviz.engine.model.compiled.products import product_by
from specviz.engine.model.exact.plan import BatchWidths, line_of
from specviz.engine.model.few_bits.sharp_head import RescoredInt4Head
from specviz.engine.model.few_bits.weight_only import Int4Linear
from specviz.engine.model.layers.direct_layer import Corrected, Dense, DirectLayer, Multiply, Norm, direct_layers
from specviz.engine.model.selftest import tolerance

Tensor = torch.Tensor

_LANES = 32  # numbers of a row that are taken at once, at most
WIDEST = 256  # numbers of a head, at most
_SPOKEN = 128  # rows whose logits are computed at once, at most


def kernel_backend(adapter: ModelAdapter) -> "KernelBackend | NotCompiled":
    """The compiled kernel for an adapter's layers, in their direct form, and its head; or why there is none."""
    try:
        backend = KernelBackend(adapter, _layers_of(adapter), _functions_for(adapter))
        near = backend.is_near()
    except NoKernel as error:
        return NotCompiled(str(error), not error.asked)
    except ValueError as error:
        return NotCompiled(str(error), False)
    except Exception as error:  # an unforeseen kind of layer: the library's modules run it
        return NotCompiled(f"the kernel cannot take these layers ({type(error).__name__}: {error})", True)
    return backend if near else NotCompiled("its numbers are not those of the library's layers", True)


def _layers_of(adapter: ModelAdapter) -> list[DirectLayer]:
    """Raises ValueError for an adapter of a kind that the kernel is not for."""
    layers = direct_layers(adapter.backend.plain)
    if not layers:
        raise ValueError("its layers have no direct form")
    if adapter.device.type != "cpu":
        raise ValueError("it is for a CPU")
    if "sliding_attention" in adapter.types and (adapter.window or 0) < adapter.context:
        raise ValueError("its layers see a window")
    if type(adapter.head) not in (nn.Linear, RescoredInt4Head):
        raise ValueError(f"its head is a {type(adapter.head).__name__}")
    return layers


def _functions_for(adapter: ModelAdapter) -> Functions:
    """Raises ValueError for numbers that the kernel is not for, NoKernel where there is none."""
    known = functions()
    if adapter.dtype not in known:
        raise ValueError(f"no kernel for {str(adapter.dtype).removeprefix('torch.')}")
    return known[adapter.dtype]


@dataclass(frozen=True, slots=True)
class AttnIndex:
    """What rows see, in the order of their positions: the slots `0..prefix[r]`, then `extra[r, :n_extra[r]]`. int32."""

    prefix: Any
    n_extra: Any
    extra: Any

    def for_kernel(self, start: int, head_stride: int, layer_stride: int) -> KernelAttnIndex:
        """The same for the kernel, which writes their keys from slot `start` on."""
        addresses = (table.ctypes.data for table in (self.prefix, self.n_extra, self.extra))
        return KernelAttnIndex(*addresses, len(self.prefix), self.extra.shape[1], start, head_stride, layer_stride)


def straight(prefix: Any) -> AttnIndex:
    """Of rows `[n]` that see the first slots and nothing else."""
    none = np.zeros((len(prefix), 1), np.int32)
    return AttnIndex(prefix, none[:, 0], none)


def split_at(line: int, visible: Any, prefix: Any) -> AttnIndex:
    """Of rows that see `prefix` `[n]` of the slots before `line`, and what `visible` `[n, kv]` says of the others."""
    if line == visible.shape[1]:
        return straight(prefix)
    own = visible[:, line:]
    n_extra = own.sum(1, dtype=np.int32)
    extra = np.zeros((len(own), int(n_extra.max())), np.int32)
    row, slot = own.nonzero()
    extra[row, np.arange(len(row)) - np.repeat(np.cumsum(n_extra) - n_extra, n_extra)] = line + slot
    return AttnIndex(prefix, n_extra, extra)


@dataclass(frozen=True, slots=True)
class KernelInputs:
    """What the kernel needs of some rows: what each sees, and cosines and sines `[1, n, dim]`."""

    attn: AttnIndex
    rope: tuple[Tensor, Tensor]


class KernelBackend:
    """The layers and the head of an adapter in the kernel. Raises ValueError for what it does not know."""

    products, spare, note = "compiled", 0, ""
    widths: BatchWidths | None = None

    def __init__(self, adapter: ModelAdapter, layers: Sequence[DirectLayer], functions: Functions) -> None:
        self._adapter, self.plain = adapter, adapter.backend.plain
        self._functions, self._item = functions, adapter.dtype.itemsize
        self.product = product_by(functions.matmul)
        norms = [[norm and Norm.of(norm, adapter.dtype) for norm in layer.norms] for layer in layers]
        configs = [_config(layer, its) for layer, its in zip(layers, norms, strict=True)]
        if len({bytes(config) for config in configs}) > 1:
            raise ValueError("layers of several kinds")
        self.config = configs[0]
        self._held = [
            _weights(layer, its) for layer, its in zip(layers, norms, strict=True)
        ]  # known by their addresses
        addresses = ([0 if weight is None else weight.data_ptr() for weight in weights] for weights in self._held)
        self._loras = [_loras(layer, adapter.dtype) for layer in layers]
        self._layers = (KernelLayer * len(layers))(
            *(
                KernelLayer(
                    *of_layer, *(KernelLora(lora.a.data_ptr(), lora.b.data_ptr(), len(lora.a)) for lora in loras)
                )
                for of_layer, loras in zip(addresses, self._loras, strict=True)
            )
        )
        self.config.lora_rank = max(len(lora.a) for loras in self._loras for lora in loras)
        self._places: Sequence[int] = range(len(layers))  # of the layers in a cache
        tensors = [weight for weights in self._held for weight in weights if weight is not None]
        self.head = adapter.head
        if isinstance(adapter.head, nn.Linear):
            self.head = Dense(adapter.head.weight, adapter.head.bias, self.product)
            tensors.append(self.head.weight)
        self._speech = _speech(adapter)
        if not all(it.is_contiguous() and it.dtype in (adapter.dtype, torch.uint8) for it in tensors):
            raise ValueError("weights of several dtypes or strewn")

    def inputs(self, hidden: Tensor, positions: list[int], visible: Any, kv_positions: Any) -> KernelInputs:
        """What rows at some positions see; arguments as in `Backend.inputs`."""
        _, rope = self._adapter.position_tables(hidden, positions)
        cos, sin = next(iter(rope.values()))
        return KernelInputs(self._attn_index(positions, visible, kv_positions), (cos.contiguous(), sin.contiguous()))

    def _attn_index(self, positions: list[int], visible: Any, kv_positions: Any) -> AttnIndex:
        n, kv = len(positions), len(kv_positions)
        where = np.asarray(positions, np.int32)
        if visible is None:
            return straight(np.full(n, kv, np.int32))
        line = line_of(visible, where, np.asarray(kv_positions))
        return split_at(line, visible, np.minimum(line, where + 1).astype(np.int32))

    def forward(
        self, hidden: Tensor, inputs: KernelInputs, cache: KVCache, lo: int, stops: Sequence[int]
    ) -> list[Tensor]:
        """Rows `[1, n, width]` through layers from `lo` to the last of `stops`, and their states at each of them."""
        out = hidden.clone(memory_format=torch.contiguous_format)
        cos, sin = inputs.rope
        held = cache.memory(hidden.new_empty(1, self.config.n_kv_heads, 0, self.config.head_dim))
        n, (_, _, _, _, slots, dim) = hidden.shape[1], held.shape
        stride = slots * dim
        apart, threads = stride * self.config.n_kv_heads, torch.get_num_threads()
        hi = stops[-1]
        kept = {stop: torch.empty_like(out) for stop in stops[:-1]}
        targets = [kept[k].data_ptr() if k in kept else None for k in range(lo, hi)] if kept else []
        copies, first = (c_void_p * len(targets))(*targets), lo
        while lo < hi:
            place, start = self._places[lo], cache.filled[self._places[lo]]
            end = lo + 1
            while end < hi and self._places[end] == place + end - lo and cache.filled[self._places[end]] == start:
                end += 1
            paths = byref(inputs.attn.for_kernel(start, stride, apart))
            room = self._functions.forward_bytes(byref(self.config), paths, end - lo, self._item, threads)
            space = torch.empty(room, dtype=torch.uint8)
            self._functions.forward(
                byref(self.config),
                addressof(self._layers) + lo * _ENTRY,
                end - lo,
                paths,
                *(numbers.data_ptr() for numbers in (out, cos, sin, held[0, place], held[1, place])),
                addressof(copies) + (lo - first) * sizeof(c_void_p) if kept else None,
                None,
                0,
                space.data_ptr(),
                threads,
            )
            cache.filled[place : place + end - lo] = [start + n] * (end - lo)
            lo = end
        return [*kept.values(), out]

    def logits(self, hidden: Tensor) -> Tensor:
        """Final norm and head, `[n, vocab]` in float32; by torch's modules where they are not the kernel's."""
        if self._speech is None:
            return self._adapter.logits_of(self.head(self._adapter.norm(hidden)))
        head, n = self._speech.head, hidden.shape[1]
        out = hidden.new_empty(n, head.vocab, dtype=torch.float32)
        threads = torch.get_num_threads()
        for first in range(0, n, _SPOKEN):
            rows = hidden[0, first : first + _SPOKEN].contiguous()
            room = self._functions.logits_bytes(byref(head), len(rows), self._item, threads)
            space = torch.empty(room, dtype=torch.uint8)
            addresses = rows.data_ptr(), out[first:].data_ptr()
            self._functions.logits(byref(head), *addresses, len(rows), space.data_ptr(), threads)
        return out

    def exact(self, widths: BatchWidths) -> "KernelBackend":
        """The same, said to be exact: the kernel adds up every row alone."""
        out = copy(self)
        out.widths = widths
        return out

    def part(
        self, layers: Sequence[Any], kept: Sequence[int], attention: Collection[int], mlp: Collection[int]
    ) -> "KernelBackend":
        """The same without the attention of some layers and the MLP of some, counted from 0; a layer without either is
        not there."""
        out = copy(self)
        out._places = [self._places[index] for index in kept]
        out._layers = (KernelLayer * len(kept))(*(self._layers[index] for index in kept))
        for index, layer in zip(kept, out._layers, strict=True):
            if index in attention:
                layer.attn_norm = None
            if index in mlp:
                layer.ffn_norm = None
        return out

    @torch.inference_mode()
    def is_near(self) -> bool:
        """Whether every layer adds to a few rows, the last two of them a branch, what the library's layer adds."""
        adapter, n = self._adapter, len(_TRIED)
        visible = np.tri(n, dtype=np.bool_)
        visible[4:, 2:4] = False
        hidden = adapter.embed([(7 * k + 3) % adapter.vocab for k in range(n)], _TRIED)
        passes: list[tuple[Any, Any]] = [
            (way, way.inputs(hidden, _TRIED, visible, _TRIED)) for way in (self.plain, self)
        ]
        for layer in range(adapter.n_layers):
            library, kernel = (
                (way.forward(hidden, inputs, KVCache(adapter.n_layers, n), layer, [layer + 1])[0] - hidden).double()
                for way, inputs in passes
            )
            if not _is_near(kernel, library, adapter.dtype):
                return False
        return self._speech is None or _is_near(self.logits(hidden), self.plain.logits(hidden), adapter.dtype)


_TRIED = [0, 1, 2, 3, 2, 3]  # positions of the rows that are tried


def _is_near(rows: Tensor, library: Tensor, dtype: torch.dtype) -> bool:
    return bool((rows - library).norm() / library.norm().clamp(min=1e-6) < tolerance(dtype) / 3)


@dataclass(frozen=True, slots=True)
class _Speech:
    """The C struct of an lm_head, and the tensors whose addresses it holds (kept alive here)."""

    head: KernelHead
    held: tuple[Tensor | None, ...]


def _speech(adapter: ModelAdapter) -> _Speech | None:
    """Final norm and lm_head of an adapter as a kernel struct; None for kinds the kernel does not support."""
    head, packed = adapter.head, None
    if isinstance(head, RescoredInt4Head) and head.rough.is_ours:
        packed = head.rough.packed
    elif type(head) is not nn.Linear:
        return None
    try:
        norm = Norm.of(adapter.norm, adapter.dtype)
    except AttributeError:
        return None
    weight = head.weight
    known = all(it.is_contiguous() and it.dtype == adapter.dtype for it in (norm.weight, weight))
    if not known or head.bias is not None or not adapter.bare_head or weight.shape[1] % _LANES:
        return None
    addresses = (None if it is None else it.data_ptr() for it in (norm.weight, weight, packed))
    return _Speech(KernelHead(*addresses, weight.shape[1], adapter.vocab, norm.eps), (norm.weight, weight, packed))


_ENTRY = sizeof(KernelLayer)


def _config(layer: DirectLayer, norms: Sequence[Norm | None]) -> KernelConfig:
    """Raises ValueError for a layer that the kernel does not know."""
    down = _products(layer)[-1]
    bits, (width, inner) = (0, down.weight.shape) if isinstance(down, Dense) else (down.bits, (down.n_out, down.n_in))
    eps = {norm.eps for norm in norms if norm is not None}
    if len(eps) > 1 or layer.dim % _LANES or width % _LANES or inner % _LANES:
        raise ValueError(f"rows or heads that are no multiple of {_LANES} wide")
    if layer.dim > WIDEST:
        raise ValueError(f"heads that are more than {WIDEST} wide")
    heads = layer.n_heads, layer.n_turned - layer.n_heads
    return KernelConfig(width, width, inner, *heads, layer.dim, bits, False, eps.pop(), layer.scale)


def _products(layer: DirectLayer) -> "Sequence[Dense] | Sequence[Int4Linear]":
    """Of queries, keys and values, what follows attention, gate and up, and down. Raises ValueError for others."""
    all_four = [it.product if isinstance(it, Corrected) else it for it in _all_four(layer)]
    dense = [product for product in all_four if isinstance(product, Dense)]
    packed = [product for product in all_four if isinstance(product, Int4Linear) and product.is_ours]
    products = dense if len(dense) == len(all_four) else packed
    if len(products) != len(all_four):
        raise ValueError("products of another kind")
    return products


def _all_four(layer: DirectLayer) -> tuple[Multiply, ...]:
    return layer.qkv, layer.out, layer.gate_up, layer.down


@dataclass(frozen=True, slots=True)
class _Lora:
    """What is added to a product `[out, in]`: b a, of a rank that is a multiple of what the kernel takes at once."""

    a: Tensor  # [rank, in]
    b: Tensor  # [out, rank]


def _loras(layer: DirectLayer, dtype: torch.dtype) -> list[_Lora]:
    """Of each of its products, of rank 0 where nothing is added."""
    out = []
    for product in _all_four(layer):
        down, up = torch.empty(0, 0, dtype=dtype), torch.empty(0, 0, dtype=dtype)
        if isinstance(product, Corrected):
            down, up = (factor.detach().to(dtype) for factor in (product.correction.down, product.correction.up))
        more = -len(down) % _LANES
        padded = nn.functional.pad(down, (0, 0, 0, more)), nn.functional.pad(up, (0, more))
        out.append(_Lora(*(factor.contiguous() for factor in padded)))
    return out


def _weights(layer: DirectLayer, norms: Sequence[Norm | None]) -> list[Tensor | None]:
    """A layer's weights in the order of the kernel's C struct."""
    before, behind, of_query, of_key = (None if norm is None else norm.weight for norm in norms)
    qkv, out, gate_up, down = (
        (product.weight if isinstance(product, Dense) else product.packed, product.bias) for product in _products(layer)
    )
    return [before, *qkv, of_query, of_key, *out, behind, *gate_up, *down]
