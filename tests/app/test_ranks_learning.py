"""The part of page Ranks about learning while serving: queries, gains, seconds, as the records have them."""

from pathlib import Path

import pytest

from app import barred
from app.conftest import Open
from app.test_ranks_page import numbers, spec, trace
from specviz.events import Adapt, Event
from specviz.runlog.fold import fold
from specviz.view.panels.learning.build import AdaptView, adapt_view
from specviz.view.words.palette import colour
from specviz_app.figures.blocks import fig_plot
from specviz_app.server.core import Settings
from support.rank_trace import rank_events
from support.traces import write_trace


def stream() -> list[Event]:
    """Twelve queries, the second half of another domain; one update is taken back."""
    events = rank_events(queries=12, learns=True, new_tokens=16, domains=("code",) * 6 + ("prose",) * 6)
    learnt = [e for e in events if isinstance(e, Adapt)]
    done = next(e for e in learnt if e.action != "skip")
    done.reverted = True
    return events


@pytest.fixture(scope="module")
def stream_trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_trace(tmp_path_factory.mktemp("stream") / "stream", stream())


def view(events: list[Event] | None = None) -> AdaptView:
    run = fold(events or stream())
    shown = adapt_view(run, run.rounds[3])
    assert shown is not None
    return shown


def test_every_query_has_its_length_and_its_action() -> None:
    panel = view()
    learnt = [e for e in stream() if isinstance(e, Adapt)]
    points = trace(spec(fig_plot(panel.stream)), "length")
    assert numbers(points["x"]) == [e.q for e in learnt]
    assert numbers(points["y"]) == [e.mean_acceptance_length for e in learnt]
    assert [e.reverted for e in learnt] == [hue == colour("rejected", False) for hue in points["marker"]["color"]]
    assert panel.queries.column("done") == [e.action for e in learnt]


def test_seconds_are_those_of_the_records() -> None:
    learnt = [e for e in stream() if isinstance(e, Adapt)]
    ledger = spec(fig_plot(view().ledger))
    assert numbers(trace(ledger, "spent on exploring")["y"]) == [e.spent for e in learnt]
    total = numbers(trace(ledger, "regret so far")["y"])
    assert total[-1] == pytest.approx(sum(e.regret or 0.0 for e in learnt))


def test_names_of_domains_are_never_markup() -> None:
    events = stream()
    for event in events:
        if hasattr(event, "domain"):
            event.domain = "<b>x</b>"
    text = fig_plot(view(events).stream).to_json().replace("\\u003c", "<").replace("\\u003e", ">")
    assert "<b>x" not in text


def test_the_page_shows_the_decision_after_the_query_on_screen(stream_trace: Path, open_page: Open) -> None:
    at = open_page(Settings(replay=stream_trace), "learning", at="q4/r1")
    assert not at.exception
    assert len(barred.charts(at)) == 2
    assert all(barred.charts(at))
    assert any("After query 4:" in str(h.value) for h in at.get("html"))


def test_a_run_that_learns_nothing_says_how_one_would(tmp_path: Path, open_page: Open) -> None:
    at = open_page(Settings(replay=write_trace(tmp_path / "still", rank_events())), "learning")
    assert not at.exception
    assert "specviz run --stream" in at.info[0].value.replace("\\", "")
