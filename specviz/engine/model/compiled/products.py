"""Products by the compiled kernel, for networks beside the target that are no decoder layers it knows.

A drafter's few rows wait for its weights, and the kernel reads them two to four times as fast as torch's products of
so few rows do.
"""

from collections.abc import Callable
from functools import cache
from types import MethodType
from typing import Any

import torch
from torch import nn

from specviz.engine.model.compiled.library import functions

Tensor = torch.Tensor
Product = Callable[[Tensor, Tensor, Tensor | None], Tensor]

_STEP = 32  # numbers of a row that the kernel takes at once


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
        if type(module) is nn.Linear and module.weight.device.type == "cpu" and module.in_features % _STEP == 0:
            found = known.get(module.weight.dtype)
            if found is not None and module.weight.is_contiguous():
                module.forward = MethodType(_forward, module)  # type: ignore[method-assign]  # a copy is bound to its own
                n += 1
    return n


def _forward(module: nn.Linear, rows: Tensor) -> Tensor:
    if rows.dtype != module.weight.dtype:  # autocast, or a network that was widened since
        return nn.functional.linear(rows, module.weight, module.bias)
    return _product_of(rows.dtype)(rows, module.weight, module.bias)


@cache
def _product_of(dtype: torch.dtype) -> Product:
    return product_by(functions()[dtype].product)
