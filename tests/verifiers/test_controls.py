"""Wrong rules that the law checks must catch, with their exact size where it is known."""

from fractions import Fraction
from typing import Any

import pytest

from specviz.probability.draws import Keys, Tested
from specviz.probability.table_models import CASE_A, CASE_B, CASE_C, CASES, Problem, law
from specviz.verifiers import get_verifier
from specviz_lab.prove.enumerate import law_of, total_variation
from verifiers import controls, drafts
from verifiers.rounds import accepted_law, draw_draft, mean, target_rows

TOKENWISE, WALK = get_verifier("tokenwise").plan, get_verifier("walk").plan


def off(problem: Problem, grow: drafts.Grow, plan: Any, length: int, **options: Any) -> Any:
    """Total variation from the target of the first `length` tokens."""
    return total_variation(controls.control_law(problem, grow, plan, length, **options), law(problem.p, length))


def test_a_backward_scan_needs_the_round_in_the_key() -> None:
    assert off(CASE_A, drafts.chain(2), controls.backward_scan, 3, keyed=False) == Fraction(7, 108)
    assert off(CASE_A, drafts.chain(2), controls.backward_scan, 3) == 0


def test_the_draft_stream_alone_is_enough_to_see_it() -> None:
    def play_keys(keys: Any, text: tuple[int, ...], round_: int) -> tuple[int, ...]:
        draft = draw_draft(keys.branch.keys(0), text, CASE_A, drafts.chain(2))
        plan = controls.backward_scan(draft, target_rows(CASE_A.p, text, draft))
        return controls.emitted(draft, plan.walk(keys, len(text)))

    chain_law = controls.chained(play_keys, 3)
    assert total_variation(chain_law, law(CASE_A.p, 3)) == Fraction(7, 108)


@pytest.mark.parametrize("case", "ABC")
def test_tokenwise_and_walk_do_not_see_it(case: str) -> None:
    """Forward scans look at nothing beyond their stop, so this control has to be a backward scan."""
    for plan in (TOKENWISE, WALK):
        assert off(CASES[case], drafts.chain(2), plan, 4 if case == "A" else 3, keyed=False) == 0


@pytest.mark.parametrize(
    ("case", "gamma", "size"),
    [
        ("A", 2, "1/9"),
        ("B", 2, "0.05"),
        ("C", 2, "0.045"),
        ("A", 3, "5/81"),
        ("B", 3, "219/3500"),
        ("C", 3, "1103/29000"),
    ],
)
def test_uncapped_last_test(case: str, gamma: int, size: str) -> None:
    grow = drafts.chain(gamma)
    assert off(CASES[case], grow, controls.uncapped_last, gamma + 1, once=True) == Fraction(size)
    assert off(CASES[case], grow, controls.backward_scan, gamma + 1, once=True) == 0


def test_softmax_recorded_for_an_argmax_draft() -> None:
    played_law = controls.control_law(CASE_A, controls.softmax_argmax(1), TOKENWISE, 1)
    assert played_law[(0,)] == Fraction(1, 2)
    assert law(CASE_A.p, 1)[(0,)] == Fraction(1, 3)
    assert off(CASE_A, drafts.argmax_chain(1), TOKENWISE, 1) == 0


@pytest.mark.parametrize(
    ("case", "gamma", "plan", "size"),
    [("A", 2, TOKENWISE, "1/9"), ("A", 2, controls.backward_scan, "1/9"), ("B", 3, controls.backward_scan, "0.2597")],
    ids=["A tokenwise", "A blockwise", "B blockwise"],
)
def test_dropped_stop_token(case: str, gamma: int, plan: Any, size: str) -> None:
    assert off(CASES[case], controls.stop_dropped(gamma, 0), plan, gamma + 1, once=True) == Fraction(size)


def test_plain_row_on_record_for_draws_without_replacement() -> None:
    """Case C, two siblings from the flat row: R(x)/q(x) is tested against 1/4 where x came with 1/3."""
    assert off(CASE_C, controls.plain_row_kept(2), TOKENWISE, 1) > 0
    assert off(CASE_C, drafts.drawn_tree(1, 2, replacement=False), TOKENWISE, 1) == 0


def test_siblings_tested_in_order_of_probability() -> None:
    assert off(CASE_B, drafts.drawn_tree(1, 2, replacement=False), controls.by_probability, 1) > Fraction(1, 10)


@pytest.mark.parametrize("case", "ABC")
def test_a_second_draw_after_a_miss(case: str) -> None:
    """One child x: it comes out with p + (1 - p) p."""
    problem = CASES[case]
    row = problem.p.row(())
    x = int(problem.q.row(()).argmax())
    assert off(problem, drafts.argmax_chain(1), controls.redraw_after_miss, 1) == (1 - row[x]) * row[x]


def test_ratio_rule_on_deterministic_siblings() -> None:
    """Case B: token 1 is offered first and kept with p/q = 3/4 in place of p = 3/10."""
    played_law = controls.control_law(CASE_B, controls.softmax_best(2), TOKENWISE, 1)
    assert played_law[(1,)] == Fraction(3, 4)
    assert off(CASE_B, controls.softmax_best(2), TOKENWISE, 1) == Fraction(9, 20)


def test_ratio_rule_on_deterministic_siblings_without_replacement() -> None:
    """The second of two chosen siblings is no draw either, whatever is left of the softmax."""
    row, share = CASE_B.p.row(()), CASE_B.q.row(())
    first, second = (int(token) for token in sorted(range(len(share)), key=lambda token: -share[token])[:2])
    played_law = controls.control_law(CASE_B, controls.softmax_best_without(2), TOKENWISE, 1)
    assert played_law[(first,)] == min(1, row[first] / share[first]) != row[first]
    assert first != second
    assert off(CASE_B, controls.softmax_best_without(2), TOKENWISE, 1) > Fraction(1, 10)


@pytest.mark.parametrize("case", "BC")
def test_siblings_in_turn_need_the_rest_scaled_up(case: str) -> None:
    """The second of two comes out with (1 - p_1) p_2; scaled, which is `tokenwise` on point masses, nothing is off."""
    problem = CASES[case]
    row, share = problem.p.row(()), problem.q.row(())
    grow = drafts.paths_tree([[int(token)] for token in sorted(range(len(share)), key=lambda token: -share[token])[:2]])
    draft = draw_draft(None, (), problem, grow)
    one, two = draft.tokens
    played_law = controls.control_law(problem, grow, controls.not_renormalised, 1)
    assert played_law.get((two,), 0) == (1 - row[one]) * row[two]
    assert (off(problem, grow, controls.not_renormalised, 1) > 0) == bool(row[one] * row[two])
    assert off(problem, grow, TOKENWISE, 1) == off(problem, grow, WALK, 1) == 0


@pytest.mark.parametrize("case", "BC")
def test_a_shared_node_tested_twice(case: str) -> None:
    assert off(CASES[case], controls.retested(2, 2), TOKENWISE, 3) > Fraction(1, 10_000)


def test_comparison_that_lets_equality_pass() -> None:
    """A token that is impossible under the target slips through, about once in 2^24."""
    assert (3,) in controls.control_law(CASE_C, drafts.chain(1), TOKENWISE, 1, kind=controls.LooseKeys)
    assert 0 < off(CASE_C, drafts.chain(1), TOKENWISE, 1, kind=controls.LooseKeys) < Fraction(1, 2**22)
    assert (3,) not in controls.control_law(CASE_C, drafts.chain(1), TOKENWISE, 1)


def test_one_uniform_for_draft_and_test() -> None:
    """Case A, gamma 1: token 0 is drafted with u < 2/3 and kept with u < 1/2, so the rest of it is never kept."""
    played_law = controls.control_law(CASE_A, drafts.chain(1), TOKENWISE, 1, kind=controls.OneNoiseKeys)
    assert played_law[(0,)] == Fraction(1, 2)
    assert law(CASE_A.p, 1)[(0,)] == Fraction(1, 3)


class ZeroKeys(Keys):
    """Every uniform is 0, the one value at which `<` and `<=` differ on threshold 0."""

    def uniform(self, stream: Any, pos: int, index: int = 0) -> float:
        return 0.0


class LooseZeroKeys(ZeroKeys):
    def passes(self, pos: int, threshold: float, index: int = 0) -> Tested:
        return Tested(self.uniform("accept", pos, index) <= threshold, 0.0)


@pytest.mark.parametrize(("keys", "kept"), [(ZeroKeys, False), (LooseZeroKeys, True)])
def test_uniform_zero(keys: type[Keys], kept: bool) -> None:
    """Case C drafts token 3, which the target never says first."""
    builder = drafts.DraftBuilder(None, (), CASE_C.q)
    builder.point(-1, 3, law=CASE_C.q.row(()))
    draft = builder.build()
    outcome = TOKENWISE(draft, target_rows(CASE_C.p, (), draft)).walk(keys(0, 1), 0)
    assert bool(outcome.accepted) == kept


def test_children_of_the_accepted_node_only() -> None:
    """Lossless all the same, so only the golden number tells: 35/27 where 4/3 is right."""
    grow = drafts.chains(2, 2)
    assert off(CASE_A, grow, controls.own_children_only, 4) == 0
    assert mean(accepted_law(CASE_A, grow, controls.own_children_only)) == Fraction(35, 27)
    assert mean(accepted_law(CASE_A, grow, TOKENWISE)) == Fraction(4, 3)


def test_plan_law_shows_a_wrong_rule_too() -> None:
    """`Plan.law` and the walks of the same wrong plan agree: the controls fail for their rule, not for the check."""

    def first_round(branch: Any) -> Any:
        draft = draw_draft(branch.keys(1), (), CASE_B, controls.softmax_best(2))
        return controls.emitted(draft, TOKENWISE(draft, target_rows(CASE_B.p, (), draft)).walk(branch.keys(1), 0))[0]

    draft = draw_draft(None, (), CASE_B, controls.softmax_best(2))
    by_plan: dict[int, Any] = {}
    for (accepted, closing), prob in TOKENWISE(draft, target_rows(CASE_B.p, (), draft)).law().items():
        first = accepted[0] if accepted else closing
        by_plan[first] = by_plan.get(first, 0) + prob
    assert law_of(first_round) == by_plan
