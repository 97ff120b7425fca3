"""`Plan`: one automaton to walk and to push probability through, and `Draft`, which it decides about."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from specviz.probability.draft import ROOT, Draft
from specviz.probability.draws import Drawn, Tested
from specviz.probability.plan import Draw, DrawResult, Plan, PlanStop, State, Step, Test, TestResult, shares
from specviz.probability.rows import Certain
from specviz_lab.prove.enumerate import law_of

# 0 -> 1 -> 3 (not fed), 0 -> 2, and a fed-only node 4 -> 5 in feed order 0 1 2 | 4 | 3
DRAFT = Draft(
    tokens=(7, 8, 9, 5, 1), parents=(-1, 0, 0, -1, 1), ids=(10, 12, 11, 14, 13), n_judged=3, n_fed=4, row_of=(-1,) * 5
)
ROW = np.array([0.0, 0.25, 0.5, 0.25])


@dataclass
class Script:
    """Draws told in advance, and what was asked of them."""

    answers: list[Any]
    asked: list[Any] = field(default_factory=list)

    def passes(self, pos: int, threshold: float, index: int = 0) -> Tested:
        self.asked.append(("accept", pos, threshold, index))
        return Tested(self.answers.pop(0), 0.5)

    def draw(self, stream: str, pos: int, row: Any, index: int = 0) -> Drawn:
        self.asked.append((stream, pos, list(row), index))
        return Drawn(self.answers.pop(0), 0.5)


def opened(steps: dict[State, Step]) -> Plan:
    return Plan(DRAFT, "start", steps.__getitem__)


STEPS: dict[State, Step] = {
    "start": Test(0, 0.5, "kept", "failed", 0.5, None, 2),
    "failed": Draw(ROOT, lambda: ROW, {}, "residual", "recovered"),
    "kept": Draw(0, lambda: ROW, {1: (1, "one"), 2: (2, "two")}, "target", "recovered"),
    "one": Test(4, 0.25, "end", "one failed", 0.25),
    "one failed": Draw(1, lambda: ROW, {}, "residual", "recovered"),
    "two": Draw(2, lambda: ROW, {}, "target", "bonus"),
    "end": PlanStop(4),
}


def test_draft_geometry() -> None:
    assert DRAFT.depths == (1, 2, 2, 1, 3)
    assert DRAFT.judged == (0, 2, 1, 4)  # by id, fed-only left out
    assert DRAFT.children == {ROOT: (0,), 0: (2, 1), 1: (4,)}  # siblings in id order, not feed order
    assert DRAFT.path(4) == (7, 8, 1)
    assert [DRAFT.has_row(i) for i in (ROOT, 0, 3, 4)] == [True, True, True, False]
    assert not DRAFT.is_chain
    assert not DRAFT.is_drawn


@pytest.mark.parametrize(
    ("tokens", "parents", "n_judged", "n_fed", "chain"),
    [
        ((), (), 0, 0, True),
        ((1, 2), (-1, 0), 2, 2, True),
        ((1, 2), (-1, 0), 1, 1, True),  # a drafted stop token at the end
        ((1, 2), (-1, -1), 2, 2, False),
        ((1, 2, 3), (-1, 0, -1), 2, 3, False),
    ],
)
def test_what_is_a_chain(tokens: Any, parents: Any, n_judged: int, n_fed: int, chain: bool) -> None:
    draft = Draft(tokens, parents, tuple(range(len(tokens))), n_judged, n_fed, row_of=(-1,) * len(tokens))
    assert draft.is_chain == chain


@pytest.mark.parametrize(
    ("answers", "accepted", "closing", "kind"),
    [
        ([False, 3], (), 3, "recovered"),
        ([True, 3], (0,), 3, "recovered"),
        ([True, 2, 1], (0, 2), 1, "bonus"),
        ([True, 1, False, 2], (0, 1), 2, "recovered"),
        ([True, 1, True], (0, 1, 4), None, None),
    ],
)
def test_walk(answers: list[Any], accepted: Any, closing: Any, kind: Any) -> None:
    outcome = opened(STEPS).walk(Script(list(answers)), 20)
    assert (outcome.accepted, outcome.closing, outcome.kind) == (accepted, closing, kind)
    assert outcome.stop == (accepted[-1] if accepted else ROOT)
    assert len(outcome.steps) == len(answers)


def test_positions_and_ordinals_of_a_walk() -> None:
    """The root is token n - 1: a node of depth d stands at n - 1 + d, a draw after it one further."""
    script = Script([True, 1, False, 2])
    outcome = opened(STEPS).walk(script, 20)
    row = list(ROW)
    assert script.asked == [
        ("accept", 20, 0.5, 2),
        ("target", 21, row, 0),
        ("accept", 22, 0.25, 0),
        ("residual", 22, row, 0),
    ]
    assert [r.pos for r in outcome.steps] == [20, 21, 22, 22]
    assert [type(r) for r in outcome.steps] == [TestResult, DrawResult, TestResult, DrawResult]
    assert [r.kept for r in outcome.steps if isinstance(r, DrawResult)] == [1, None]


def test_law_of_the_same_plan() -> None:
    law = opened(STEPS).law()
    half = {((), t): 0.5 * w for t, w in ((1, 0.25), (2, 0.5), (3, 0.25))}
    kept = {
        ((7,), 3): 0.5 * 0.25,
        ((7, 8, 1), None): 0.5 * 0.25 * 0.25,
        **{((7, 8), t): 0.5 * 0.25 * 0.75 * w for t, w in ((1, 0.25), (2, 0.5), (3, 0.25))},
        **{((7, 9), t): 0.5 * 0.5 * w for t, w in ((1, 0.25), (2, 0.5), (3, 0.25))},
    }
    assert law == pytest.approx(half | kept)


def test_law_equals_every_walk() -> None:
    def walked(branch: Any) -> Any:
        outcome = opened(STEPS).walk(branch.keys(1), 20)
        return (DRAFT.path(outcome.stop), outcome.closing)

    assert law_of(walked) == pytest.approx(opened(STEPS).law())


def test_a_state_is_opened_once_and_only_when_visited() -> None:
    seen: list[State] = []
    plan = Plan(DRAFT, "start", lambda state: seen.append(state) or STEPS[state])
    for _ in range(2):
        plan.walk(Script([False, 3]), 20)
    assert seen == ["start", "failed"]
    plan.law()
    assert sorted(map(str, seen)) == sorted(STEPS)  # type: ignore[arg-type]


def test_the_law_of_a_shared_draft_is_refused() -> None:
    draft = Draft((1,), (-1,), (0,), 1, 1, row_of=(-1,), shared=True)
    with pytest.raises(ValueError, match="shared draft"):
        Plan(draft, "start", STEPS.__getitem__).law()


def test_shares() -> None:
    assert list(shares(np.array([0.0, 1.0, 3.0]))) == [(1, 0.25), (2, 0.75)]
    assert list(shares(Certain(2, 4))) == [(2, 1)]
    torch = pytest.importorskip("torch")
    assert list(shares(torch.tensor([0.0, 1.0, 3.0]))) == [(1, 0.25), (2, 0.75)]


def test_steps_say_which_nodes_they_decide_about() -> None:
    """Of a draw: its siblings in id order, the first ones of which were met until the drawn one was among them."""
    outcome = opened(STEPS).walk(Script([True, 1, False, 2]), 20)
    first, second, third, last = outcome.steps
    assert isinstance(first, TestResult)
    assert isinstance(third, TestResult)
    assert (first.shown, third.shown) == (0, 4)
    assert isinstance(second, DrawResult)
    assert (second.judged, second.n_tested) == ((2, 1), 2)  # token 8 is not the eldest's
    assert isinstance(last, DrawResult)
    assert (last.judged, last.n_tested) == ((), 0), "it has no edges: it decides about nothing that was drafted"
    assert (outcome.n_tested, outcome.n_host_reads, outcome.by_draw) == (4, 3, True)


def test_a_step_is_shown_on_the_twin_that_was_kept() -> None:
    """Chains 5 6 and 5 7: the test of the first 5 passed, the 7 was kept, so the second 5 was."""
    draft = Draft((5, 6, 5, 7), (-1, 0, -1, 2), (0, 1, 2, 3), 4, 4, row_of=(-1,) * 4)
    steps: dict[State, Step] = {
        "start": Test(0, 0.5, "five", "end", 0.5),
        "five": Test(3, 0.5, "seven", "end", 0.5),
        "seven": Draw(3, lambda: ROW, {}, "target", "bonus"),
        "end": Draw(ROOT, lambda: ROW, {}, "residual", "recovered"),
    }
    outcome = Plan(draft, "start", steps.__getitem__).walk(Script([True, True, 1]), 20)
    assert outcome.accepted == (2, 3)
    assert [(r.step.node, r.shown) for r in outcome.steps if isinstance(r, TestResult)] == [(0, 2), (3, 3)]
    rejected = Plan(draft, "start", steps.__getitem__).walk(Script([True, False, 1]), 20)
    assert [(r.step.node, r.shown) for r in rejected.steps if isinstance(r, TestResult)] == [(0, 0), (3, 3)]


def test_what_a_scan_kept_untested_has_the_test_it_would_have_gone_on_to() -> None:
    """A chain of three tested from its end: the whole is kept, the two shorter prefixes were never looked at."""
    chain = Draft((1, 2, 3), (-1, 0, 1), (0, 1, 2), 3, 3, row_of=(-1,) * 3)
    steps: dict[State, Step] = {
        ("scan", t): Test(t - 1, 0.5, ("stop", t), ("scan", t - 1) if t > 1 else ("stop", 0), 0.5) for t in (1, 2, 3)
    } | {("stop", t): Draw(t - 1, lambda: ROW, {}, "target", "bonus") for t in range(4)}
    plan = Plan(chain, ("scan", 3), steps.__getitem__)
    whole = plan.walk(Script([True, 1]), 20)
    untested = plan.untested(whole, Script([False, True]), 20)
    assert {node: test and (test.step.node, test.passed, test.pos) for node, test in untested.items()} == {
        0: (0, True, 20),
        1: (1, False, 21),
    }
    assert not whole.by_draw
    nothing = plan.walk(Script([False, False, False, 1]), 20)
    assert plan.untested(nothing, Script([]), 20) == {}
    assert (nothing.n_tested, whole.n_tested) == (3, 1)
