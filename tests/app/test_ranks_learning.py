"""The part of page Ranks about learning while serving: queries, bounds, gains, seconds, as the records have them."""

import math
from pathlib import Path
from typing import Any

import pytest

from app.conftest import Open
from app.test_ranks_page import numbers, spec, trace
from specviz.events import Adapt, Event
from specviz.runlog.fold import fold
from specviz.view import Options, Player
from specviz.view.panels.learning.build import AdaptView, LearningPanel
from specviz_app.figures.learning import (
    arm_rows,
    fig_arms,
    fig_gains,
    fig_ledger,
    fig_stream,
    gain_rows,
    ledger_rows,
    stream_rows,
)
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


def view() -> AdaptView:
    player = Player(fold(stream()), animate=False)
    player.seek_index(3)
    found = LearningPanel.of(player.frame(Options(shown=("learning",))))
    assert found is not None
    assert found.view is not None
    return found.view


def test_every_query_has_its_length_its_domain_and_its_action() -> None:
    found = view()
    learnt = [e for e in stream() if isinstance(e, Adapt)]
    figure = spec(fig_stream(found))
    for domain in ("code", "prose"):
        mine = trace(figure, domain)
        wanted = [e for e in learnt if e.domain == domain]
        assert numbers(mine["x"]) == [e.q for e in wanted]
        assert numbers(mine["y"]) == [e.mean_acceptance_length for e in wanted]
    actions = trace(figure, "action")
    assert [("skip", "head", "full")[k] for k in numbers(actions["y"])] == [e.action for e in learnt]
    assert ["x" if e.reverted else "" for e in learnt] == [
        "x" if symbol == "x" else "" for symbol in actions["marker"]["symbol"]
    ]
    shifts = figure["layout"]["shapes"]
    assert [line["x0"] for line in shifts] == [5.5]
    assert len(stream_rows(found)) == len(learnt)


def test_bounds_run_from_the_lower_to_the_upper_and_have_no_end_where_there_is_none() -> None:
    found = view()
    figure = spec(fig_arms(found))
    for action, glyph in (("head", "◐ head"), ("full", "● full")):
        arms = [arm for step in found.steps for arm in step.arms if arm.action == action]
        ends = numbers(trace(figure, f"{action}: bounds")["y"])
        assert [low for low in ends[::3] if low is not None] == [arm.lcb for arm in arms]
        for arm, top in zip(arms, ends[1::3], strict=True):
            assert arm.ucb is not None
            assert top == arm.ucb or math.isinf(arm.ucb)
        assert numbers(trace(figure, glyph)["y"]) == [arm.mean for arm in arms]
    assert all(row["UCB s"] is None or math.isfinite(row["UCB s"]) for row in arm_rows(found))


def test_gains_and_seconds_are_those_of_the_records() -> None:
    found = view()
    learnt = [e for e in stream() if isinstance(e, Adapt)]
    measured = [e for e in learnt if e.measured_gain is not None]
    gains = spec(fig_gains(found))
    assert numbers(trace(gains, "measured")["y"]) == [e.measured_gain for e in measured]
    assert ["/" if e.reverted else "" for e in measured] == trace(gains, "measured")["marker"]["pattern"]["shape"]
    ledger = spec(fig_ledger(found))
    assert numbers(trace(ledger, "spent on exploring")["y"]) == [e.spent for e in learnt]
    assert numbers(trace(ledger, "may be spent on exploring")["y"]) == [e.budget for e in learnt]
    total = numbers(trace(ledger, "regret so far")["y"])
    assert total[-1] == pytest.approx(sum(e.regret or 0.0 for e in learnt))
    assert len(gain_rows(found)) == len(measured)
    assert len(ledger_rows(found)) == len(learnt)


@pytest.mark.parametrize("make", [fig_stream, fig_arms, fig_gains, fig_ledger])
def test_nothing_is_a_reason_not_an_empty_axis(make: Any) -> None:
    assert spec(make(None))["layout"]["annotations"][0]["text"]


def test_names_of_domains_are_never_markup() -> None:
    events = stream()
    for event in events:
        if hasattr(event, "domain"):
            event.domain = "<b>x</b>"
    player = Player(fold(events), animate=False)
    found = LearningPanel.of(player.frame(Options(shown=("learning",))))
    assert found is not None
    text = fig_stream(found.view).to_json().replace("\\u003c", "<").replace("\\u003e", ">")
    assert "<b>x" not in text


def test_the_page_shows_the_decision_after_the_query_on_screen(stream_trace: Path, open_page: Open) -> None:
    at = open_page(Settings(replay=stream_trace), "ranks", at="q4/r1", show="learning")
    assert not at.exception
    assert len(at.get("plotly_chart")) == 5  # the time line among them
    assert all(chart.proto.alt for chart in at.get("plotly_chart"))
    assert any("After query 4:" in str(h.value) for h in at.get("html"))


def test_a_run_that_learns_nothing_says_how_one_would(tmp_path: Path, open_page: Open) -> None:
    at = open_page(Settings(replay=write_trace(tmp_path / "still", rank_events())), "ranks", show="learning")
    assert not at.exception
    assert "specviz run --stream" in at.info[0].value.replace("\\", "")
