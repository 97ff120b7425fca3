"""A decoder layer of a drafter in the compiled kernel, which keeps its keys and values in buffers of its own.

Of a drafter's call on a processor half is calls between small products, and a fourth of what is left is reading weights
in sixteen bits that four would do for: a draft that says another token once in a hundred costs that token's round, a
call that takes half as long is half as long in every round.
"""

from collections.abc import Callable, Sequence
from ctypes import addressof, byref
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from specviz.engine.model.compiled.library import Functions, KernelConfig, KernelLayer, functions
from specviz.engine.model.compiled.passes import WIDEST, AttnIndex, split_at, straight
from specviz.engine.model.few_bits.grids import GROUP
from specviz.engine.model.few_bits.weight_only import Int4Linear

Tensor = torch.Tensor


@dataclass(frozen=True, slots=True)
class LayerWeights:
    """Of a layer without biases: norms `[width]`, matrices `[out, in]`; queries, keys and values read `[.., reads]`."""

    before: Tensor
    q: Tensor
    k: Tensor
    v: Tensor
    out: Tensor
    behind: Tensor
    gate: Tensor
    up: Tensor
    down: Tensor
    dim: int  # numbers of a head
    eps: float


class LayerKernel:
    """One layer. Raises ValueError for one that the kernel does not know, OSError where there is none."""

    def __init__(self, weights: LayerWeights, packed: bool) -> None:
        dtype = weights.q.dtype
        functions_of_dtype = functions().get(dtype)
        if functions_of_dtype is None or weights.q.device.type != "cpu":
            raise ValueError("no kernel for its numbers")
        self._functions: Functions = functions_of_dtype
        (width, inner), reads, dim = weights.down.shape, weights.q.shape[1], weights.dim
        if dim > WIDEST or any(weight % GROUP for weight in (width, inner, reads, dim)):
            raise ValueError(f"rows or heads that are no multiple of {GROUP} wide")
        heads, shared = len(weights.q) // dim, len(weights.k) // dim
        pack: Callable[[Sequence[Tensor]], Tensor] = _packed if packed else _joined
        qkv, gate_up = pack([weights.q, weights.k, weights.v]), pack([weights.gate, weights.up])
        out, down = pack([weights.out]), pack([weights.down])
        self._held = (weights.before.contiguous(), qkv, out, weights.behind.contiguous(), gate_up, down)
        before, qkv_at, out_at, behind, gate_up_at, down_at = (weight.data_ptr() for weight in self._held)
        self._layer = KernelLayer(before, qkv_at, 0, 0, 0, out_at, 0, behind, gate_up_at, 0, down_at, 0)
        bits = 4 if packed else 0
        # In eight bits rows lose a tenth of what a grid of four loses: of a draft that is a token in thousands.
        self._config = KernelConfig(width, reads, inner, heads, shared, dim, bits, packed, weights.eps, dim**-0.5)
        self._item = dtype.itemsize
        self.filed = shared, dim  # heads of keys and values, and how wide they are

    def __call__(
        self,
        rows: Tensor,
        read: Tensor,
        rope: tuple[Tensor, Tensor],
        keys: Tensor,
        values: Tensor,
        start: int,
        mask: Any,
    ) -> Tensor:
        """The rows `[1, n, width]` after the layer, whose attention reads `read` `[1, n, reads]`; `rope`: cos and sin
        `[1, n, dim]`. Their keys and values go to slots `start` on of `[1, heads, slots, dim]`. `mask`: bool numpy
        `[n, start + n]`, None for rows that see all before them."""
        out = rows.clone(memory_format=torch.contiguous_format)
        cos, sin, read = (tensor.contiguous() for tensor in (*rope, read))
        stride, threads = keys.shape[2] * keys.shape[3], torch.get_num_threads()
        seen = row_paths(rows.shape[1], start, mask)  # the kernel takes the index's addresses
        paths = byref(seen.for_kernel(start, stride, 0))
        room = self._functions.forward_bytes(byref(self._config), paths, 1, self._item, threads)
        space = torch.empty(room, dtype=torch.uint8)
        addresses = (tensor.data_ptr() for tensor in (out, cos, sin, keys, values))
        more = read.data_ptr(), 0, space.data_ptr(), threads
        self._functions.forward(byref(self._config), addressof(self._layer), 1, paths, *addresses, None, *more)
        return out

    @property
    def c_structs(self) -> tuple[KernelConfig, KernelLayer]:
        """Its settings and weights as C structs, valid while this object lives."""
        return self._config, self._layer


def _joined(parts: Sequence[Tensor]) -> Tensor:
    return parts[0].contiguous() if len(parts) == 1 else torch.cat(list(parts))


def _packed(parts: Sequence[Tensor]) -> Tensor:
    return Int4Linear(_joined(parts)).packed


def row_paths(n: int, start: int, mask: Any) -> AttnIndex:
    """What n rows see whose keys are filed from slot `start` on, by a mask `[n, start + n]`; None: all before them."""
    if mask is None:
        return straight(np.arange(start + 1, start + 1 + n, dtype=np.int32))
    seen = mask.all(0)
    line = mask.shape[1] if seen.all() else int(seen.argmin())
    return split_at(line, mask, np.full(n, line, np.int32))
