"""The joint rules against the golden numbers of cases A, B and C, exactly, and against the closed forms."""

from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

from specviz.probability.draft import Draft
from specviz.probability.plan import Draw, Test
from specviz.probability.table_models import CASE_A, CASE_A_P, CASE_A_Q, CASE_B, CASES, Problem, exact_row, law
from specviz.verifiers import _joint, get_verifier
from specviz_lab.prove.enumerate import total_variation
from verifiers import drafts
from verifiers.controls import control_law
from verifiers.rounds import accepted_law, fractions, mean

CAPPED = [get_verifier("blockwise"), get_verifier("hsd")]
HSD, REF = get_verifier("hsd"), get_verifier("hsd_ref")
both = pytest.mark.parametrize("verifier", CAPPED, ids=lambda v: v.name)


def once(problem: Problem, gamma: int, plan: Any) -> Any:
    """TV of the first gamma + 1 tokens: one round, plain decoding after it."""
    played_law = control_law(problem, drafts.chain(gamma), plan, gamma + 1, once=True)
    return total_variation(played_law, law(problem.p, gamma + 1))


# Cases A to C, chains (docs/papers/hsd.md)


@both
@pytest.mark.parametrize(
    ("case", "gamma", "accepted", "expected"),
    [
        ("A", 2, "1/3 1/9 5/9", "11/9"),
        ("A", 3, "1/3 1/9 1/9 4/9", "5/3"),
        ("B", 2, "0.2 0.15 0.65", "1.45"),
        ("B", 3, "0.2 0.15 0.135 0.515", "1.965"),
        ("C", 2, "0.3 0.325 0.375", "1.075"),
        ("C", 3, "0.3 0.325 0.1725 0.2025", "1.2775"),
    ],
)
def test_capped_rule(verifier: Any, case: str, gamma: int, accepted: str, expected: str) -> None:
    played_law = accepted_law(CASES[case], drafts.chain(gamma), verifier.plan)
    assert played_law == fractions(accepted)
    assert mean(played_law) == Fraction(expected)
    assert once(CASES[case], gamma, verifier.plan) == 0


@pytest.mark.parametrize(("gamma", "expected"), enumerate(fractions("2/3 11/9 5/3 166/81 64/27 1933/729"), 1))
def test_case_a_to_gamma_six(gamma: int, expected: Fraction) -> None:
    assert mean(accepted_law(CASE_A, drafts.chain(gamma), HSD.plan)) == expected


@pytest.mark.parametrize(
    ("case", "gamma", "accepted", "expected", "tv"),
    [
        ("A", 2, "1/3 0 2/3", "12/9", "1/9"),
        ("A", 3, "1/3 2/27 2/27 14/27", "16/9", "5/81"),
        ("B", 2, "0.2 0.1 0.7", "1.5", "0.05"),
        ("B", 3, "1/5 17/140 627/7000 589/1000", "14473/7000", "219/3500"),
        ("C", 2, "0.3 0.28 0.42", "1.12", "0.045"),
        ("C", 3, "3/10 891/2900 8541/58000 491/2000", "77619/58000", "1103/29000"),
    ],
)
def test_reference_rule_is_not_lossless(case: str, gamma: int, accepted: str, expected: str, tv: str) -> None:
    played_law = accepted_law(CASES[case], drafts.chain(gamma), REF.plan)
    assert played_law == fractions(accepted)
    assert mean(played_law) == Fraction(expected)
    assert once(CASES[case], gamma, REF.plan) == Fraction(tv)


def test_reference_rule_by_hand() -> None:
    """Two tokens on case A: 1, 2, 3, 3 ninths where the target has 1, 2, 2, 4."""
    played_law = control_law(CASE_A, drafts.chain(2), REF.plan, 2, once=True)
    assert [played_law[t] for t in product((0, 1), repeat=2)] == fractions("1/9 2/9 3/9 3/9")


def test_reference_rule_on_three_tokens() -> None:
    """Case B, gamma 2."""
    played_law = control_law(CASE_B, drafts.chain(2), REF.plan, 3, once=True)
    texts = [(0, 0, 0), (0, 1, 1), (0, 2, 2), (1, 2, 2), (2, 2, 2)]
    assert [law(CASE_B.p, 3)[t] for t in texts] == fractions("0.18 0.075 0.035 0.063 0.098")
    assert [played_law[t] for t in texts] == fractions("0.15 0.09 0.049 0.063 0.098")


# Traces


def chain_of(tokens: tuple[int, ...], laws: Any) -> Draft:
    n = len(tokens)
    return Draft(tokens, tuple(range(-1, n - 1)), tuple(range(n)), n, n, laws, tuple(range(n)))


def stops(plan: Any, gamma: int) -> list[Any]:
    """P(tau = 0), .., P(tau = gamma)."""
    out = [Fraction(0)] * (gamma + 1)
    for (text, _), prob in plan.law().items():
        out[len(text)] += prob
    return out


@pytest.mark.parametrize(
    ("tokens", "r", "c", "lacks", "over", "h", "hsd", "tokenwise", "ref"),
    [
        ("00", "1/2 1/4", "1/2 1/4", "1/3 0", "1/3 1/2", "0 1/4", "3/4 0 1/4", "1/2 1/4 1/4", "3/4 0 1/4"),
        ("01", "1/2 1", "1/2 1", "1/3 0", "1/3 1/2", "0 1", "0 0 1", "1/2 0 1/2", "0 0 1"),
        ("10", "2 1", "1 1/2", "1/3 1/3", "1/3 1/3", "1 1/2", "0 1/2 1/2", "0 1/2 1/2", "0 0 1"),
        ("11", "2 4", "1 1", "1/3 1/3", "1/3 1/3", "1 1", "0 0 1", "0 0 1", "0 0 1"),
    ],
)
def test_traces_of_case_a(
    tokens: str, r: str, c: str, lacks: str, over: str, h: str, hsd: str, tokenwise: str, ref: str
) -> None:
    draft = chain_of(tuple(map(int, tokens)), np.stack([CASE_A_Q.probs] * 2))
    rows = np.stack([CASE_A_P.probs] * 3)
    weighed = _joint.weigh(_joint.chain(draft, (0, 1), rows))
    assert weighed.r is not None
    assert weighed.r[1:] == fractions(r)
    assert weighed.a[1:] == fractions(c)
    assert weighed.lack == fractions(lacks)
    assert [weighed.over(t) for t in range(2)] == fractions(over)
    assert [weighed.keep(t) for t in (1, 2)] == fractions(h)
    for name, expected in (("hsd", hsd), ("blockwise", hsd), ("tokenwise", tokenwise), ("hsd_ref", ref)):
        assert stops(get_verifier(name).plan(draft, rows), 2) == fractions(expected)


# Case D: the published worked trace, and rows built to give its rounded values exactly

PUBLISHED_P = [0.7156, 0.7156, 0.7156, 0.7156, 0, 0, 0, 0, 0, 0]
PUBLISHED_Q = [0.8771, 0.6929, 0.4513, 0.1170, 0.0792, 0.0118, 0.0068, 0.0068, 0.0031, 0.0011]


def two_tokens(joints: list[float]) -> Any:
    """Rows `[n, 2]` whose first entry is the step of a joint probability; 0 after 0."""
    steps = [b / a if a else 0.0 for a, b in zip([1.0, *joints], joints, strict=False)]
    return np.array([[s, 1 - s] for s in steps])


def test_published_trace_at_the_level_of_ratios() -> None:
    """The divergences need whole rows, which are not published; the ratios do not."""
    laws = two_tokens(PUBLISHED_Q)
    part = _joint.chain(chain_of((0,) * 10, laws), range(10), np.vstack([two_tokens(PUBLISHED_P), [[0.5, 0.5]]]))
    records = _joint.records(part)
    assert np.exp([x.log_r for x in records[:4]]) == pytest.approx([0.8159, 1.0327, 1.5855, 6.1171], abs=1e-3)
    assert [x.log_r for x in records[4:]] == [-np.inf] * 6
    assert np.exp([x.log_c for x in records]) == pytest.approx([0.8159, 1, 1, 1, 0, 0, 0, 0, 0, 0], abs=1e-3)
    assert [x.cap_at for x in records] == [0, 2, 3, 4, 4, 4, 4, 4, 4, 4]
    assert [x.h for x in records[1:]] == [1, 1, 1, 0, 0, 0, 0, 0, 0]


D_Q = [".5 .3 .2", ".41 .19 .4", ".515 .285 .2", ".159 .441 .4", ".3 .5 .2", ".5 .25 .25"]
D_P = [".41 .39 .2", ".515 .2475 .2375", ".795 .105 .1", ".612 .188 .2", "0 .75 .25", ".5 .3 .2", ".2 .3 .5"]


def case_d() -> tuple[Draft, Any]:
    laws, rows = (np.stack([exact_row(r.split()) for r in table]) for table in (D_Q, D_P))
    return chain_of((0,) * 6, laws), rows


def test_case_d_step_by_step() -> None:
    draft, rows = case_d()
    weighed = _joint.weigh(_joint.chain(draft, range(6), rows))
    assert weighed.r is not None
    assert weighed.r == fractions("1 .82 1.03 1.59 6.12 0 0")
    assert weighed.a == fractions("1 .82 1 1 1 0 0")
    assert weighed.lack == fractions("0.09 0.02525 0.28 0.453 0.3 0")
    assert [weighed.over(t) for t in range(6)] == fractions("0.09 0.20525 0.28 0.453 0.3 1")
    assert [weighed.keep(t) for t in range(1, 7)] == fractions("101/821 1 1 1 0 0")
    assert [x.cap_at for x in _joint.records(_joint.chain(draft, range(6), rows))] == [0, 2, 3, 4, 4, 4]


@both
def test_case_d_closing_rows(verifier: Any) -> None:
    draft, rows = case_d()
    plan = verifier.plan(draft, rows)

    def row(t: int) -> list[Fraction]:
        step = plan.step(("stop", t))
        assert isinstance(step, Draw)
        assert not step.fallback
        return list(step.row() / step.row().sum())

    assert row(0) == fractions("0 1 0")
    assert [round(float(x), 9) for x in row(1)] == [0.487128713, 0.512871287, 0]
    assert row(2) == row(3) == fractions("1 0 0")
    assert row(4) == fractions("0 5/6 1/6")
    assert stops(plan, 6) == fractions("0 0 0 0 1 0 0")
    assert stops(get_verifier("tokenwise").plan(draft, rows), 6) == fractions("0.18 0 0 0 0.82 0 0")


def test_case_d_naive() -> None:
    """Stops at 4 as well, with (6.12 p - q)+ = 0, 0.754613, 0.245387 as its row."""
    draft, rows = case_d()
    plan = get_verifier("hsd_naive").plan(draft, rows)
    assert stops(plan, 6) == fractions("0 0 0 0 1 0 0")
    step = plan.step(("stop", 4))
    assert isinstance(step, Draw)
    assert step.row() / step.row().sum() == pytest.approx([0, 0.754613, 0.245387], abs=5e-7)
    assert step.carry is not None
    carried = step.carry(1)
    assert carried is not None
    assert (carried.exact, carried.left) == (Fraction("6.12") * Fraction("0.75") / Fraction("0.5"), 1)
    assert carried.log_ratio == pytest.approx(np.log(9.18))


# gamma 2, two candidates


@pytest.mark.parametrize(
    ("case", "grow", "tokenwise", "hsd", "traversal"),
    [
        ("A", drafts.chains(2, 2), "4/3", "115/81", "38/27"),
        ("A", drafts.caterpillar(2, 2), "113/81", "353/243", "13/9"),
        ("B", drafts.chains(2, 2), "1.4953", "1.5705", "1.552"),
        ("B", drafts.caterpillar(2, 2), "1.57699", "1.61731", "1.639"),
        ("C", drafts.chains(2, 2), "1.265625", "1.29", "1.265"),
        ("C", drafts.caterpillar(2, 2), "1.3615625", "1.3740625", "1.3775"),
        ("A", drafts.chains(2, 3), "1087/729", "1136/729", None),
        ("B", drafts.distinct_chains(2, 2), "85/56", "2251/1400", None),
    ],
    ids=["A par", "A cat", "B par", "B cat", "C par", "C cat", "A par 3", "B without replacement"],
)
def test_several_candidates(case: str, grow: drafts.Grow, tokenwise: str, hsd: str, traversal: str | None) -> None:
    for name, expected in (("multi_tokenwise", tokenwise), ("multi_hsd", hsd), ("multi_traversal", traversal)):
        if expected is not None:
            assert mean(accepted_law(CASES[case], grow, get_verifier(name).plan)) == Fraction(expected)


def test_law_of_two_parallel_chains() -> None:
    played_law = accepted_law(CASE_B, drafts.chains(2, 2), get_verifier("multi_hsd").plan)
    assert played_law == fractions("0.14 0.1495 0.7105")


@pytest.mark.parametrize("name", ["multi_hsd", "multi_traversal"])
@pytest.mark.parametrize("case", "ABC")
def test_one_candidate_is_the_chain_rule(case: str, name: str) -> None:
    for gamma in (1, 2, 3):
        played_law = accepted_law(CASES[case], drafts.chain(gamma), get_verifier(name).plan)
        assert played_law == accepted_law(CASES[case], drafts.chain(gamma), HSD.plan)


def test_gamma_one_is_the_same_for_all() -> None:
    """With one token h = min(1, rho), residual (p - q)+, whatever the name."""
    names = ["tokenwise", "blockwise", "hsd", "hsd_naive", "hsd_ref", "multi_hsd", "multi_traversal"]
    for case in CASES.values():
        for token in range(case.vocab):
            if not case.q.row(())[token]:
                continue
            draft = chain_of((token,), np.stack([case.q.row(())]))
            rows = np.stack([case.p.row(()), case.p.row((token,))])
            laws = [get_verifier(name).plan(draft, rows).law() for name in names]
            assert all(own_law == laws[0] for own_law in laws)


# Closed forms: P(accepted >= t) = sum over texts of Q times the credit


@pytest.mark.parametrize("case", "ABC")
@pytest.mark.parametrize("name", ["blockwise", "hsd", "hsd_naive"])
def test_closed_form(case: str, name: str) -> None:
    problem, gamma = CASES[case], 3
    played_law = accepted_law(problem, drafts.chain(gamma), get_verifier(name).plan)
    for t in range(gamma + 1):
        expected = Fraction(0)
        for text in product(range(problem.vocab), repeat=t):
            joints = [Fraction(1), Fraction(1)]
            credit = Fraction(1)
            for i, token in enumerate(text):
                p, q = problem.p.row(text[:i])[token], problem.q.row(text[:i])[token]
                joints = [joints[0] * p, joints[1] * q]
                credit = min(1, credit * p / q) if q else Fraction(0)
            expected += min(joints) if name == "hsd_naive" else joints[1] * credit
        assert sum(played_law[t:]) == expected


@pytest.mark.parametrize("case", "ABC")
def test_credits_are_ordered(case: str) -> None:
    """tokenwise <= capped <= naive, draft by draft."""
    problem = CASES[case]
    for text in product(range(problem.vocab), repeat=3):
        laws = np.stack([problem.q.row(text[:i]) for i in range(3)])
        if not all(laws[i][x] for i, x in enumerate(text)):
            continue
        rows = np.stack([problem.p.row(text[:i]) for i in range(4)])
        for record in _joint.records(_joint.chain(chain_of(text, laws), range(3), rows)):
            assert record.credit_token <= record.credit_hsd + 1e-15
            assert record.credit_hsd <= record.credit_naive + 1e-15


def test_a_test_says_what_was_compared() -> None:
    """Case A, draft 1 0: the last test first, h_2 = 1/2 against u at the position of token 2."""
    draft = chain_of((1, 0), np.stack([CASE_A_Q.probs] * 2))
    plan = HSD.plan(draft, np.stack([CASE_A_P.probs] * 3))
    last = plan.step(plan.start)
    assert isinstance(last, Test)
    assert (last.node, last.threshold, last.p, last.q, last.ordinal) == (1, *fractions("1/2 1/3 2/3"), 0)
    first = plan.step(last.failed)
    assert isinstance(first, Test)
    assert (first.node, first.threshold, first.kept, first.failed) == (0, 1, ("stop", 1), ("stop", 0))
