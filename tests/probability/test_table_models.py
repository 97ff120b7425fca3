"""Table models and their laws."""

from fractions import Fraction

import pytest

from specviz.errors import SpecvizError
from specviz.probability.table_models import CASE_A, CASE_B, CASES, Iid, Markov, PrefixTable, exact_row, law


def test_selected_entries_of_the_golden_law() -> None:
    played_law = law(CASE_B.p, 3)
    texts = {(0, 0, 0): ".18", (0, 1, 1): ".075", (0, 2, 2): ".035", (1, 2, 2): ".063", (2, 2, 2): ".098"}
    assert {t: played_law[t] for t in texts} == {t: Fraction(v) for t, v in texts.items()}


@pytest.mark.parametrize("case", "ABC")
def test_every_law_sums_to_one(case: str) -> None:
    for table in (CASES[case].p, CASES[case].q):
        assert sum(law(table, 3).values()) == 1
        assert sum(law(table.in_floats(), 3).values()) == pytest.approx(1)
        assert table.vocab == CASES[case].vocab


def test_law_ends_at_stop_tokens() -> None:
    third = Fraction(1, 3)
    assert law(CASE_A.p, 2, stop=[0]) == {(0,): third, (1, 0): 2 * third * third, (1, 1): 4 * third * third}


def test_a_prefix_without_a_row() -> None:
    table = PrefixTable({(): exact_row(["1"])})
    assert table.row(()) == [1]
    assert PrefixTable({}, exact_row(["1/4", ".75"])).in_floats().row((1,)).tolist() == [0.25, 0.75]
    with pytest.raises(SpecvizError, match='no row for the prefix "0,0"'):
        table.row((0, 0))


def test_tables_are_plain_values() -> None:
    assert isinstance(CASE_A.p, Iid)
    assert isinstance(CASE_B.p, Markov)
    assert CASE_B.in_floats().p.row((2,)).tolist() == [0.1, 0.2, 0.7]
