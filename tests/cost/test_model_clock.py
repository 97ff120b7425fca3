"""The modelled clock: its worked trace, lanes that never overlap themselves, and known pipelines."""

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specviz.cost.model_clock import (
    DraftForward,
    ModelClock,
    ModelledRound,
    ModelTiming,
    Rates,
    RoundFacts,
    facts_of,
    run_facts,
    timing,
)
from specviz.events import Calibration, DraftStep, Event, LayerTrace, Node, RoundEnd
from specviz.runlog.fold import finished
from specviz_lab.papers import pipelines
from support.branch_trace import node, verdict, worked
from support.rank_trace import rank_events
from support.traces import Recipe, make_events, plain_round

SPEC = Rates(t=1, c=4, kappa_q=0)


def played(rates: Rates = SPEC) -> list[ModelledRound]:
    return play(run_facts([event for records in worked() for event in records]), rates)


def play(rounds: Iterable[RoundFacts], rates: Rates) -> list[ModelledRound]:
    """A whole run from time 0."""
    clock = ModelClock(rates)
    return [clock.play(facts) for facts in rounds]


def busy(done: ModelledRound, lane: str) -> float:
    """Time the lane works."""
    return sum(s.t1 - s.t0 for s in done.segments if s.lane == lane and s.kind in ("draft_fwd", "verify_fwd"))


def bubble(done: ModelledRound, lane: str) -> float:
    """Idle time of the lane."""
    return sum(s.t1 - s.t0 for s in done.segments if s.kind == f"bubble_{lane}")


def added_up(rounds: Iterable[ModelledRound], rates: Rates) -> ModelTiming:
    """The sums over rounds as they were played, segment by segment."""
    parts = list(rounds)
    n_new = sum(done.facts.n_new for done in parts)
    return ModelTiming(
        elapsed=sum(done.end - done.start for done in parts),
        n_new=n_new,
        busy_target=sum(busy(done, "target") for done in parts),
        busy_draft=sum(busy(done, "draft") for done in parts),
        wasted=sum(done.wasted for done in parts),
        plain=rates.target(1) * n_new,
    )


def spans(done: ModelledRound, lane: str) -> tuple[float, float]:
    own = [s for s in done.segments if s.lane == lane and s.kind in ("draft_fwd", "verify_fwd")]
    return own[0].t0, own[-1].t1


def test_the_worked_trace() -> None:
    """D 0-3 (target bubble 3); draft 3-6, target 3-7, draft bubble 1; 7-11 both; 11-15 both."""
    one, two, three = played()
    stage = [s for s in one.segments if s.lane == "draft" and s.t1 <= 3]
    assert [(s.t0, s.t1) for s in stage] == [(0, 1), (1, 2), (2, 3)]
    assert spans(one, "target") == (3, 7)
    assert (spans(one, "draft")[1], one.end) == (6, 7)
    assert (bubble(one, "target"), bubble(one, "draft")) == (3, 1)
    assert [spans(two, lane) for lane in ("draft", "target")] == [(7, 11), (7, 11)]
    assert [spans(three, lane) for lane in ("draft", "target")] == [(11, 15), (11, 15)]
    assert {bubble(two, lane) + bubble(three, lane) for lane in ("draft", "target")} == {0}
    assert [(done.facts.rows, len(done.facts.before), len(done.facts.beside)) for done in (one, two, three)] == [
        (3, 3, 3),
        (4, 0, 4),
        (1, 0, 4),
    ]


def test_wasted_seconds_of_the_worked_trace() -> None:
    """Branches share their forwards: 12 of 16 cells lost, the first four from the look that stopped the draft stage."""
    one, two, three = played()
    assert one.wasted == pytest.approx(4 * 3 / 4)
    assert two.wasted == pytest.approx(2 * 1 / 4 + 4)  # two pending ones born as a fourth of a forward each
    assert three.wasted == pytest.approx(4)
    batched = play(run_facts([e for records in worked() for e in records]), Rates(t=1, c=4, kappa_q=0.5))
    assert batched[0].wasted == pytest.approx((1 + 3 * 2.5) * 3 / 4)


def test_fates_of_the_worked_trace() -> None:
    facts = [done.facts for done in played()]
    assert Counter(fate for f in facts for _, fate in f.fates) == {
        "accepted": 4,
        "branch_lost": 12,
        "rejected": 1,
        "orphaned": 1,
        "branch_void": 8,
    }
    born = [number for f in facts for forward in (*f.before, *f.beside) for number in forward.nodes]
    assert sorted(born) == sorted({number for f in facts for number, _ in f.fates}) == list(range(26))


forwards = st.lists(st.builds(DraftForward, st.integers(1, 9)), max_size=5).map(tuple)


@st.composite
def runs(draw: st.DrawFn) -> list[RoundFacts]:
    """Rounds of any make, every token settled in its own round or later, or never."""
    rounds, number, open_nodes = [], 0, list[int]()
    for r in range(1, draw(st.integers(1, 6)) + 1):
        stages: list[tuple[DraftForward, ...]] = []
        for batches in (draw(forwards), draw(forwards)):
            firsts = range(number, number + 10 * len(batches), 10)
            sized = [DraftForward(f.batch, tuple(range(k, k + f.batch))) for k, f in zip(firsts, batches, strict=True)]
            number += 10 * len(sized)
            open_nodes += [n for f in sized for n in f.nodes]
            stages.append(tuple(sized))
        before, beside = stages
        settled = draw(st.integers(0, len(open_nodes)))
        names = draw(
            st.lists(st.sampled_from(("accepted", "rejected", "branch_void")), min_size=settled, max_size=settled)
        )
        fates, open_nodes = tuple(zip(open_nodes[:settled], names, strict=True)), open_nodes[settled:]
        sizes = draw(st.integers(1, 5)), draw(st.integers(1, 9))
        rounds.append(RoundFacts(r, *sizes, before, beside, draw(st.integers(0, 2)), fates))
    return rounds


rates = st.builds(
    Rates, *[st.floats(0.01, 5), st.floats(0.5, 20)], *[st.floats(0, 1)] * 2, *[st.sampled_from((0.0, 0.25))] * 2
)


@given(runs(), rates)
def test_lanes(rounds: list[RoundFacts], cost: Rates) -> None:
    """No lane overlaps itself; busy + bubbles = elapsed in both; the stated formula of a round's end."""
    timeline = play(rounds, cost)
    assert all(a.end == b.start for a, b in pairwise(timeline))
    for done in timeline:
        for lane in ("target", "draft"):
            own = sorted((s for s in done.segments if s.lane == lane), key=lambda s: s.t0)
            assert all(a.t1 <= b.t0 + 1e-9 for a, b in pairwise(own))
            assert busy(done, lane) + bubble(done, lane) == pytest.approx(done.end - done.start)
        beside = sum(cost.draft(f.batch) for f in done.facts.beside)
        before = sum(cost.draft(f.batch) for f in done.facts.before)
        quiet = cost.hrad * done.facts.hrad + cost.sync * bool(done.facts.before or done.facts.beside)
        assert done.end - done.start == pytest.approx(quiet + before + max(beside, cost.target(done.facts.rows)))


@given(runs(), rates)
def test_time_is_shared_out_and_void_cells_are_the_wasted_ones(rounds: list[RoundFacts], cost: Rates) -> None:
    everything = [RoundFacts(f.number, f.n_new, f.rows, f.before, f.beside, f.hrad) for f in rounds]
    born = [n for f in rounds for forward in (*f.before, *f.beside) for n in forward.nodes]
    last = RoundFacts(99, 1, fates=tuple((n, "trimmed") for n in born))
    total = added_up(play([*everything, last], cost), cost)
    assert total.wasted == pytest.approx(total.busy_draft), "all void: every second that drafted is wasted"
    kept = added_up(play([*everything, RoundFacts(99, 1, fates=tuple((n, "accepted") for n in born))], cost), cost)
    assert kept.wasted == 0
    totals = added_up(play(rounds, cost), cost)
    assert 0 <= totals.wasted <= totals.busy_draft * (1 + 1e-9)
    short = timing(rounds, cost)
    for name in ("elapsed", "n_new", "busy_target", "busy_draft", "wasted", "plain"):
        assert getattr(short, name) == pytest.approx(getattr(totals, name)), "the sums without the segments"


def iid(alpha: float, gamma: int, beside: bool) -> Iterator[RoundFacts]:
    """SpS, or PEARL with its two modes, as facts."""
    rng, post = np.random.default_rng(8), False
    forwards = tuple(DraftForward() for _ in range(gamma))
    for r in range(6_000):
        judged = gamma if post or not beside else 1
        flips = rng.random(judged) >= alpha
        kept = int(flips.argmax()) if flips.any() else judged
        n_new = kept + 1 if not beside or kept < judged else judged
        yield RoundFacts(r, n_new, judged, () if beside else forwards, forwards if beside else ())
        post = beside and kept == judged


@pytest.mark.parametrize(("alpha", "gamma", "c"), [(0.6, 8, 15), (0.8, 5, 5), (0.9, 6, 3)])
def test_the_clock_and_the_closed_forms_agree(alpha: float, gamma: int, c: float) -> None:
    """A token's time on the clock is that of the closed form; 6,000 rounds, 4 % is more than 5 standard errors."""
    cost = Rates(t=2, c=c)
    for beside, form in ((False, pipelines.sps), (True, pipelines.pearl)):
        totals = added_up(play(iid(alpha, gamma, beside), cost), cost)
        assert totals.elapsed / totals.n_new == pytest.approx(2 * form(alpha, gamma, c), rel=0.04)
        assert totals.speedup == pytest.approx(c * 2 * totals.n_new / totals.elapsed)
        assert totals.overlap_efficiency == pytest.approx(1.0 if beside else 0.0, abs=1e-9)


def test_plain_decoding_is_its_own_measure() -> None:
    cost = Rates(t=0.5, c=7, kappa_p=0.1, sync=1)
    totals = added_up(play(run_facts(make_events(Recipe(shape="none"))), cost), cost)
    assert (totals.speedup, totals.bubble_target) == (pytest.approx(1), pytest.approx(0))
    assert totals.bubble_draft is None


@pytest.mark.parametrize("shape", ["chain", "tree"])
def test_drafts_of_one_round_are_read_from_nodes_and_verdicts(shape: str) -> None:
    events = make_events(Recipe(shape=shape))
    for facts in run_facts(events):
        inside = [e for e in events if e.r == facts.number]
        nodes = [e for e in inside if isinstance(e, Node) and e.kept]
        (end,) = (e for e in inside if isinstance(e, RoundEnd))
        assert facts.rows == 1 + sum(n.fed for n in nodes)
        assert len(facts.before) == max((n.depth for n in nodes), default=0)
        assert sorted(n for f in facts.before for n in f.nodes) == sorted(n.node for n in nodes)
        assert sum(fate == "accepted" for _, fate in facts.fates) == end.n_accepted


def test_a_discarded_look_takes_time_and_makes_no_token() -> None:
    """AdaEDL pays the forward whose entropy stopped it."""
    start, commit, end = plain_round(1, 5, 2, 1)
    looks = [DraftStep(r=1, pos=5 + k, node=number, conf=0.5) for k, number in enumerate((0, 1, None))]
    looks[-1].stopped = True
    end.n_draft_calls = len(looks)
    inside: list[Event] = [
        node(1, 0, -1, 5, n=5),
        node(1, 1, 0, 6, n=5),
        verdict(1, 0, "accepted", 0),
        verdict(1, 1, "rejected", 1),
    ]
    (facts,) = run_facts([start, *inside, *looks, commit, end])
    assert [forward.nodes for forward in facts.before] == [(0,), (1,), ()]
    assert added_up(play([facts], SPEC), SPEC).wasted == 1


@given(st.integers(1, 8), st.data())
def test_a_round_has_no_more_forwards_than_its_drafter_counted_calls(n: int, data: st.DataObject) -> None:
    """A block that one call fills is one forward, however many looks it took; no place is lost or drawn twice."""
    calls, stops = data.draw(st.integers(0, n)), data.draw(st.booleans())
    start, commit, end = plain_round(1, 5, n, 0)
    end.n_draft_calls = calls
    looks = [DraftStep(r=1, pos=5 + k, node=k, conf=0.5) for k in range(n)]
    if stops:
        looks.append(DraftStep(r=1, pos=5 + n, conf=0.1, bound=0.2, stopped=True))
    places = [node(1, k, k - 1, 5 + k, n=5) for k in range(n)]
    for noted in (looks, []):  # a chain that was looked at, and one that was not
        (facts,) = run_facts([start, *places, *noted, commit, end])
        assert len(facts.before) == calls
        assert [k for forward in facts.before for k in forward.nodes] == [*range(n if calls else 0)]


def test_calls_of_blocks_are_told_by_the_blocks() -> None:
    """Of a tree that was grown in blocks, each call drew what its blocks offered, over as many rows as blocks."""
    events = rank_events()
    rounds = [record for record in finished(events) if record.nodes]
    assert any(record.end is not None and record.end.n_draft_calls > 1 for record in rounds)
    for record in rounds:
        facts = facts_of(record)
        assert facts is not None
        assert record.end is not None
        assert len(facts.before) == record.end.n_draft_calls
        batches = {block.block: block.batch for block in record.blocks}
        assert [forward.batch for forward in facts.before] == [batches[call] for call in sorted(batches)]
        drawn = sorted(node for forward in facts.before for node in forward.nodes)
        assert drawn == sorted(node.node for node in record.nodes.values() if node.kept)


def test_early_exit_has_another_clock() -> None:
    start, commit, end = plain_round(1, 5, 0, 0, closing="bonus")
    climb = LayerTrace(
        r=1,
        row=0,
        pos=4,
        token=1,
        source="root",
        exit_layer=None,
        terminal=True,
        draft_token=None,
        raw_conf=None,
        layer_from=1,
        past_len=[],
        width=[],
        layer_ns=[],
        fill_after=[],
    )
    assert list(run_facts([start, climb, commit, end])) == []


def test_rates_of_a_calibration() -> None:
    measured = Rates.of(Calibration(t_ns=2_000_000, c=5.0, kappa_q=-0.01, kappa_p=0.2))
    assert measured == Rates(t=0.002, c=5.0, kappa_q=0.0, kappa_p=0.2)
    assert measured.target(3) == pytest.approx(0.01 * 1.4)
    assert measured.draft(4) == 0.002
