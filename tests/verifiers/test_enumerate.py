"""The enumerator itself: keys are uniforms, a key seen twice is conditioned, and merging rounds changes nothing."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from specviz.probability.rows import Certain
from specviz.probability.table_models import CASE_A, CASE_B, exact_row
from specviz.verifiers import get_verifier
from specviz_lab.prove.enumerate import EnumeratedPath, law_of, paths
from verifiers import drafts
from verifiers.controls import backward_scan
from verifiers.rounds import chained, play

HALF, THIRD, QUARTER = Fraction(1, 2), Fraction(1, 3), Fraction(1, 4)


def test_a_draw_has_the_law_of_its_row() -> None:
    row = exact_row(["1/2", "0", "1/3", "1/6"])
    law = law_of(lambda branch: branch.keys(1).draw("draft", 0, row * 7).token)
    assert law == {0: HALF, 2: THIRD, 3: Fraction(1, 6)}


def test_other_keys_are_independent() -> None:
    def run(branch: EnumeratedPath) -> Any:
        keys = branch.keys(3)
        one = keys.passes(4, HALF).passed
        return one, keys.passes(5, HALF).passed, keys.passes(4, HALF, 1).passed, branch.keys(2).passes(4, HALF).passed

    law = law_of(run)
    assert set(law.values()) == {Fraction(1, 16)}
    assert len(law) == 16


def test_the_target_stream_has_no_round() -> None:
    row = exact_row(["1/2", "1/2"])
    law = law_of(lambda branch: tuple(branch.keys(r).draw("target", 0, row).token for r in (1, 2)))
    assert law == {(0, 0): HALF, (1, 1): HALF}


def test_a_key_seen_twice_is_conditioned() -> None:
    """`u < 1/2`, then `u < 3/4` and `u < 1/4` with the same uniform."""

    def run(branch: EnumeratedPath) -> Any:
        return tuple(branch.keys(1).passes(0, t).passed for t in (HALF, 3 * QUARTER, QUARTER))

    assert law_of(run) == {
        (True, True, True): QUARTER,
        (True, True, False): QUARTER,
        (False, True, False): QUARTER,
        (False, False, False): QUARTER,
    }


def test_one_noise_for_two_rows_gives_the_overlap_of_intervals() -> None:
    p, q = exact_row(["1/3", "2/3"]), exact_row(["1/2", "1/2"])
    law = law_of(lambda branch: tuple(branch.keys(1).draw("target", 0, row).token for row in (p, q)))
    assert law == {(0, 0): THIRD, (1, 0): HALF - THIRD, (1, 1): HALF}


def test_an_uninspected_uniform_can_only_be_compared() -> None:
    def run(branch: EnumeratedPath) -> Any:
        u = branch.keys(1).uniform("other", 0)
        return u >= THIRD, u < HALF

    assert law_of(run) == {(False, True): THIRD, (True, True): HALF - THIRD, (True, False): HALF}
    with pytest.raises(TypeError):
        EnumeratedPath().keys(1).uniform("other", 0) + 1  # type: ignore[operator]


def test_recorded_numbers_fit_the_branch() -> None:
    """`u`, `lo`, `hi` of a draw agree with its outcome, as an event would show them."""
    row = np.array([0.25, 0.0, 0.5, 0.25])
    for drawn, _ in paths(lambda branch: branch.keys(1).draw("draft", 0, row)):
        assert drawn.lo <= drawn.u < drawn.hi  # type: ignore[operator]
        assert drawn.hi - drawn.lo == row[drawn.token]  # type: ignore[operator]
    for tested, _ in paths(lambda branch: branch.keys(1).passes(0, 0.3)):
        assert tested.passed == (tested.u < 0.3)


def test_a_certain_row_is_no_decision() -> None:
    [(drawn, branch)] = paths(lambda branch: branch.keys(1).draw("target", 0, Certain(2, 4)))
    assert (drawn.token, branch.prob, branch.taken) == (2, 1, [])


def test_race_noise_may_not_be_used_twice() -> None:
    def run(branch: EnumeratedPath) -> Any:
        return [branch.keys(1, "race").draw("target", 0, np.array([0.5, 0.5])).token for _ in range(2)]

    with pytest.raises(AssertionError, match="used twice"):
        list(paths(run))


def test_code_that_decides_otherwise_on_a_replay_is_caught() -> None:
    runs = iter(range(9))

    def run(branch: EnumeratedPath) -> Any:
        return branch.keys(1).passes(next(runs), HALF).passed

    with pytest.raises(AssertionError, match="not deterministic"):
        list(paths(run))


def test_a_forgotten_position_may_not_be_asked_for() -> None:
    with pytest.raises(AssertionError, match="committed"):
        chained(lambda keys, text, round_: (int(keys.passes(0, HALF).passed),), 2)


@pytest.mark.parametrize("keyed", [True, False])
@pytest.mark.parametrize(
    ("problem", "plan", "grow", "shared", "length"),
    [
        (CASE_A, backward_scan, drafts.chain(2), False, 4),
        (CASE_A, get_verifier("walk").plan, drafts.shared_chain(2), True, 4),
        (CASE_B, get_verifier("tokenwise").plan, drafts.chain(1), False, 3),
    ],
    ids=["blockwise", "shared walk", "tokenwise"],
)
def test_merging_rounds_changes_nothing(
    problem: Any, plan: Any, grow: drafts.Grow, shared: bool, length: int, keyed: bool
) -> None:
    """`chained` against one execution per path over all rounds, which forgets no uniform."""
    one_round = play(problem, grow, plan, shared=shared)

    def whole_run(branch: EnumeratedPath) -> tuple[int, ...]:
        text: tuple[int, ...] = ()
        round_ = 0
        while len(text) < length:
            round_ += 1
            text += one_round(branch.keys(round_ if keyed else 0), text, round_)
        return text[:length]

    assert law_of(whole_run) == chained(one_round, length, keyed=keyed)
