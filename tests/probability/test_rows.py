"""Rows: certain tokens, residuals, exact and device arithmetic."""

from fractions import Fraction

import numpy as np
import pytest

from specviz.probability.rows import Certain, CertainRows, at, cumulative, dense, positive_part, scaled
from specviz.probability.table_models import exact_row


def test_certain_is_a_one_hot_row() -> None:
    assert list(Certain(1, 3)) == [0.0, 1.0, 0.0]
    assert dense(Certain(1, 3)).tolist() == [0.0, 1.0, 0.0]
    rows = CertainRows((2, 0), 3)
    assert (len(rows), rows[1]) == (2, Certain(0, 3))
    with pytest.raises(IndexError):
        Certain(1, 3)[3]


@pytest.mark.parametrize("certain", [False, True])
def test_residual_of_a_point_mass(certain: bool) -> None:
    row = np.array([0.5, 0.25, 0.25])
    law = Certain(0, 3) if certain else dense(Certain(0, 3))
    residual, mass = scaled(positive_part(row, law))
    assert residual.tolist() == [0, 0.5, 0.5]
    assert mass == 0.5
    assert row.tolist() == [0.5, 0.25, 0.25]


def test_residual_of_a_certain_row() -> None:
    """Greedy target: a drafted token that is not its token leaves the row as it was."""
    assert scaled(positive_part(Certain(2, 3), Certain(0, 3))) == (Certain(2, 3), 1.0)
    assert scaled(positive_part(Certain(2, 3), Certain(2, 3)))[1] == 0
    assert positive_part(Certain(2, 3), np.array([0.5, 0.25, 0.25])).tolist() == [0, 0, 0.75]


def test_fractions_stay_exact() -> None:
    residual, mass = scaled(positive_part(exact_row(["1/2", "1/3", "1/6"]), exact_row(["1/3", "1/3", "1/3"])))
    assert (list(residual), mass) == ([1, 0, 0], Fraction(1, 6))
    assert list(cumulative(exact_row(["1/3"] * 3))) == [Fraction(1, 3), Fraction(2, 3), 1]
    assert at(exact_row(["1/3", "2/3"]), 1) == Fraction(2, 3)


def test_a_row_without_mass_is_left_alone() -> None:
    row, mass = scaled(np.zeros(3))
    assert (row.tolist(), mass) == ([0, 0, 0], 0)


def test_float32_sums_are_taken_in_float64() -> None:
    row = np.full(3, 1 / 3, dtype=np.float32)
    assert cumulative(row).dtype == np.float64
    assert cumulative(row)[-1] == 3 * float(np.float32(1 / 3))


def test_torch_rows_agree_with_numpy() -> None:
    torch = pytest.importorskip("torch")
    p, q = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.7, 0.1])
    tp, tq = torch.tensor(p), torch.tensor(q)
    for left, right in ((tp, tq), (Certain(1, 3), tq), (tp, Certain(1, 3))):
        plain = positive_part(dense(left) if isinstance(left, Certain) else p, right if right is not tq else q)
        assert positive_part(left, right).tolist() == pytest.approx(list(plain))
    # Greedy target, a point mass that failed, then a drawn sibling: no numpy row may be left to meet the tensor.
    after_point = scaled(positive_part(Certain(0, 3), Certain(1, 3)))[0]
    assert positive_part(after_point, tq).tolist() == pytest.approx([0.8, 0, 0])
    assert isinstance(at(tp, 0), float)
    assert cumulative(tp.float()).dtype == torch.float64
