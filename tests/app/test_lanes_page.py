"""The page Lanes on the worked trace (`support.branch_trace`): bars, hatches and arrows are those of the view, and the
clocks stay apart.
"""

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

from app import barred
from app.conftest import Open, box
from specviz import events as ev
from specviz.cost.payoff import PositionChance, RoundCosts, payoff
from specviz.runlog.fold import fold
from specviz.view import Options, Player
from specviz.view.blocks import Block, Heat, Plot, Words, twin
from specviz.view.panels.lanes.build import LanesPanel
from specviz.view.panels.lanes.model import Clock, LanesModel
from specviz.view.panels.lanes.payoff import PayPanel
from specviz.view.words.palette import colour
from specviz_app.figures.bars import bars_html
from specviz_app.figures.blocks import fig_heat, fig_plot
from specviz_app.figures.lanes import fig_lanes, lane_rows, lanes_alt
from specviz_app.server.core import Settings
from support.branch_trace import worked
from support.traces import make_events, plain_run, write_trace

HOSTILE = ("<b>x</b>", "<script>", "[red]", "\x1b[31m", "&amp;", '"><i>')


def branch_events(text: str = "a", calibrated: bool = True) -> list[ev.Event]:
    """The worked trace with what a recording has besides: branch tokens by name, spans, measured costs."""
    rounds = worked()
    for record in rounds:
        nodes = {e.node: e for e in record if isinstance(e, ev.Node)}
        for event in record:
            if isinstance(event, ev.Node):
                event.text = text
            if isinstance(event, ev.Fork):
                firsts = [n for n in nodes.values() if n.branch is not None and n.pos == event.pos]
                event.branches = [
                    ev.BranchToken(branch=n.branch or 0, node=n.node, token=1, logq=-1.0, rank=1 + k, kind="top")
                    for k, n in enumerate(firsts)
                ]
        r = record[0].r
        began = r * 1_000_000
        record[1:1] = [
            ev.Span(r=r, lane="draft", name="draft", t0=began, dur_ns=300_000),
            ev.Span(r=r, lane="target", name="target", t0=began + 300_000, dur_ns=600_000),
        ]
    events = plain_run(rounds, method="specbranch", level="full", lanes="threads", knobs={"gamma": 4, "epsilon": 0.3})
    if calibrated:
        events.insert(
            1, ev.Calibration(t_ns=1_000_000, c=4.0, kappa_q=0.0, kappa_p=0.0, widths=[1], target_ns=[4_000_000])
        )
    for i, event in enumerate(events):
        event.i = i
    return events


@pytest.fixture(scope="module")
def branch_trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_trace(tmp_path_factory.mktemp("branch") / "branches", branch_events())


def lanes(index: int = 1, clock: Clock = "model", **options: Any) -> LanesModel:
    player = Player(fold(branch_events(**options)), animate=False)
    player.seek_index(index)
    panel = LanesPanel.of(player.frame(LanesPanel.choose(Options(), clock=clock)))
    assert panel is not None
    return panel


def spec(figure: Any) -> dict[str, Any]:
    plain: dict[str, Any] = json.loads(figure.to_json())
    return plain


def test_the_bars_are_the_modelled_times_of_the_worked_trace() -> None:
    figure = spec(fig_lanes(lanes(0).chart))
    bars = {t["name"]: t for t in figure["data"]}
    assert [(b, x) for b, x in zip(bars["verify"]["base"], bars["verify"]["x"], strict=True)] == [(3, 4)]
    drafting = [t for t in figure["data"] if t["name"].startswith(("draft", "branch"))]
    starts = sorted(b for t in drafting for b, y in zip(t["base"], t["y"], strict=True) if y == 1)
    assert starts[:4] == [0, 1, 2, 3]  # two tokens, the look that stopped, then branches beside the pass
    waits = [(b, x) for b, x, y in zip(*(bars["idle"][k] for k in ("base", "x", "y")), strict=True) if y == 0]
    assert waits == [(0, 3)]  # the target waits for the draft stage
    assert figure["layout"]["xaxis"]["title"]["text"] == "ms, modelled clock"


def test_what_is_rolled_back_is_hatched_and_the_failing_pass_points_at_it() -> None:
    chart = lanes(2).chart
    assert chart is not None
    figure = spec(fig_lanes(chart))
    for trace in figure["data"]:
        void = "rolled back" in trace["name"]
        assert (trace["marker"]["pattern"]["shape"] == "x") is void
    n_void = sum(len(t["y"]) for t in figure["data"] if "rolled back" in t["name"])
    assert n_void == sum(b.void for b in chart.blocks) > 0
    arrows = [a for a in figure["layout"]["annotations"] if a["showarrow"]]
    assert len(arrows) == sum(len(a.targets) for a in chart.arrows) > 0
    ends = {chart.blocks[a.source].t1 * chart.scale for a in chart.arrows}
    assert {a["ax"] for a in arrows} == ends
    assert {a["opacity"] for a in arrows} == {0.25, 0.9}  # those of the round under the cursor stand out


def test_a_bar_names_its_block_and_the_table_has_them_all() -> None:
    chart = lanes(1).chart
    assert chart is not None
    figure = spec(fig_lanes(chart))
    named = {tuple(data) for t in figure["data"] for data in t["customdata"]}
    assert named == {b.at for b in chart.blocks}
    assert len(lane_rows(chart)) == len(chart.blocks)
    assert "modelled clock" in lanes_alt(chart)


def test_the_clocks_are_never_mixed() -> None:
    measured, modelled = lanes(1, "measured").chart, lanes(1, "model").chart
    assert measured is not None
    assert modelled is not None
    for chart, took in ((measured, 6e-4), (modelled, 4e-3)):
        passes = [b.took for b in chart.blocks if b.kind == "verify"]
        assert passes == pytest.approx([took] * 2)
    assert spec(fig_lanes(measured))["layout"]["xaxis"]["title"]["text"] == "ms, measured clock"


def plot(blocks: tuple[Block, ...]) -> Plot:
    return next(block for block in blocks if isinstance(block, Plot))


def test_confidence_stands_against_the_bound() -> None:
    chart = plot(lanes(0).steps)
    assert barred.values(chart) == {"confidence": [0.8, 0.6, 0.2], "ε": [0.3] * 3}
    drawn = bars_html(chart)
    (stopped,) = re.findall(r'value="0.2" style="([^"]*)"', drawn)
    assert f"--mark:{colour('exit', False)}" in stopped
    (bound,) = re.findall(r"clip-path:polygon\(([^)]*\)[^;]*);", drawn)
    assert bound.count("px)") == 2 * 2 * len(chart.xs), "it has the whole width of every place"
    assert twin(chart).column("stopped") == [False, False, True]
    assert chart.words == f"3 looks; stopped at {chart.xs[2]}."


def test_the_fan_shows_every_branch_and_the_survivor() -> None:
    chart = plot(lanes(0).fan)
    (bars,) = barred.values(chart).values()
    assert [str(name).split()[0] for name in chart.xs] == ["b0", "▶b1", "b2", "b3"]
    assert set(chart.xs) <= set(barred.read(chart).words)
    assert bars == [pytest.approx(math.exp(-1))] * 4
    assert twin(chart).column("survivor") == [False, True, False, False]
    assert all(len(str(words).split()) == 3 for words in twin(chart).column("goes on"))


def test_the_classifier_shows_its_three_probabilities_and_what_became_true() -> None:
    blocks = lanes(1).hrad
    assert [ys[0] for ys in barred.values(plot(blocks)).values()] == [0.04, 0.21, 0.75]
    assert any(isinstance(block, Words) and "s = 2" in block.text for block in blocks)
    heat = next(block for block in blocks if isinstance(block, Heat))
    texts = next(t for t in spec(fig_heat(heat))["data"] if t["name"] == "counts")["text"]
    counts = [square.text for row in heat.squares for square in row]
    assert texts == [f"<b>{n}</b>" for n in counts]
    assert [int(n) for n in counts] == [0, 0, 0, 0, 0, 0, 0, 1, 0]
    assert heat.right[2] == ("0 %", "1")


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("text", HOSTILE)
def test_tokens_are_never_markup(text: str, dark: bool) -> None:
    panel = lanes(0, text=text)
    plain = fig_lanes(panel.chart, dark).to_json().replace("\\u003c", "<").replace("\\u003e", ">")
    bars = [bars_html(plot(blocks), dark) for blocks in (panel.steps, panel.fan)]
    for page in (plain, *bars):
        for tag in ("<script", "<i>", "<b>x", "\x1b", "\\u001b"):
            assert tag not in page


def test_nothing_is_a_reason_not_an_empty_axis() -> None:
    assert spec(fig_lanes(None))["layout"]["annotations"][0]["text"]
    player = Player(fold(make_events(shape="none", new_tokens=6)), animate=False)
    panel = LanesPanel.of(player.frame(LanesPanel.choose(Options())))
    assert panel is not None
    for blocks in (panel.steps, panel.fan, panel.hrad):
        assert all(block.text if isinstance(block, Words) else block.missing for block in blocks)  # type: ignore[union-attr]


def test_the_curve_of_draft_lengths_has_its_band_its_best_and_the_measured_point() -> None:
    curve = payoff({1: PositionChance(0.8, 0.7, 0.9, 90)}, RoundCosts((1, 17), (0.01, 0.02), 0.002), 4, 150.0)
    assert curve is not None
    chart = next(block for block in PayPanel("", curve) if isinstance(block, Plot))
    traces = {t["name"]: t for t in spec(fig_plot(chart))["data"]}
    assert traces["tokens/s by γ"]["y"] == list(curve.speeds)
    assert (traces["best"]["x"], traces["best"]["marker"]["symbol"]) == ([curve.best], "star")
    measured = traces["this run, measured"]
    assert [place for place in zip(measured["x"], measured["y"], strict=True) if place[1] is not None] == [(4, 150.0)]
    assert max(traces["95 %"]["y"]) == max(curve.high)
    assert twin(chart).column("tokens/s by γ") == list(curve.speeds)


# The page -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("show", "charts"), [("lanes", 1), ("the round", 4), ("draft length", 0)])
@pytest.mark.parametrize("clock", ["measured clock", "modelled clock"])
def test_every_part_opens_on_both_clocks(
    show: str, charts: int, clock: str, branch_trace: Path, open_page: Open
) -> None:
    at = open_page(Settings(replay=branch_trace), "lanes", at="r2", show=show, clock=clock)
    assert not at.exception
    assert len(barred.charts(at)) == charts
    assert all(barred.charts(at))
    if show == "lanes":
        assert json.loads(at.get("plotly_chart")[0].proto.spec)["layout"]["xaxis"]["title"]["text"] == f"ms, {clock}"


def test_choosing_a_stretch_tells_about_it(branch_trace: Path, open_page: Open) -> None:
    at = open_page(Settings(replay=branch_trace), "lanes", at="r1", clock="modelled clock")
    stretch = box(at, "lanes-block")
    stretch.select_index(0).run()
    assert not at.exception
    assert any("sv-why" in str(h.value) and "round 1" in str(h.value) for h in at.get("html"))


@pytest.mark.parametrize("shape", ["chain", "none"])
def test_plain_methods_have_lanes_too(shape: str, tmp_path: Path, open_page: Open) -> None:
    path = write_trace(tmp_path / shape, make_events(shape=shape, temperature=0.8, new_tokens=20))
    for show in ("lanes", "the round", "draft length"):
        at = open_page(Settings(replay=path), "lanes", show=show)
        assert not at.exception


def test_a_modelled_clock_without_measured_costs_says_so(tmp_path: Path, open_page: Open) -> None:
    path = write_trace(tmp_path / "plain", branch_events(calibrated=False))
    at = open_page(Settings(replay=path), "lanes", clock="modelled clock")
    assert not at.exception
    assert any("costs assumed" in c.value.replace("\\", "") for c in at.caption)
