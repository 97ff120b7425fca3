"""Accepted lengths against the golden fractions of cases A, B and C, exactly, and against the closed forms."""

from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from typing import Any

import pytest

from specviz.probability.draws import interval
from specviz.probability.table_models import CASE_A, CASE_B, CASES, PrefixTable, Problem, exact_row
from specviz.verifiers import get_verifier
from verifiers import drafts
from verifiers.rounds import accepted_law, fractions, mean

TOKENWISE, WALK = get_verifier("tokenwise"), get_verifier("walk")


@pytest.mark.parametrize(
    ("case", "gamma", "expected", "accepted"),
    [
        ("A", 1, "2/3", "1/3 2/3"),
        ("A", 2, "10/9", "1/3 2/9 4/9"),
        ("A", 3, "38/27", "1/3 2/9 4/27 8/27"),
        ("B", 2, "1.36", "0.2 0.24 0.56"),
        ("B", 3, "1.752", "0.2 0.24 0.168 0.392"),
        ("C", 2, "1.05", "0.3 0.35 0.35"),
        ("C", 3, "1.225", "0.3 0.35 0.175 0.175"),
    ],
)
def test_tokenwise_chains(case: str, gamma: int, expected: str, accepted: str) -> None:
    law = accepted_law(CASES[case], drafts.chain(gamma), TOKENWISE.plan)
    assert law == fractions(accepted)
    assert mean(law) == Fraction(expected)


@pytest.mark.parametrize(("gamma", "expected"), enumerate(fractions("2/3 10/9 38/27 130/81 422/243 1330/729"), 1))
def test_case_a_to_gamma_six(gamma: int, expected: Fraction) -> None:
    assert mean(accepted_law(CASE_A, drafts.chain(gamma), TOKENWISE.plan)) == expected


@pytest.mark.parametrize(
    ("case", "grow", "expected"),
    [
        ("A", drafts.chains(2, 2), "4/3"),
        ("A", drafts.caterpillar(2, 2), "113/81"),
        ("A", drafts.chains(2, 3), "1087/729"),
        ("B", drafts.chains(2, 2), "1.4953"),
        ("B", drafts.caterpillar(2, 2), "1.57699"),
        ("C", drafts.chains(2, 2), "1.265625"),
        ("C", drafts.caterpillar(2, 2), "1.3615625"),
        ("B", drafts.distinct_chains(2, 2), "85/56"),
    ],
    ids=["A par", "A cat", "A par 3", "B par", "B cat", "C par", "C cat", "B without replacement"],
)
def test_several_candidates(case: str, grow: drafts.Grow, expected: str) -> None:
    assert mean(accepted_law(CASES[case], grow, TOKENWISE.plan)) == Fraction(expected)


def test_law_of_two_parallel_chains() -> None:
    assert accepted_law(CASE_B, drafts.chains(2, 2), TOKENWISE.plan) == fractions("0.14 0.2247 0.6353")


@pytest.mark.parametrize("verifier", [WALK, TOKENWISE], ids=lambda v: v.name)
def test_deterministic_tree(verifier: Any) -> None:
    law = accepted_law(CASE_B, drafts.paths_tree([(0, 0), (0, 1), (1, 1), (2,)]), verifier.plan)
    assert law == fractions("0 2/5 3/5")
    assert mean(law) == Fraction(8, 5)


@pytest.mark.parametrize("verifier", [WALK, TOKENWISE], ids=lambda v: v.name)
def test_eagle_example(verifier: Any) -> None:
    """The example of EAGLE's tree: paths 0-1 and 0-2-1."""
    after = {(): ".3 .35 .35", (0,): ".05 .05 .9", (0, 1): ".3 .3 .4", (0, 2): ".3 .3 .4"}
    table = PrefixTable({k: exact_row(v.split()) for k, v in after.items()}, exact_row(["1/3"] * 3))
    problem = Problem(3, 3, table, table)
    law = accepted_law(problem, drafts.paths_tree([(0, 1), (0, 2, 1)]), verifier.plan)
    assert law == fractions("0.700 0.015 0.204 0.081")
    assert mean(law) == Fraction("0.666")


# Closed forms: P(accepted >= t) is a sum over the texts of t tokens.


@dataclass
class Rows:
    """Probabilities of one text under both tables, position by position."""

    problem: Problem
    text: tuple[int, ...]
    p: list[Any] = field(init=False)
    q: list[Any] = field(init=False)

    def __post_init__(self) -> None:
        self.p = [self.problem.p.row(self.text[:i]) for i in range(len(self.text))]
        self.q = [self.problem.q.row(self.text[:i]) for i in range(len(self.text))]


def times(factors: Any) -> Any:
    out = Fraction(1)
    for factor in factors:
        out *= factor
    return out


def credit_tokenwise(r: Rows) -> Any:
    return times(min(p[x], q[x]) for p, q, x in zip(r.p, r.q, r.text, strict=True))


def credit_walk(r: Rows) -> Any:
    return times(p[x] * q[x] for p, q, x in zip(r.p, r.q, r.text, strict=True))


def credit_shared(r: Rows) -> Any:
    """One uniform draws both: the overlap of the two CDF intervals."""

    def overlap(p: Any, q: Any, x: int) -> Any:
        bounds = [(sum(row[:x]), sum(row[: x + 1])) for row in (p, q)]
        return max(0, min(b for _, b in bounds) - max(a for a, _ in bounds))

    return times(overlap(p, q, x) for p, q, x in zip(r.p, r.q, r.text, strict=True))


@pytest.mark.parametrize("case", "ABC")
@pytest.mark.parametrize(
    ("name", "grow", "shared", "credit"),
    [
        ("tokenwise", drafts.chain(3), False, credit_tokenwise),
        ("walk", drafts.chain(3), False, credit_walk),
        ("walk", drafts.shared_chain(3), True, credit_shared),
    ],
    ids=["tokenwise", "walk", "shared"],
)
def test_closed_form(case: str, name: str, grow: drafts.Grow, shared: bool, credit: Any) -> None:
    problem = CASES[case]
    law = accepted_law(problem, grow, get_verifier(name).plan, shared=shared)
    for t in range(4):
        texts = product(range(problem.vocab), repeat=t)
        assert sum(law[t:]) == sum(credit(Rows(problem, text)) for text in texts)


def test_shared_noise_agrees_as_often_as_intervals_overlap() -> None:
    """The closed form above leans on `interval`; here it is seen to be the plain overlap."""
    p, q = CASE_B.p.row(()), CASE_B.q.row(())
    low = max(interval(p, 1)[0], interval(q, 1)[0])
    high = min(interval(p, 1)[1], interval(q, 1)[1])
    assert high - low == pytest.approx(0.2)


@pytest.mark.parametrize("case", "ABC")
def test_deterministic_tree_takes_every_path_that_is_right(case: str) -> None:
    """E[accepted] = sum of the target probabilities of the nodes' paths, for walk and tokenwise alike."""
    problem = CASES[case]
    leaves = [(0, 0), (0, 1), (1, 0)]
    nodes = {leaf[:k] for leaf in leaves for k in (1, 2)}
    expected = sum(times(p[x] for p, x in zip(Rows(problem, n).p, n, strict=True)) for n in nodes)
    laws = [accepted_law(problem, drafts.paths_tree(leaves), v.plan) for v in (WALK, TOKENWISE)]
    assert laws[0] == laws[1]
    assert mean(laws[0]) == expected
