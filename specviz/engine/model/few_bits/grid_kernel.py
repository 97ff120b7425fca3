"""`grids.c`: the two loops over all weights of a four-bit draft, where a C compiler is at hand.

Looked at by torch a model of 135 million weights goes through memory some forty times; here twice. What torch computes
in a fixed order is computed in the same one, and sums that depend on their order are left to torch, so that a grid is
the same with a compiler or without.
"""

import ctypes
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from specviz.engine.model.compiled.build import Once, built
from specviz.engine.model.compiled.library import VECTORS, typed
from specviz.names import COMPILE

Tensor = torch.Tensor

_SOURCE = Path(__file__).with_name("grids.c")
# Nothing contracted: a product and a sum in one rounding would be other numbers than torch's.
_FLAGS = ("-O3", "-march=native", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-shared", "-fPIC")
_NAMES = {torch.float32: "float", torch.bfloat16: "bf16"}
_AT_ONCE = 1 << 13  # groups whose numbers stay in the cache between the loop and the sums

_long, _float, _pointer = ctypes.c_long, ctypes.c_float, ctypes.c_void_p


@dataclass(frozen=True, slots=True)
class GroupLines:
    """Of groups `[g]`: their ends, the steps between them that they are on (int32, 0: on no grid) and, for those, what
    the line through their weights is made of: places run from 0 to the steps."""

    low: Tensor
    high: Tensor
    n_steps: Tensor
    centre: Tensor  # the mean of places
    spread: Tensor  # the sum of their squares about it
    pull: Tensor  # the sum of weights, each by its place from the centre
    mean: Tensor  # of weights


@dataclass(frozen=True, slots=True)
class GridKernel:
    """The functions for weights of a dtype."""

    fit: Any
    put: Any

    def lines(self, groups: Tensor, most: int, rounding: float, flat: float) -> GroupLines:
        """Of groups `[g, 32]`, each tried on `most` steps, then one less, and so on; 0: their ends alone."""
        groups = groups.contiguous()
        n, wide = groups.shape
        floats = torch.empty(6, n)
        low, high, centre, spread, pull, mean = floats
        n_steps = torch.empty(n, dtype=torch.int32)
        numbers, pulls = torch.empty(2, min(n, _AT_ONCE), wide)
        for start in range(0, n, _AT_ONCE):
            here = slice(start, min(n, start + _AT_ONCE))
            some = here.stop - start
            addresses = (bound[here].data_ptr() for bound in (low, high, n_steps, centre, spread))
            buffers = numbers.data_ptr(), pulls.data_ptr()
            self.fit(groups[here].data_ptr(), some, most, rounding, flat, *buffers, *addresses)
            if most:
                pull[here], mean[here] = pulls[:some].sum(1), numbers[:some].mean(1)
        return GroupLines(low, high, n_steps, centre, spread, pull, mean)

    def levels(self, groups: Tensor, step: Tensor, middle: Tensor) -> Tensor:
        """The nearest levels of groups `[g, 32]`, uint8."""
        groups, step, middle = groups.contiguous(), step.contiguous(), middle.contiguous()
        out = torch.empty(groups.shape, dtype=torch.uint8)
        self.put(groups.data_ptr(), len(groups), *(tensor.data_ptr() for tensor in (step, middle, out)))
        return out


def grid_kernel(weight: Tensor) -> GridKernel | None:
    """The one for a matrix; None where there is none, and torch has to do."""
    if weight.device.type != "cpu" or weight.dtype not in _NAMES or os.environ.get(COMPILE) == "off":
        return None
    try:
        return _kernels()[weight.dtype]
    except OSError:
        return None


@Once
def _kernels() -> dict[torch.dtype, GridKernel]:
    library = built("grids", (_SOURCE, VECTORS), _FLAGS)
    return {
        dtype: GridKernel(
            typed(library[f"fit_{name}"], [_pointer, _long, _long, _float, _float, *[_pointer] * 7]),
            typed(library[f"put_{name}"], [_pointer, _long, *[_pointer] * 3]),
        )
        for dtype, name in _NAMES.items()
    }
