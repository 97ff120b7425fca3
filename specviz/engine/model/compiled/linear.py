"""Products of small passes from a kernel of our own, where a compiler is at hand.

A pass over a few rows waits for the weights. torch's products read them well for a row alone and pay for more, or need
more rows than there are before rows are exact (`exact`): this kernel reads them once for any number of rows, and adds
every sum up in one order, so one row is as exact as many. The library's own modules are left as they are.
"""

from typing import cast

import torch
from torch import nn

from specviz.engine.model.adapter import ModelAdapter
from specviz.engine.model.compiled.library import Product, products
from specviz.engine.model.layers.direct_layer import Dense, DirectLayer

Tensor = torch.Tensor

_LANES = 32  # numbers of a row that are taken at once, at most


def compile_products(adapter: ModelAdapter) -> str:
    """Multiply with the compiled kernel in an adapter's direct layers and its head; "" or why it does not.

    Only in one thread: the kernel has no more.
    """
    if adapter.direct is None:
        return "its layers have no direct form"
    if adapter.device.type != "cpu" or torch.get_num_threads() != 1:
        return "it computes on one thread of a CPU alone"
    try:
        product = products().get(adapter.dtype)
    except OSError as error:
        return str(error)
    if product is None:
        return f"no kernel for {str(adapter.dtype).removeprefix('torch.')}"
    head, layers = adapter.head, [cast(DirectLayer, layer) for layer in adapter.direct]
    if type(head) is not nn.Linear:
        return f"its head is a {type(head).__name__}"
    if not all(_fits(weight) for weight in (head.weight, *(each.weight for layer in layers for each in layer.dense))):
        return f"rows that are no multiple of {_LANES} wide"
    multiply = Compiled(product)
    for layer in layers:
        layer.multiply_with(multiply)
    adapter.compiled_head = Dense(head.weight, head.bias, multiply)
    return ""


def as_before(adapter: ModelAdapter) -> None:
    """Multiply with torch's products again."""
    adapter.compiled_head = None
    for layer in adapter.direct or ():
        cast(DirectLayer, layer).multiply_with(nn.functional.linear)


def _fits(weight: Tensor) -> bool:
    return weight.is_contiguous() and weight.shape[1] % _LANES == 0


class Compiled:
    """`rows [.., in]` times `weight [out, in]` and a bias, as `nn.functional.linear`."""

    def __init__(self, product: Product) -> None:
        self._product = product

    def __call__(self, rows: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        if rows.requires_grad:  # somebody learns through it
            return nn.functional.linear(rows, weight, bias)
        rows = rows.contiguous()
        n_out, n_in = weight.shape
        out = rows.new_empty((*rows.shape[:-1], n_out))
        self._product(rows.data_ptr(), weight.data_ptr(), out.data_ptr(), rows.numel() // n_in, n_in, n_out)
        return out if bias is None else out + bias
