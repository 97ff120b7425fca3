"""The bandit's panel from `adapt` records: every arm, what was done, what came of it."""

import math

import pytest

from specviz import events as ev
from specviz.runlog.fold import Run, fold
from specviz.view.frame.frame import Cursor, Feed, Options
from specviz.view.panels.built import BlockModel
from specviz.view.panels.learning.build import AdaptView, LearningPanel, adapt_view
from specviz.view.play.build import FrameBuilder
from specviz.view.words.numbers import short_seconds
from specviz.view.words.palette import Phase
from support.rank_trace import rank_events
from support.traces import of_kind


@pytest.fixture(scope="module")
def run() -> Run:
    return fold(rank_events(queries=6, learns=True, domains=("code", "prose")))


def learning(run: Run, index: int = 0) -> BlockModel:
    frame = FrameBuilder(run).frame(Cursor(index, Phase.COMMIT, 0), Options(shown=("learning",)), Feed())
    model = LearningPanel.of(frame)
    assert model is not None
    return model


def panel(run: Run, index: int = 0) -> AdaptView:
    view = adapt_view(run, run.rounds[index])
    assert view is not None
    assert learning(run, index).blocks == tuple(view)
    return view


def records(run: Run) -> list[ev.Adapt]:
    return [query.adapt for query in run.queries if query.adapt is not None]


def test_every_query_has_its_step(run: Run) -> None:
    screen = panel(run)
    steps = records(run)
    assert [place and place.index for place in screen.queries.places] == [q.rounds[-1].index for q in run.queries]
    columns = {
        "query": list(range(6)),
        "domain": [record.domain for record in steps],
        "tok/round": [record.mean_acceptance_length for record in steps],
        "done": [record.action for record in steps],
        "why": [record.reason for record in steps],
        "": ["taken back" * record.reverted for record in steps],
        "so far": pytest.approx([sum(other.regret or 0.0 for other in steps[: k + 1]) for k in range(6)]),
    }
    assert {head: screen.queries.column(head) for head in columns} == columns
    spent, regret = screen.ledger.curves
    assert spent.ys == tuple(record.spent for record in steps)
    assert list(regret.ys) == screen.queries.column("so far")
    assert screen.stream.curves[0].ys == tuple(record.mean_acceptance_length for record in steps)
    rows = {row.label: row.value for row in screen.summary.rows}
    assert (rows["queries"], rows["weights"]) == ("6", "version 5")
    assert int(rows["taken back"]) == sum(record.reverted for record in records(run)) > 0


@pytest.mark.parametrize("q", [0, 3])
def test_actions_are_those_of_the_query_on_screen(run: Run, q: int) -> None:
    index = run.queries[q].rounds[0].index
    screen = panel(run, index)
    assert (screen.queries.cursor, screen.stream.cursor) == (q, q)
    assert len(screen.actions) == len(records(run)[q].arms) == 2
    for words, record in zip([action.text for action in screen.actions], records(run)[q].arms, strict=True):
        assert words.startswith(f"{'▶' if record.action == records(run)[q].action else ' '} {record.action} (")
        assert f"at least {short_seconds(record.lcb)}, " in words
        assert ("at most ∞" in words) == (record.ucb is None)


def test_actions_are_shown_when_nothing_was_done(run: Run) -> None:
    events = rank_events(queries=1, learns=True)
    for event in events:
        if isinstance(event, ev.Adapt):
            event.action, event.reason = "skip", "skip"
    screen = panel(fold(events))
    assert len(screen.actions) == 2
    assert not any(words.text.startswith("▶") for words in screen.actions)
    assert "learn nothing" in screen.words


def test_what_was_taken_back_is_said(run: Run) -> None:
    screen = panel(run).stream
    for words, mark, record in zip(screen.notes, screen.curves[0].marks, records(run), strict=True):
        assert ("taken back" in words) == record.reverted
        assert (mark == "rejected") == record.reverted


def test_a_recording_without_arms_still_says_what_was_taken() -> None:
    """Records of an older writer hold the chosen action only."""
    events = rank_events(queries=1, learns=True)
    for event in events:
        if isinstance(event, ev.Adapt):
            event.arms = []
            event.action, event.reason = "head", "explore"
    screen = panel(fold(events))
    assert not screen.actions
    assert "Chosen: head" in screen.words


def test_hostile_domain_names_are_escaped() -> None:
    screen = panel(fold(rank_events(queries=1, learns=True, domains=("\x1b[31mred",))))
    assert "\x1b" not in str(screen.queries.column("domain"))


def test_where_nothing_learns_it_says_what_would() -> None:
    plain = rank_events()
    assert "--stream" in str(learning(fold(plain)).missing)
    plain[0].knobs["adapt"] = "on"  # type: ignore[attr-defined]
    assert "No query has ended" in str(learning(fold(plain)).missing)
    of_kind(plain[0], "eagle3")  # type: ignore[arg-type]
    assert "specblock" in str(learning(fold(plain)).missing)


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "—"), (0.0, "0 s"), (math.inf, "∞"), (1.44, "1.4 s"), (47.3, "47 s"), (-0.0757, "-76 ms"), (2e-5, "20 µs")],
)
def test_seconds_at_a_glance(value: float | None, text: str) -> None:
    assert short_seconds(value) == text
