"""Products by the compiled kernel, for networks beside the target that are no decoder layers it knows.

A drafter's few rows wait for its weights, and the kernel reads them two to four times as fast as torch's products of
so few rows do; packed in four bits, four times as fast again. What is packed is that of weights as they were: once they
have changed, and wherever somebody learns through them, they are used as they are.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from types import MethodType
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import nn

from specviz.engine.model.compiled.library import functions
from specviz.engine.model.few_bits.four_bit_kernels import TALL
from specviz.engine.model.few_bits.grids import GROUP
from specviz.engine.model.few_bits.weight_only import Int4Linear

Tensor = torch.Tensor
Product = Callable[[Tensor, Tensor, Tensor | None], Tensor]

_STEP = 32  # numbers of a row that the kernel takes at once
KERNELS = (torch.float32, torch.bfloat16)  # of numbers
State = tuple[tuple[int, int], ...]


def product_by(multiply: Any) -> Product:
    """`nn.functional.linear` by a kernel's `product`: rows `[.., in]`, weight `[out, in]`, bias `[out]`; `in` is a
    multiple of 32. Where somebody learns through it, it is torch's."""

    def product(rows: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        if torch.is_grad_enabled() and (rows.requires_grad or weight.requires_grad):
            return nn.functional.linear(rows, weight, bias)
        rows = rows.contiguous()
        n_out, n_in = weight.shape
        out = rows.new_empty((*rows.shape[:-1], n_out))
        addresses = rows.data_ptr(), weight.data_ptr(), out.data_ptr()
        multiply(*addresses, rows.numel() // n_in, n_in, n_out, torch.get_num_threads())
        return out if bias is None else out + bias

    return product


def multiply_compiled(network: nn.Module) -> int:
    """Let the linear maps of a network on the CPU multiply by the kernel, where there is one; how many do."""
    try:
        known = functions()
    except OSError:
        return 0
    n = 0
    for module in network.modules():
        if type(module) is not nn.Linear or module.weight.device.type != "cpu" or not module.weight.is_contiguous():
            continue
        more = -module.in_features % _STEP
        if module.weight.dtype not in known or (more and getattr(module, "bias", None) is not None):
            continue
        if more:
            _WIDENED[module] = KeptWeights(module), nn.functional.pad(module.weight.detach(), (0, more))
        forward = _forward_widened if more else _forward
        module.forward = MethodType(forward, module)  # type: ignore[method-assign]  # a copy is bound to its own
        n += 1
    return n


def normed(rows: Tensor, weight: Tensor, eps: float) -> Tensor:
    """RMS norms of rows `[.., width]` in the weight's dtype, `width` a multiple of 16, by one call of the kernel: torch
    spells them out. Raises OSError where there is no kernel, KeyError for another dtype."""
    rows = rows.contiguous()
    out = torch.empty_like(rows)
    width = rows.shape[-1]
    addresses = rows.data_ptr(), weight.data_ptr(), out.data_ptr()
    functions()[weight.dtype].rmsnorm(*addresses, rows.numel() // width, width, eps)
    return out


def linear(rows: Tensor, weight: Tensor) -> Tensor:
    """`nn.functional.linear` of rows `[.., in]` and a weight `[out, in]`, by the kernel where there is one for them."""
    known = rows.dtype == weight.dtype and rows.dtype in KERNELS and rows.device.type == "cpu"
    if known and not weight.shape[1] % _STEP and weight.is_contiguous():
        with suppress(OSError):
            return _product_of(rows.dtype)(rows, weight, None)
    return nn.functional.linear(rows, weight)


def state_of(weights: Iterable[Tensor]) -> State:
    """Where some weights lie and how often they were written to: the same as long as they are."""
    return tuple((weight.data_ptr(), 0 if weight.is_inference() else weight._version) for weight in weights)


class KeptWeights:
    """Weights of a module that something was made of; `same`: they still are where they were, and as they were.

    Asked before every product of a drafter's round, where walking through modules would take as long as the product.
    """

    def __init__(self, module: nn.Module) -> None:
        both = (own for submodule in module.modules() for own in (submodule._parameters, submodule._buffers))
        named = ((own, name) for own in both for name in own)
        self._places = [(own, name) for own, name in named if own[name] is not None]
        self._was = self._now()

    def _now(self) -> State:
        return state_of([own[name] for own, name in self._places])  # type: ignore[misc]

    @property
    def same(self) -> bool:
        return self._was == self._now()


@dataclass(frozen=True, slots=True)
class Matrix:
    """Weights as the kernel multiplies by them: `[n_out, n_in]`, filled up to whole blocks. `bits`: 4 on a grid, else
    0."""

    held: Tensor
    n_in: int
    n_out: int
    bits: int


def matrix_of(weight: Tensor | nn.Linear, packed: bool) -> Matrix:
    """A weight `[out, in]`, or that of a module that `multiply_compiled` and `pack_linear` know. Raises ValueError for
    one that is not packed, and has to be."""
    if isinstance(weight, nn.Linear):
        known = _PACKED.get(weight)
        if known is not None:
            return _in_four_bits(known[1])
        if getattr(weight, "bias", None) is not None:
            raise ValueError("a product with a bias")
        weight = weight.weight
    weight = weight.detach()
    if weight.device.type != "cpu":
        raise ValueError("weights that are not in main memory")
    if not packed:
        more = (0, -weight.shape[1] % _STEP, 0, -weight.shape[0] % TALL)
        filled = (nn.functional.pad(weight, more) if any(more) else weight).contiguous()
        return Matrix(filled, filled.shape[1], len(filled), 0)
    int4 = Int4Linear(weight)
    if not int4.is_ours:
        raise ValueError("four bits are not the kernel's here")
    return _in_four_bits(int4)


def _in_four_bits(int4: Int4Linear) -> Matrix:
    blocks, groups = int4.packed.shape[:2]
    return Matrix(int4.packed, groups * GROUP, blocks * TALL, 4)


def pack_linear(module: nn.Linear) -> bool:
    """Let a linear map without bias multiply by weights in four bits; whether it does. On a CPU, in bfloat16, behind
    `multiply_compiled`."""
    weight = module.weight
    if getattr(module, "bias", None) is not None or weight.dtype != torch.bfloat16 or module.in_features % _STEP:
        return False
    packed = Int4Linear(weight.detach())
    if not packed.is_ours:
        return False
    _PACKED[module] = KeptWeights(module), packed
    module.forward = MethodType(_forward_packed, module)  # type: ignore[method-assign]
    return True


_PACKED: "WeakKeyDictionary[nn.Linear, tuple[KeptWeights, Int4Linear]]" = WeakKeyDictionary()


def _forward_packed(module: nn.Linear, rows: Tensor) -> Tensor:
    kept = _PACKED.get(module)  # a copy of the module has none
    if kept is None or torch.is_grad_enabled() or rows.dtype != torch.bfloat16 or not kept[0].same:
        return _forward(module, rows)
    return kept[1].forward(rows)


_WIDENED: "WeakKeyDictionary[nn.Linear, tuple[KeptWeights, Tensor]]" = WeakKeyDictionary()


def _forward_widened(module: nn.Linear, rows: Tensor) -> Tensor:
    """With zeros behind rows and weights up to what the kernel takes at once."""
    kept = _WIDENED.get(module)
    learning = torch.is_grad_enabled() or rows.dtype != module.weight.dtype
    if kept is None or learning or not kept[0].same:
        return nn.functional.linear(rows, module.weight)
    return linear(nn.functional.pad(rows, (0, kept[1].shape[1] - module.in_features)), kept[1])


def _forward(module: nn.Linear, rows: Tensor) -> Tensor:
    if rows.dtype != module.weight.dtype:  # autocast, or a network that was widened since
        return nn.functional.linear(rows, module.weight, module.bias)
    return _product_of(rows.dtype)(rows, module.weight, module.bias)


@cache
def _product_of(dtype: torch.dtype) -> Product:
    return product_by(functions()[dtype].matmul)
