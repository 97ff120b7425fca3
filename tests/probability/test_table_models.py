"""Table models: their laws, their JSON forms, and one clear line for everything that cannot be read."""

import json
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from specviz.errors import SpecvizError
from specviz.probability.table_models import CASE_A, CASE_B, CASES, Iid, Markov, PrefixTable, exact_row, law
from specviz.prove.files import parse_problem, read_problem

IID = {"type": "iid", "probs": ["1/3", "2/3"]}
GOOD = {"vocab": 2, "gamma": 2, "p": IID, "q": {"type": "iid", "probs": [0.5, 0.5]}}


def test_selected_entries_of_the_golden_law() -> None:
    """verification.md 7.2."""
    found = law(CASE_B.p, 3)
    texts = {(0, 0, 0): ".18", (0, 1, 1): ".075", (0, 2, 2): ".035", (1, 2, 2): ".063", (2, 2, 2): ".098"}
    assert {t: found[t] for t in texts} == {t: Fraction(v) for t, v in texts.items()}


@pytest.mark.parametrize("case", "ABC")
def test_every_law_sums_to_one(case: str) -> None:
    for table in (CASES[case].p, CASES[case].q):
        assert sum(law(table, 3).values()) == 1
        assert sum(law(table.in_floats(), 3).values()) == pytest.approx(1)
        assert table.vocab == CASES[case].vocab


def test_law_ends_at_stop_tokens() -> None:
    third = Fraction(1, 3)
    assert law(CASE_A.p, 2, stop=[0]) == {(0,): third, (1, 0): 2 * third * third, (1, 1): 4 * third * third}


def test_kinds_of_tables(tmp_path: Path) -> None:
    markov = {"type": "markov", "init": [0.1, 0.9], "trans": [["1/3", "2/3"], [1, 0]]}
    prefix = {"type": "prefix", "rows": {"": [1, 0], "0, 1": ["0.25", "3/4"]}, "default": [0.5, 0.5]}
    path = tmp_path / "tables.json"
    path.write_text(json.dumps({"vocab": 2, "gamma": 3, "p": markov, "q": prefix, "candidates": 2, "tree": [[0, 1]]}))
    problem = read_problem(path)
    assert list(problem.p.row(())) == [Fraction(1, 10), Fraction(9, 10)]  # as typed, not as rounded to binary
    assert list(problem.p.row((1, 0))) == [Fraction(1, 3), Fraction(2, 3)]
    assert list(problem.q.row((0, 1))) == [Fraction(1, 4), Fraction(3, 4)]
    assert list(problem.q.row((1, 1, 1))) == [Fraction(1, 2), Fraction(1, 2)]
    assert (problem.candidates, problem.layout, problem.replacement, problem.tree) == (2, "parallel", True, ((0, 1),))
    floats = problem.in_floats()
    assert floats.q.row((0, 1)).dtype == np.float64
    assert floats.q.row((0, 1)).tolist() == [0.25, 0.75]


def test_a_prefix_without_a_row() -> None:
    table = PrefixTable({(): exact_row(["1"])})
    with pytest.raises(SpecvizError, match='no row for the prefix "0,0"'):
        table.row((0, 0))


def test_rounded_rows_are_divided_out() -> None:
    problem = parse_problem(GOOD | {"p": {"type": "iid", "probs": ["0.3333333", "0.6666666"]}})
    assert list(problem.p.row(())) == [Fraction(3333333, 9999999), Fraction(6666666, 9999999)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"vocab": 0}, "vocab is 0; it must be a whole number, 1 or more"),
        ({"gamma": -1}, "gamma is -1; it must be a whole number in 0..16"),
        ({"gamma": 1.5}, "gamma is 1.5"),
        ({"gamma": True}, "gamma is True"),
        ({"candidates": "2"}, "candidates is '2'"),
        ({"layout": "tree"}, "layout is 'tree'; it must be 'parallel' or 'caterpillar'"),
        ({"replacement": 1}, "replacement is 1"),
        ({"gama": 1}, "unknown key 'gama'; did you mean 'gamma'?"),
        ({"tree": [[0, 2]]}, r"tree\[0\]: 2 is not a token id; ids are 0..1"),
        ({"tree": [0]}, "tree: must be a list of root-to-leaf paths"),
        ({"p": [1, 0]}, "p: a table is an object with a 'type'"),
        ({"p": {"type": "markow"}}, "did you mean 'markov'?"),
        ({"p": {"type": ["iid"]}}, "known: iid, markov, prefix"),
        ({"p": {"type": "iid"}}, "p: a table of type 'iid' needs 'probs'"),
        ({"p": {"type": "iid", "probs": [1, 0], "init": [1, 0]}}, "p: unknown key 'init'"),
        ({"p": {"type": "iid", "probs": [1]}}, r"p.probs: needs 2 numbers \(vocab\), has 1"),
        ({"p": {"type": "iid", "probs": "1 0"}}, "is .1 0., not a list"),
        ({"p": {"type": "iid", "probs": [0.5, 0.4]}}, "p.probs: sums to 0.9, not 1"),
        ({"p": {"type": "iid", "probs": [1.5, -0.5]}}, r"p.probs\[1\]: -0.5 is negative"),
        ({"p": {"type": "iid", "probs": ["1/0", 1]}}, r"p.probs\[0\]: '1/0' is not a number"),
        ({"p": {"type": "iid", "probs": ["a", 1]}}, "'a' is not a number; write 0.25 or"),
        ({"p": {"type": "iid", "probs": [True, 0]}}, "True is not a number"),
        ({"p": {"type": "iid", "probs": [None, 0]}}, "None is not a number"),
        ({"p": {"type": "iid", "probs": [float("nan"), 1]}}, "nan is not a number"),
        ({"p": {"type": "markov", "init": [1, 0], "trans": [[1, 0]]}}, "p.trans: needs 2 rows"),
        ({"p": {"type": "markov", "init": [1, 0], "trans": [[1, 0], [1, 1]]}}, r"p.trans\[1\]: sums to 2"),
        ({"p": {"type": "prefix", "rows": {}}}, "at least one row"),
        ({"p": {"type": "prefix", "rows": {"0,2": [1, 0]}}}, r'p.rows\["0,2"\]: a prefix is token ids 0..1'),
        ({"p": {"type": "prefix", "rows": {"x": [1, 0]}}}, "a prefix is token ids"),
        ({"p": {"type": "prefix", "rows": {"0" * 5000: [1, 0]}}}, "a prefix is token ids"),
        ({"p": {"type": "prefix", "rows": {"0,1": [1, 0], "0, 1": [1, 0]}}}, "another key says the same prefix"),
        ({"gamma": 17}, "gamma is 17; it must be a whole number in 0..16"),
        ({"candidates": 10**9}, "candidates is 1000000000; it must be a whole number in 1..16"),
        ({"gamma": Decimal("2.0")}, "gamma is 2.0; it must"),
        ({"gamma": "y" * 10_000}, r"gamma is 'y{59}\.\. \(10,002 characters\); it must"),
        ({"x" * 10_000: 1}, r"unknown key 'x{59}\.\. "),
        ({"p": {"type": "iid", "probs": [0.5, 0.500002]}}, "sums to 1.000002, not 1"),
        ({"p": {"type": "iid", "probs": [Decimal("1e400"), 1]}}, "more than 100 digits"),
        ({"p": {"type": "iid", "probs": ["1e-99999999", 1]}}, "more than 100 digits"),
        ({"p": {"type": "iid", "probs": ["1e9_999_999_9", 1]}}, "more than 100 digits"),
        ({"p": {"type": "iid", "probs": ["0." + "3" * 6000, 1]}}, r"'0\.3+\.\. \(6,004 characters\) has more than 100"),
    ],
)
def test_one_clear_line(change: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecvizError, match=message) as error:
        parse_problem(GOOD | change, "my.json")
    assert str(error.value).startswith("my.json")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("missing", ["vocab", "gamma", "p", "q"])
def test_what_is_needed(missing: str) -> None:
    with pytest.raises(SpecvizError, match=f"'{missing}' is missing"):
        parse_problem({k: v for k, v in GOOD.items() if k != missing})


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(SpecvizError, match=r"cannot read the tables .*none.json: No such file"):
        read_problem(tmp_path / "none.json")
    torn = tmp_path / "torn.json"
    torn.write_text('{"vocab": 2,\n "gamma"')
    with pytest.raises(SpecvizError, match=r"torn.json, line 2: not JSON"):
        read_problem(torn)
    torn.write_bytes(b"\xff\xfe")
    with pytest.raises(SpecvizError, match="not UTF-8"):
        read_problem(torn)
    torn.write_text('{"vocab": 2, "gamma": 1, "p": {"type": "iid", "probs": [NaN, 1]}, "q": 1}')
    with pytest.raises(SpecvizError, match="'NaN' is not a number"):
        read_problem(torn)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 200_000, "brackets in brackets without end"),
        ('{"vocab": ' + "9" * 5000 + "}", "thousands of digits"),
        ('{"vocab": 2, "gamma": 1, "gamma": 2}', "the key 'gamma' stands twice"),
    ],
    ids=["deep", "digits", "twice"],
)
def test_what_json_itself_chokes_on_or_swallows(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text(text)
    with pytest.raises(SpecvizError, match=rf"mine\.json: .*{message}"):
        read_problem(path)


def test_a_byte_order_mark_is_no_obstacle(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(GOOD), encoding="utf-8-sig")
    assert read_problem(path).gamma == 2


def test_tables_are_plain_values() -> None:
    assert isinstance(CASE_A.p, Iid)
    assert isinstance(CASE_B.p, Markov)
    assert CASE_B.in_floats().p.row((2,)).tolist() == [0.1, 0.2, 0.7]
