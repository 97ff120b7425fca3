"""The panels *would another length pay* and *a round against the machine*: when they speak, and what they say."""

import pytest

from specviz.events import Calibration, Event, MachineRates, PassParts, PassWork
from specviz.metrics import Tally
from specviz.runlog.fold import Run, fold
from specviz.view import Options, Player
from specviz.view.panels.lanes.payoff import PayPanel, RoofPanel, panels, told
from specviz.view.words.numbers import percent
from support.traces import make_events

WORK = PassWork(
    layer_bytes=10_000_000,
    head_bytes=2_000_000,
    cache_bytes=1_000,
    layer_flops=5_000_000,
    head_flops=1_000_000,
    cache_flops=500,
    bits=16.0,
)
FLAT = Calibration(
    widths=[1, 17],
    target_ns=[2_000_000, 2_000_000],  # as the passes of the run
    rates=MachineRates(read_gbs=20.0, copy_gbs=10.0, gflops=50.0, threads=2),
    target_work=WORK,
    draft_work=WORK,
    target_parts=PassParts(layers=8, head=1, host=1),
)


@pytest.fixture(scope="module")
def events() -> list[Event]:
    return make_events(temperature=0.8, new_tokens=200)


def with_costs(events: list[Event], costs: Calibration) -> Run:
    return fold([events[0], costs, *events[1:]])


def test_a_run_with_costs_has_both(events: list[Event]) -> None:
    run = with_costs(events, FLAT)
    pay, roof = panels(run)
    metrics = Tally().add_all([events[0], FLAT, *events[1:]]).summary()
    assert pay.curve is not None
    assert pay.curve.own == run.knobs["gamma"]
    assert pay.curve.measured == pytest.approx(metrics.tokens_per_second.value)
    assert f"γ {pay.curve.best}" in pay.words
    assert f"Measured at γ {pay.curve.own}" in pay.point_text
    assert [row.label for row in roof.rows][:3] == ["layers", "head", "host"]
    assert roof.rows[-1].measured_s == pytest.approx(sum(row.measured_s for row in roof.rows[:-1]))
    assert "16 bits a weight" in roof.work[0]
    assert "20 GB/s" in roof.machine
    plain = told(pay, roof)
    assert plain["payoff"]["best"] == pay.curve.best
    assert plain["roofline"]["share"] == roof.share
    frame = Player(run, animate=False).frame(Options(shown=("overview",)))
    assert roof.share is not None
    assert frame.run.roof == percent(roof.share)
    assert frame.panels["overview"].roof_words == roof.words
    assert not Player(fold(events), animate=False).frame().run.roof


def test_a_longer_draft_pays_where_it_costs_nothing(events: list[Event]) -> None:
    """With free drafting and passes that do not grow, speed can only rise with the length: the law of the curve."""
    pay, _ = panels(with_costs(events, FLAT))
    dear, _ = panels(with_costs(events, Calibration(widths=[1, 17], target_ns=[500_000, 6_500_000])))
    assert pay.curve is not None
    assert dear.curve is not None
    assert dear.curve.best <= pay.curve.best
    assert dear.curve.best == 0
    assert "No draft length pays" in dear.words or "plain decoding beats" in dear.words


def test_what_cannot_be_told_is_said(events: list[Event]) -> None:
    short = [event for event in events if event.r <= 3]
    few, _ = panels(with_costs(short, FLAT))
    assert few.curve is None
    assert few.missing.startswith("Cannot tell yet: ")
    other, _ = panels(with_costs(events, Calibration(widths=[1, 17], target_ns=[9_000_000, 9_000_000])))
    assert other.curve is None, "passes of the run and passes timed alone are of two machines"
    assert "2 ms by the run's own passes, 9 ms when timed alone" in other.missing
    pay, roof = panels(fold(events))
    assert "holds no costs" in pay.missing
    assert "holds no costs" in roof.missing
    tree, _ = panels(with_costs(make_events(shape="tree", temperature=0.8, new_tokens=40), FLAT))
    assert "trees" in tree.missing
    assert told(PayPanel("why"), RoofPanel("that is why"))["payoff_words"] == "why"
