"""The panel *would another length pay*: when it speaks, and what it says."""

import msgspec
import pytest

from specviz.events import Calibration, Event
from specviz.metrics import Tally
from specviz.runlog.fold import Run, fold
from specviz.view.frame.series import Meter
from specviz.view.panels.lanes.payoff import PayPanel, pay_object, pay_panel
from support.traces import make_events

FLAT = Calibration(
    widths=[1, 17],
    target_ns=[2_000_000, 2_000_000],  # as the passes of the run
)


@pytest.fixture(scope="module")
def events() -> list[Event]:
    return make_events(temperature=0.8, new_tokens=200)


def with_costs(events: list[Event], costs: Calibration) -> Run:
    return fold([events[0], costs, *events[1:]])


def panel_of(run: Run) -> PayPanel:
    return pay_panel(run.header, run.calibration, Meter().metrics(run), run.knobs)


def test_a_run_with_costs_has_a_curve(events: list[Event]) -> None:
    run = with_costs(events, FLAT)
    pay = panel_of(run)
    metrics = Tally().add_all([events[0], FLAT, *events[1:]]).summary()
    assert pay.curve is not None
    assert pay.curve.own == run.knobs["gamma"]
    assert pay.curve.measured == pytest.approx(metrics.tokens_per_second.value)
    assert f"γ {pay.curve.best}" in pay.words
    assert f"Measured at γ {pay.curve.own}" in pay.point_text
    assert pay_object(pay)["payoff"]["best"] == pay.curve.best


def test_a_longer_draft_pays_where_it_costs_nothing(events: list[Event]) -> None:
    """With free drafting and passes that do not grow, speed can only rise with the length: the law of the curve."""
    pay = panel_of(with_costs(events, FLAT))
    dear = panel_of(with_costs(events, Calibration(widths=[1, 17], target_ns=[500_000, 6_500_000])))
    assert pay.curve is not None
    assert dear.curve is not None
    assert dear.curve.best <= pay.curve.best
    assert dear.curve.best == 0
    assert "No draft length pays" in dear.words or "plain decoding beats" in dear.words


def test_what_cannot_be_told_is_said(events: list[Event]) -> None:
    short = [event for event in events if event.r <= 3]
    few = panel_of(with_costs(short, FLAT))
    assert few.curve is None
    assert few.missing.startswith("Cannot tell yet: ")
    other = panel_of(with_costs(events, Calibration(widths=[1, 17], target_ns=[9_000_000, 9_000_000])))
    assert other.curve is None, "passes of the run and passes timed alone are of two machines"
    assert "2 ms by the run's own passes, 9 ms when timed alone" in other.missing
    pay = panel_of(fold(events))
    assert "holds no costs" in pay.missing
    tree = panel_of(with_costs(make_events(shape="tree", temperature=0.8, new_tokens=40), FLAT))
    assert "trees" in tree.missing
    assert pay_object(PayPanel("why"))["payoff_words"] == "why"


def test_passes_timed_alone_are_brought_to_what_a_pass_took_in_the_run(events: list[Event]) -> None:
    """Of a machine twice as busy behind the run as in it: the same curve as of costs half as high."""
    run = with_costs(events, msgspec.structs.replace(FLAT, behind_ns=[2_000_000] * 5))
    busy = msgspec.structs.replace(FLAT, target_ns=[4_000_000, 4_000_000], behind_ns=[2_000_000] * 5)
    scaled, plain = panel_of(with_costs(events, busy)), panel_of(run)
    assert scaled.curve is not None
    assert plain.curve is not None
    assert scaled.curve.speeds == pytest.approx(plain.curve.speeds)
