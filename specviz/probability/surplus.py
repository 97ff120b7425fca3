"""`(w p - q)+`: by how much a row is above another, entry by entry, and the mass of that.

Verdicts that judge whole rows spend their time here. By numpy that is four passes over memory; the engine brings a
kernel that takes one (`SURPLUS.kernel`). Entries are the same to the last bit either way, and masses are added up in
double, so that a verdict does not hang on which of them it was.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from specviz.probability.arrays import np

Masses = tuple[list[float], list[float]]  # by row: what it has more than the other, and less


class SurplusOf:
    """Surpluses of rows `[n, V]` over laws `[m, V]`, in numpy. A row is a number among them or an array `[V]`."""

    def __init__(self, rows: Any, laws: Any) -> None:
        self.rows, self.laws = rows, laws

    def mass(self, row: Any, law: int, weight: float) -> float:
        """The mass of `(weight row - law)+`."""
        return self._into(row, law, weight, self._scratch)

    def left(self, row: Any, law: int, weight: float) -> tuple[float, Any]:
        """The same, and the entries `[V]`, a new array."""
        out = np.empty_like(self.rows[0])
        return self._into(row, law, weight, out), out

    def _into(self, row: Any, law: int, weight: float, out: Any) -> float:
        here = self.rows[row] if isinstance(row, int) else row
        np.multiply(here, here.dtype.type(weight), out=out)
        np.subtract(out, self.laws[law], out=out, casting="same_kind")
        np.maximum(out, 0, out=out)
        return float(np.add.reduce(out, dtype=np.float64))

    @cached_property
    def _scratch(self) -> Any:
        """A row `[V]` to work in, as fresh memory costs more than the arithmetic on it."""
        return np.empty_like(self.rows[0])


class PositiveResidual:
    """By the kernel where there is one that reads such rows, else by numpy.

    `kernel`: the engine's (`compiled.surplus`), which reads rows once, or None. It reads float32 arrays in main memory
    whose rows are in one piece, and gives None for others.
    """

    def __init__(self) -> None:
        self.kernel: Any = None

    def of(self, rows: Any, laws: Any) -> SurplusOf:
        """Rows `[n, V]` and laws `[m, V]`, arrays of numpy without Fractions, each looked at many times."""
        result: SurplusOf | None = None if self.kernel is None else self.kernel.of(rows, laws)
        return SurplusOf(rows, laws) if result is None else result

    def masses(self, rows: Any, laws: Any, a: Sequence[float], b: Sequence[float] | None = None) -> Masses | None:
        """The masses of `(a p - b q)+` and of `(b q - a p)+` of rows and laws `[n, V]`, `b` None: 1.

        None where no kernel reads them.
        """
        result: Masses | None = None if self.kernel is None else self.kernel.masses(rows, laws, a, b)
        return result


SURPLUS = PositiveResidual()
