"""Screen *Lanes*: the worked trace of `support.branch_trace` on the modelled clock, fates, arrows, and the words."""

from itertools import pairwise
from typing import Any

import pytest

from specviz import events as ev
from specviz.runlog.fold import fold
from specviz.view import Cursor, Feed, Options, Run
from specviz.view.blocks import Block, Plot, Words, twin
from specviz.view.frame.steps import steps
from specviz.view.panels.lanes.build import LanesPanel
from specviz.view.panels.lanes.model import Chart, LaneBlock, LanesModel
from specviz.view.play.build import FrameBuilder
from specviz.view.words.palette import Phase
from support.branch_trace import worked
from support.exit_trace import exit_events
from support.traces import Recipe, make_events, make_header, plain_round, plain_run

SECOND = 1_000_000_000


def branched(calibrated: bool = True) -> Run:
    """The worked trace with t = 1 s, c = 4, nothing else costing anything."""
    header = make_header(Recipe(temperature=0.0), method="specbranch", drafter="branch", verifier="walk")
    costs = [ev.Calibration(t_ns=SECOND, c=4.0, kappa_q=0.0, kappa_p=0.0)] if calibrated else []
    prefill = ev.Prefill(prompt=[1] * 11, text="p", n_prompt=11, seed=0, dur_ns=1)
    return fold([header, *costs, prefill, *[event for records in worked() for event in records]])


def lanes(run: Run, index: int, phase: Phase = Phase.COMMIT, step: int = 0, **options: Any) -> LanesModel:
    options = {"clock": "model", **options}
    whole = {name: options.pop(name) for name in ("selected", "folding", "ascii") if name in options}
    chosen = LanesPanel.choose(Options(**whole), **options)
    panel = LanesPanel.of(FrameBuilder(run).frame(Cursor(index, phase, step), chosen, Feed()))
    assert panel is not None
    return panel


def chart(panel: LanesModel) -> Chart:
    assert panel.chart is not None
    assert panel.chart.missing is None
    return panel.chart


def stretches(bars: Chart, lane: str, index: int, idle: bool = False) -> list[tuple[float, float]]:
    """The stretches of a lane in a round, touching ones joined."""
    out: list[tuple[float, float]] = []
    for block in bars.blocks:
        if block.lane == lane and block.at[0] == index and (block.kind == "idle") == idle:
            joined = bool(out) and abs(out[-1][1] - block.t0) < 1e-9
            out[-1:] = [(out[-1][0], block.t1)] if joined else [*out[-1:], (block.t0, block.t1)]
    return out


def test_the_worked_trace_in_model_time() -> None:
    bars = chart(lanes(branched(), 2))
    assert stretches(bars, "draft", 0) == [(0.0, 6.0)]  # three looks, then three forwards beside the target
    assert stretches(bars, "target", 0) == [(3.0, 7.0)]
    assert stretches(bars, "target", 0, idle=True) == [(0.0, 3.0)]
    assert stretches(bars, "draft", 0, idle=True) == [(6.0, 7.0)]
    for index, start in ((1, 7.0), (2, 11.0)):
        assert stretches(bars, "draft", index) == stretches(bars, "target", index) == [(start, start + 4)]
    assert [(span.t0, span.t1) for span in bars.rounds] == [(0.0, 7.0), (7.0, 11.0), (11.0, 15.0)]


def test_busy_and_idle_fill_both_lanes() -> None:
    bars = chart(lanes(branched(), 2))
    for lane in ("target", "draft"):
        assert sum(block.took for block in bars.blocks if block.lane == lane) == pytest.approx(bars.t1 - bars.t0)


def test_without_measured_costs_the_modelled_clock_says_that_they_are_assumed() -> None:
    assert "as measured" in chart(lanes(branched(), 2)).clock_text
    assert "assumed" in chart(lanes(branched(calibrated=False), 2)).clock_text


def blocks_of(bars: Chart, node: int, lane: str) -> list[LaneBlock]:
    return [block for block in bars.blocks if node in block.nodes and block.lane == lane]


def test_a_fate_is_told_in_the_round_that_settles_it() -> None:
    run = branched()
    before, after = chart(lanes(run, 0)), chart(lanes(run, 1))
    (open_,), (void,) = blocks_of(before, 11, "branch 1"), blocks_of(after, 11, "branch 1")
    assert open_.open
    assert not open_.void
    assert void.void
    judging = chart(lanes(run, 1, phase=Phase.ACCEPT, step=1))
    assert blocks_of(judging, 11, "branch 1")[0].open, "the rejection is not on screen yet"


def test_lanes_of_lost_branches_are_void_and_the_hit_one_is_kept() -> None:
    bars = chart(lanes(branched(), 0))
    for branch in (0, 2, 3):
        assert all(block.void for block in bars.blocks if block.lane == f"branch {branch}")
    (first,) = blocks_of(bars, 3, "branch 1")
    assert (first.void, first.kept) == (False, True)
    (batch,) = blocks_of(bars, 3, "draft")
    assert batch.useful == pytest.approx(1 / 4), "one of four branch tokens became text"


def test_arrows_lead_to_the_forwards_a_verdict_voided() -> None:
    run = branched()
    bars = chart(lanes(run, 2))
    by_round = {arrow.round: arrow for arrow in bars.arrows}
    assert set(by_round) == {2, 3}, "branches that lost to a hit are no rollback"
    for number, arrow in by_round.items():
        assert bars.blocks[arrow.source].kind == "verify"
        assert bars.blocks[arrow.source].round == number
        voided = {node for k in arrow.targets for node in bars.blocks[k].nodes}
        record = run.rounds[number - 1]
        settled = {node for settle in record.every(ev.Settle) for node, fate in settle.fates if fate != "accepted"}
        assert settled <= voided
    assert "invalidates 6 drafted tokens" in by_round[2].words
    assert "The miss" in by_round[3].words


def test_the_selected_node_is_the_block_under_the_cursor() -> None:
    run = branched()
    for node in (0, 3, 6):
        bars = chart(lanes(run, 0, selected=node))
        assert bars.cursor is not None
        assert node in bars.blocks[bars.cursor].nodes
    root = chart(lanes(run, 0, selected=-1))
    assert root.cursor is not None
    assert root.blocks[root.cursor].kind == "verify"
    wanted = (0, "draft", 0)
    chosen = chart(lanes(run, 1, block=wanted))
    assert chosen.cursor is not None
    assert chosen.blocks[chosen.cursor].at == wanted


def column(blocks: tuple[Block, ...], head: str) -> list[Any]:
    """What stands under a head of the table of the first chart."""
    return twin(next(block for block in blocks if isinstance(block, Plot))).column(head)


def said(blocks: tuple[Block, ...]) -> str:
    """The words of blocks, and those in place of an empty chart."""
    texts = (block.text if isinstance(block, Words) else getattr(block, "missing", "") for block in blocks)
    return " ".join(filter(None, texts))


def test_confidence_stands_against_its_bound() -> None:
    panel = lanes(branched(), 0)
    assert column(panel.steps, "stopped") == [False, False, True]
    assert column(panel.steps, "bound") == [0.3] * 3
    assert column(panel.steps, "")[2] == ".200 < .300"
    assert column(panel.steps, "token")[2] == "stop"
    assert column(panel.steps, "what became of it")[:2] == ["became text", "became text"]


def test_the_fan_tells_k_mass_and_survivor() -> None:
    run = branched()
    fan = lanes(run, 0).fan
    words = said(fan)
    assert "⌋) = 4 · " in words
    assert "p of branches 75 %" in words
    assert "Hit: the target took a" in words
    assert "unsure" in words
    early = said(lanes(run, 0, phase=Phase.VERIFY).fan)
    assert "Branches leave" in early
    assert "the target took" not in early, "the match is not told before the verdict"
    assert "p of branches" not in early
    rejected = said(lanes(run, 1).fan)
    assert "p of branches" not in rejected
    assert "every branch hangs on nothing" in rejected
    missed = said(lanes(run, 2).fan)
    match = run.rounds[2].first(ev.Match)
    assert match is not None
    assert match.token is not None
    assert f"Miss: the target took {run.word(match.token)}" in missed.replace("“", "").replace("”", "")
    assert "no branch begins with" in missed


def test_no_room_for_branches_is_no_rollback() -> None:
    run = branched()
    fork = run.rounds[1].every(ev.Fork)[0]
    fork.k, fork.reason = 0, "cap"
    fan = said(lanes(run, 1).fan)
    assert "length limit" in fan
    assert "rejected" not in fan


def test_the_classifiers_answer_and_its_source() -> None:
    calls = [lanes(branched(), index).hrad for index in range(3)]
    assert [f"s = {s}" in said(call) for s, call in zip((1, 2, 0), calls, strict=True)] == [True] * 3
    chances = next(block for block in calls[2] if isinstance(block, Plot))
    assert [curve.ys for curve in chances.curves] == [(0.9,), (0.05,), (0.05,)]
    assert "nothing" in said(calls[2])


def test_words_of_blocks() -> None:
    run = branched()

    def words(index: int, at: tuple[int, str, int]) -> str:
        block = lanes(run, index, block=at).block
        assert block is not None
        return block.words

    assert "kept 3 drafted tokens" in words(0, (0, "target", 1)) or "kept 3 drafted tokens" in words(
        0, (0, "target", 0)
    )
    assert "has not spoken" in words(0, (0, "branch 1", 1))
    assert "All invalidated: rejected" in words(1, (0, "branch 1", 2))
    assert "settled by the target's pass of round 2" in words(1, (0, "branch 1", 2))
    assert "nothing was drawn" not in words(0, (0, "draft", 2)), "the branches come of the look that stopped"
    idle = next(b.at for b in chart(lanes(run, 0)).blocks if b.kind == "idle" and b.lane == "target")
    assert "waits for the draft" in words(0, idle)


def test_only_what_has_happened_is_drawn() -> None:
    run = branched()
    assert lanes(run, 0, phase=Phase.ROOT).chart is not None
    assert lanes(run, 0, phase=Phase.ROOT).chart.missing  # type: ignore[union-attr]
    drafting = chart(lanes(run, 0, phase=Phase.DRAFT, step=1))
    assert {block.kind for block in drafting.blocks} == {"draft", "branch"}
    assert max(block.t1 for block in drafting.blocks) == 3.0


def test_the_measured_clock_shows_the_spans_and_nothing_else() -> None:
    run = fold(make_events(temperature=0.8, new_tokens=30))
    bars = chart(lanes(run, 3, clock="measured"))
    spans = [span for record in run.rounds[:4] for span in record.spans]
    working = [block for block in bars.blocks if block.kind != "idle"]
    assert sorted(round(block.took * 1e9) for block in working) == sorted(span.dur_ns for span in spans)
    assert "measured" in bars.clock_text
    ordered = sorted(working, key=lambda block: block.t0)
    assert all(a.t1 <= b.t0 + 1e-9 for a, b in pairwise(ordered)), "one process, nothing overlaps"


def test_time_for_which_a_viewer_held_the_core_is_nobodys_idle_time() -> None:
    """Three rounds as they follow each other, and with ten seconds before each of them."""

    def told(held: int) -> Chart:
        events = make_events(temperature=0.8, new_tokens=12)
        ends = [k for k, event in enumerate(events) if isinstance(event, ev.RoundEnd)]
        for k, event in enumerate(events):
            later = held * sum(end < k for end in ends)
            event.t += later
            if isinstance(event, ev.Span):
                event.t0 += later
        return chart(lanes(fold(events), 2, clock="measured"))

    paced, free = told(10 * SECOND), told(0)
    assert paced.t1 - paced.t0 == pytest.approx(free.t1 - free.t0)
    assert [lane.text for lane in paced.lanes] == [lane.text for lane in free.lanes]
    assert "20 s of waiting between rounds left out" in paced.clock_text
    assert "left out" not in free.clock_text


def test_a_draft_that_was_cut_is_void_from_there_on() -> None:
    run = fold(make_events(temperature=0.8, new_tokens=60, noise=0.6))
    cut = next(r for r in run.rounds if r.end and 0 < r.end.n_accepted < r.end.n_drafted)
    bars = chart(lanes(run, cut.index, clock="measured"))
    (block,) = [b for b in bars.blocks if b.lane == "draft" and b.at[0] == cut.index and b.kind == "draft"]
    assert cut.end is not None
    assert block.useful == cut.end.n_accepted / cut.end.n_drafted
    assert cut.r in {arrow.round for arrow in bars.arrows}


def test_a_self_drafting_round_has_fates_but_no_modelled_clock() -> None:
    run = fold(exit_events())
    cut = next(r.index for r in run.rounds if r.end and r.end.n_accepted < r.end.n_drafted)
    panel = lanes(run, cut, clock="model")
    assert panel.chart is not None
    assert "own prediction on screen Layers" in (panel.chart.missing or "")
    fates = column(panel.steps, "what became of it")
    kept = run.rounds[cut].end
    assert kept is not None
    assert fates.count("became text") == kept.n_accepted
    assert "rejected" in fates


def test_plain_decoding_has_one_lane() -> None:
    run = fold(make_events(shape="none", new_tokens=6))
    for clock in ("measured", "model"):
        assert [lane.key for lane in chart(lanes(run, 2, clock=clock)).lanes] == ["target"]


def test_level_none_says_what_is_missing() -> None:
    run = fold(plain_run([plain_round(1, 5, 3, 2)]))
    assert "level none" in (lanes(run, 0).missing or "")


def test_the_moments_of_a_pipelined_round_exist() -> None:
    run = branched()
    for index in range(3):
        moments = steps(FrameBuilder(run).round_tree(index)).moments
        for phase, step in moments:
            assert lanes(run, index, phase=phase, step=step).missing is None
