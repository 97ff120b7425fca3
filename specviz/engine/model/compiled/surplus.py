"""`surplus.c` for `specviz.probability.surplus`, where a C compiler is at hand."""

import os
from array import array
from collections.abc import Sequence
from ctypes import c_double, c_float, c_long, c_void_p
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from specviz.engine.model.compiled.build import Once, built
from specviz.engine.model.compiled.library import VECTORS, typed
from specviz.names import COMPILE
from specviz.probability.surplus import Masses, SurplusOf

_SOURCE = Path(__file__).with_name("surplus.c")
# Nothing contracted: a product and a difference in one rounding would be other entries than numpy's.
_FLAGS = ("-O3", "-march=native", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-shared", "-fPIC")


class CompiledSurplusOf(SurplusOf):
    """Rows and laws by their addresses: where each table begins, and how far apart its rows are. Those of entries that
    were made here are kept with them, as to ask an array for its own takes as long as to read a part of it."""

    def __init__(self, call: Any, rows: Any, laws: Any) -> None:
        super().__init__(rows, laws)  # so that they stay where they are
        self.call, self.size = call, rows.shape[1]
        self.row, self.row_step = _place(rows), rows.strides[0]
        self.law, self.law_step = _place(laws), laws.strides[0]
        self.made: dict[int, tuple[Any, int]] = {}

    def mass(self, row: Any, law: int, weight: float) -> float:
        """The mass of `(weight row - law)+`."""
        return self._sum(row, law, weight, 0)

    def left(self, row: Any, law: int, weight: float) -> tuple[float, Any]:
        """The same, and the entries `[V]`, a new array."""
        out = np.empty(self.size, np.float32)
        place = _place(out)
        self.made[id(out)] = out, place
        return self._sum(row, law, weight, place), out

    def _sum(self, row: Any, law: int, weight: float, out: int) -> float:
        if isinstance(row, int):
            here = self.row + row * self.row_step
        else:
            known = self.made.get(id(row))
            here = _place(row) if known is None else known[1]
        mass: float = self.call(here, self.law + law * self.law_step, self.size, weight, out)
        return mass


@dataclass(frozen=True, slots=True)
class CompiledSurplus:
    """The functions of the library."""

    _left: Any
    _masses: Any

    def of(self, rows: Any, laws: Any) -> CompiledSurplusOf | None:
        """Rows `[n, V]` and laws `[m, V]`, each looked at many times; None for other arrays."""
        if not (_is_plain(rows) and _is_plain(laws)):
            return None
        return CompiledSurplusOf(self._left, rows, laws)

    def masses(self, rows: Any, laws: Any, a: Sequence[float], b: Sequence[float] | None) -> Masses | None:
        """The masses of `(a p - b q)+` and `(b q - a p)+` of rows and laws `[n, V]`, `b` None: 1; None for others."""
        if not (_is_plain(rows) and _is_plain(laws)):
            return None
        n, size = rows.shape
        weights, others, out = array("d", a), array("d", b or ()), array("d", bytes(16 * n))
        steps, place = (rows.strides[0] // 4, laws.strides[0] // 4), out.buffer_info()[0]
        addresses = (weights.buffer_info()[0], others.buffer_info()[0] if b else 0, place, place + 8 * n)
        self._masses(_place(rows), _place(laws), n, size, *steps, *addresses)
        sums = out.tolist()
        return sums[:n], sums[n:]


def _is_plain(rows: Any) -> bool:
    return isinstance(rows, np.ndarray) and rows.dtype == np.float32 and rows.ndim == 2 and rows.strides[1] == 4


def _place(rows: Any) -> int:
    address: int = rows.__array_interface__["data"][0]
    return address


def surplus_kernel() -> CompiledSurplus | None:
    """The kernel; None where there is none, and numpy has to do."""
    if os.environ.get(COMPILE) == "off":
        return None
    try:
        return _kernel()
    except OSError:
        return None


@Once
def _kernel() -> CompiledSurplus:
    """Raises NoKernel."""
    library = built("surplus", (_SOURCE, VECTORS), _FLAGS)
    return CompiledSurplus(
        typed(library["left"], [c_void_p, c_void_p, c_long, c_float, c_void_p], c_double),
        typed(library["masses"], [c_void_p] * 2 + [c_long] * 4 + [c_void_p] * 4),
    )
