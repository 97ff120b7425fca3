"""The page Early exit: figures hold what the view says, the sliders give the replay, and every lack has its reason."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app import barred
from app.conftest import Open, box
from specviz import events as ev
from specviz.cost.exit_replay import ExitKnobs
from specviz.errors import SpecvizError
from specviz.runlog.fold import fold
from specviz.trace import read_events
from specviz.view import Options, Player
from specviz.view.blocks import twin
from specviz.view.panels.exits.build import ExitsPanel
from specviz.view.panels.exits.grid import MEASURES, TextReplay, exit_grid, replay_of
from specviz.view.panels.exits.model import LayersModel
from specviz.view.panels.exits.parts import run_blocks
from specviz.view.panels.exits.what_if import ExitChange, exit_change, exit_text
from specviz_app.figures.bars import bars_html
from specviz_app.figures.blocks import fig_plot, table_rows
from specviz_app.figures.exit_grid import fig_grid, fig_text, grid_rows, text_rows
from specviz_app.figures.exits import fig_heat, fig_kinds, fig_stairs, heat_rows, kind_rows
from specviz_app.screens.exits_replay import SweepJob, arguments
from specviz_app.server.core import Settings
from support.exit_trace import SETTING, exit_events
from support.traces import make_events, write_trace

HOSTILE = ("<b>x</b>", "<script>", "[red]", "\x1b[31m", "&amp;", '"><i>', "‮", "a<br>b")


@pytest.fixture(scope="module")
def exit_trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_trace(tmp_path_factory.mktemp("exit") / "exits", exit_events())


@pytest.fixture(scope="module")
def unswept_trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_trace(tmp_path_factory.mktemp("bare") / "bare", exit_events(swept=False))


@pytest.fixture(scope="module")
def replay() -> TextReplay:
    return replay_of(fold(exit_events()))


def layers(index: int = 6, **changes: Any) -> LayersModel:
    player = Player(fold(exit_events(**changes)), animate=False)
    player.seek_index(index)
    panel = ExitsPanel.of(player.frame(Options(shown=("exits",))))
    assert panel is not None
    return panel


def spec(figure: Any) -> dict[str, Any]:
    plain: dict[str, Any] = json.loads(figure.to_json())
    return plain


def numbers(packed: Any) -> list[Any]:
    """An array as JSON holds it: plain, or packed by Plotly."""
    import base64

    import numpy as np

    if isinstance(packed, dict):
        return np.frombuffer(base64.b64decode(packed["bdata"]), dtype=packed["dtype"]).tolist()  # type: ignore[no-any-return]
    return list(packed)


def changes(change: ExitChange) -> dict[str, dict[str, str]]:
    """The lines of the table of changes, by their names."""
    return {
        row[0].text: dict(zip(change.table.heads, (cell.text for cell in row), strict=True))
        for row in change.table.rows
    }


# The replay ---------------------------------------------------------------------------------------------------------


def test_the_replay_of_the_runs_own_setting_is_the_run(replay: TextReplay) -> None:
    assert replay.own == SETTING
    assert replay.ran is not None
    again = replay.total(SETTING)
    assert (again.n_rounds, again.kept, again.exits, again.tests) == (
        replay.ran.n_rounds,
        replay.ran.kept,
        replay.ran.exits,
        replay.ran.tests,
    )
    change = exit_change(replay, SETTING)
    assert change.agrees is True
    rows = changes(change)
    assert {rows[name]["change"] for name in ("tokens per round", "exits right", "exits wrong")} == {"same"}
    assert not [label for label, row in rows.items() if "better" in row["change"] or "worse" in row["change"]]


def test_heads_of_another_sweep_are_noticed() -> None:
    events = exit_events()
    for event in events:
        if type(event).__name__ == "ExitTable":
            event.conf = [0.0] * 41  # type: ignore[attr-defined]
    change = exit_change(replay_of(fold(events)), SETTING)
    assert change.agrees is False
    assert "not those of the run" in change.check


def test_every_cell_of_the_map_is_the_replay_of_that_setting(replay: TextReplay) -> None:
    grid = exit_grid(replay, SETTING, MEASURES[0])
    for x, y in ((0.0, 0.5), (1.3, 0.9), (4.0, 1.0)):
        row, column = grid.ys.index(y), grid.xs.index(x)
        assert grid.values[row][column] == replay.total(replace(SETTING, alpha=x, tau=y)).tokens_per_round
    assert grid.own == (0.5, 0.75)
    assert grid.picked == (0.5, 0.75)


@pytest.mark.parametrize("measure", MEASURES, ids=lambda m: m.name)
def test_the_marked_cell_is_the_best_one(replay: TextReplay, measure: Any) -> None:
    for x, y in (("alpha", "tau"), ("d_max", "w_max")):
        grid = exit_grid(replay, SETTING, measure, x, y)
        known = [v for row in grid.values for v in row if v is not None]
        assert grid.best is not None
        best = grid.values[grid.ys.index(grid.best[1])][grid.xs.index(grid.best[0])]
        assert best == (max(known) if measure.sign > 0 else min(known))


def test_the_runs_mark_goes_when_another_knob_moved(replay: TextReplay) -> None:
    assert exit_grid(replay, replace(SETTING, w_max=2), MEASURES[0]).own is None
    assert exit_grid(replay, replace(SETTING, w_max=2), MEASURES[0], "d_max", "w_max").own == (5, 4)


def test_what_would_change_is_told_with_bounds(replay: TextReplay) -> None:
    surer = replace(SETTING, tau=0.95)
    rows = changes(exit_change(replay, surer))
    here = replay.total(surer)
    assert rows["exits wrong"]["here"] == str(here.exits - here.kept)
    never = exit_change(replay, replace(SETTING, tau=1.01))
    rows = changes(never)
    assert (rows["tokens per round"]["here"], rows["layer calls per token"]["here"]) == ("1", "8")
    assert rows["layer calls per token"]["change"] == "+.17  ▼ worse"
    assert rows["exits wrong"]["change"].endswith("▲ better")


def test_the_text_shows_the_rounds_of_the_setting(replay: TextReplay) -> None:
    text = exit_text(replay, SETTING, 0, 0)
    assert text.run == text.here
    total = replay.total(SETTING)
    assert sum(cell.starts for cell in text.here) == total.n_rounds
    assert sum(cell.right is True for cell in text.here) == total.kept
    assert [cell.stop for cell in exit_text(replay, replace(SETTING, w_max=0), 0, 0).here] == [None] * 40


def test_a_run_that_was_not_swept_cannot_be_replayed() -> None:
    with pytest.raises(SpecvizError, match="does not hold what the exit heads say"):
        replay_of(fold(exit_events(swept=False)))


def test_another_methods_text_is_replayed_without_a_setting_of_its_own() -> None:
    shown_replay = replay_of(fold(exit_events(method="kangaroo")))
    assert shown_replay.own is None
    change = exit_change(shown_replay, ExitKnobs(layers=(3,)))
    assert change.agrees is None
    assert "the run was kangaroo" in change.check


def test_wrong_exits_are_those_the_target_did_not_choose() -> None:
    run = fold(exit_events())
    times, time_words, wrong_words, wrong = run_blocks(run)
    lost = sum(v.status == "rejected" for record in run.rounds for v in record.verdicts.values())
    assert len(wrong.rows) == lost > 0
    drafted, chosen, layer = (wrong.column(head) for head in ("drafted", "target chose", "layer"))
    assert all(mine != right for mine, right in zip(drafted, chosen, strict=True))
    assert set(layer) <= {3, 5}
    assert wrong_words.text.startswith(f"{lost} of ")
    for place, after in zip(wrong.places, wrong.column("round"), strict=True):
        assert place is not None
        assert run.rounds[place.index].r == after
        assert place.node == -1 or place.node in run.rounds[place.index].nodes
    assert len(times.xs) == len(run.rounds)
    assert time_words.text.endswith("+10 %.")


# Figures ------------------------------------------------------------------------------------------------------------


def test_the_heat_map_has_a_square_for_every_cell() -> None:
    heat = layers().heat
    assert heat is not None
    figure = spec(fig_heat(heat))
    assert figure["data"][0]["type"] == "heatmap"
    cells = next(t for t in figure["data"] if t["name"] == "cells")
    assert len(cells["customdata"]) == len(heat.columns) * 8
    index, row, node, layer = cells["customdata"][0]
    assert (index, row, node, layer) == (heat.columns[0].index, heat.columns[0].row, heat.columns[0].node, 1)
    assert cells["marker"]["opacity"] == 0
    exits = [t for t in figure["data"] if "exit, " in t["name"]]
    assert sum(len(numbers(t["y"])) for t in exits) == sum(c.exit_layer is not None for c in heat.columns)
    assert len(heat_rows(heat)) == len(heat.columns)


def test_kinds_stairs_and_ledger_are_those_of_the_round() -> None:
    panel = layers()
    assert panel.heat is not None
    assert panel.stairs is not None
    assert panel.ledger is not None
    mine = [c for c in panel.heat.columns if c.index == 6]
    kinds = spec(fig_kinds(mine, 8))
    assert sum(len(t["text"]) for t in kinds["data"]) == len(mine) * 8
    assert len(kind_rows(mine)) == len(mine)
    stairs = spec(fig_stairs(panel.stairs))
    assert numbers(stairs["data"][-1]["y"]) == list(panel.stairs.steps[-1].depths)
    assert len(table_rows(panel.stairs.table)) == len(panel.stairs.steps)
    stops = [c.exit_layer or 8 for c in mine]
    assert barred.values(panel.ledger)["paid"] == stops
    *climbs, total = table_rows(twin(panel.ledger))
    assert [row["paid"] for row in climbs] == stops
    assert sum(row["net"] for row in climbs) == total["net"]


def test_the_cells_history_names_every_head_that_was_asked() -> None:
    cell = layers().cell
    assert cell is not None
    asked = [c for c in cell.column.cells if c.conf is not None]
    assert barred.values(cell.heads)["sure"] == [c.conf for c in asked]
    assert [name.split()[0] for name in cell.heads.xs] == [str(c.layer) for c in asked]  # type: ignore[union-attr]
    assert "τ .75" in cell.heads.help
    assert len(table_rows(twin(cell.heads))) == len(asked) == 7


def test_run_figures_hold_tests_sweeps_and_times() -> None:
    panel = layers()
    assert panel.gates is not None
    rows = table_rows(twin(panel.gates))
    assert [row["T"] for row in rows] == pytest.approx([1 + 0.5 * (1 - layer / 8) for layer in range(1, 8)])
    assert [row["tested"] for row in rows] == [layer in (3, 5) for layer in range(1, 8)]
    gates = {t["name"]: numbers(t["y"]) for t in spec(fig_plot(panel.gates))["data"]}
    assert gates["asks, one rival"] == pytest.approx([row["asks, one rival"] for row in rows])
    assert set(gates["τ"]) == {0.75}
    for chart in panel.sweeps:
        traces = [t["name"] for t in spec(fig_plot(chart))["data"]]
        assert traces == ["wrong exits", "layer calls saved, at least", "▶ this run", "★ fewest calls"]
        assert sum("this run" in str(row[""]) for row in table_rows(twin(chart))) >= 1
    times = replace(run_blocks(fold(exit_events()))[0], cursor=3)
    dots = spec(fig_plot(times))["data"][0]
    assert max(range(len(times.xs)), key=lambda k: dots["marker"]["size"][k]) == 3


def test_the_map_marks_best_run_and_sliders(replay: TextReplay) -> None:
    grid = exit_grid(replay, SETTING, MEASURES[1])
    figure = spec(fig_grid(grid))
    places = {t["name"]: (numbers(t["x"])[0], numbers(t["y"])[0]) for t in figure["data"][2:]}
    assert places == {"setting chosen": (0.5, 0.75), "this run": (0.5, 0.75), "best": grid.best}
    assert figure["data"][0]["reversescale"] is True  # fewer calls are brighter
    assert len(figure["data"][1]["customdata"]) == len(grid.xs) * len(grid.ys)
    assert len(grid_rows(grid)) == len(grid.ys)
    assert len(text_rows(exit_text(replay, SETTING, 0, 0))) == 40
    assert {r["change"] for r in changes(exit_change(replay, replace(SETTING, tau=0.9))).values()} != {"same"}


def test_regret_counts_every_stop_once_and_the_early_ones_are_the_wrong_ones(replay: TextReplay) -> None:
    change = exit_change(replay, replace(SETTING, tau=0.6))
    curves = {curve.name: dict(zip(change.regret.xs, curve.ys, strict=True)) for curve in change.regret.curves}
    early = sum(here or 0 for gap, here in curves["here"].items() if int(gap) < 0)
    assert changes(change)["tokens stopped too early"]["here"] == str(early)
    bars = {name: dict(zip(change.regret.xs, ys, strict=True)) for name, ys in barred.values(change.regret).items()}
    stops = [gap for text in replay.texts for gap in text.table.regret(replace(SETTING, tau=0.6)) if gap is not None]
    assert sum(bars["here"].values()) == len(stops)
    assert bars["here"][stops[0]] == stops.count(stops[0])
    assert sum(r["this run"] for r in table_rows(twin(change.regret))) == sum(
        gap is not None for text in replay.texts for gap in text.table.regret(SETTING)
    )


@pytest.mark.parametrize("dark", [False, True])
def test_tokens_are_never_markup(dark: bool) -> None:
    panel = layers(texts=HOSTILE)
    assert panel.heat is not None
    assert panel.ledger is not None
    assert panel.cell is not None
    hostile = replay_of(fold(exit_events(texts=HOSTILE)))
    figures = (
        fig_heat(panel.heat, dark),
        fig_kinds(panel.heat.columns, 8, dark),
        fig_stairs(panel.stairs, dark),
        fig_grid(exit_grid(hostile, SETTING, MEASURES[0])),
        fig_text(exit_text(hostile, SETTING, 0, 0), dark),
    )
    texts = [figure.to_json().replace("\\u003c", "<").replace("\\u003e", ">") for figure in figures]
    texts += [bars_html(plot, dark) for plot in (panel.ledger, panel.cell.heads)]
    for text in texts:
        for tag in ("<script", "<i>", "<b>x", "\x1b", "\\u001b", "a<br>b", "\\u202e"):
            assert tag not in text


@pytest.mark.parametrize("make", [fig_heat, fig_stairs])
def test_nothing_is_a_reason_not_an_empty_axis(make: Any) -> None:
    assert spec(make(None))["layout"]["annotations"][0]["text"]


# The page -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("show", "charts"), [("this round", 5), ("the run", 4), ("other settings", 4)])
def test_every_part_of_the_page_opens(show: str, charts: int, exit_trace: Path, open_page: Open) -> None:
    at = open_page(Settings(replay=exit_trace), "early-exit", at="r7", show=show)
    assert not at.exception
    assert len(barred.charts(at)) == charts
    assert all(barred.charts(at))


def test_choosing_a_layer_moves_the_cell(exit_trace: Path, open_page: Open) -> None:
    at = open_page(Settings(replay=exit_trace), "early-exit", at="r7")
    box(at, "layers-layer").set_value(2).run()
    assert not at.exception
    assert any("<h4>L2 × " in str(h.value) for h in at.get("html"))


def test_a_slider_recomputes_the_rounds(exit_trace: Path, open_page: Open) -> None:
    at = open_page(Settings(replay=exit_trace), "early-exit", show="other settings")
    assert at.slider(key="try.tau").value == 0.75
    at.slider(key="try.tau").set_value(1.01).run()
    assert not at.exception
    assert any("1 token a round" in str(h.value) for h in at.get("html"))
    assert at.dataframe[0].value["here"][0] == "1"
    at.button(key="try-reset").click().run()
    assert at.slider(key="try.tau").value == 0.75


def test_the_address_sets_the_sliders(exit_trace: Path, open_page: Open) -> None:
    at = open_page(Settings(replay=exit_trace), "early-exit", **{"show": "other settings", "try.tau": "0.5"})
    assert not at.exception
    assert at.slider(key="try.tau").value == 0.5
    assert at.slider(key="try.alpha").value == 0.5


def test_without_the_heads_answers_the_page_gives_the_command(unswept_trace: Path, open_page: Open) -> None:
    at = open_page(Settings(replay=unswept_trace), "early-exit", show="other settings")
    assert not at.exception
    assert f"specviz whatif {unswept_trace} --sweep specbound --write" in at.code[0].value
    assert at.button(key="sweep").label == "Ask the heads now"


def test_a_run_without_exits_gives_the_reason(tmp_path: Path, open_page: Open) -> None:
    path = write_trace(tmp_path / "chain", make_events())
    for show in ("this round", "the run"):
        at = open_page(Settings(replay=path), "early-exit", show=show)
        assert not at.exception
        assert "does not draft with the target's own layers" in at.info[0].value.replace("\\", "")


# The sweep of the page ----------------------------------------------------------------------------------------------


def test_the_sweep_asks_with_the_runs_own_method_and_heads() -> None:
    header: Any = exit_events(method="layerskip", heads=("lens",))[0]
    assert arguments(header, "a", "b", "t") == [
        "whatif",
        "a",
        "--sweep",
        "layerskip",
        "--heads",
        "lens",
        "--target",
        "t",
        "--write",
        "b",
    ]
    plain: Any = make_events()[0]
    assert arguments(plain, "a", "b") == ["whatif", "a", "--sweep", "specbound", "--write", "b"]


def test_a_sweep_that_fails_says_why_and_one_that_ends_gives_its_trace(tmp_path: Path, exit_trace: Path) -> None:
    import sys

    header: Any = read_events(exit_trace)[0]
    fail = SweepJob.start(
        header, exit_trace, tmp_path, "x", command=(sys.executable, "-c", "raise SystemExit('no pair')")
    )
    fail.process.wait(timeout=30)
    assert fail.result is None
    assert fail.last_words == "no pair"
    copy = "import sys,shutil; shutil.copy(sys.argv[2], sys.argv[-1] + '.gz')"
    good = SweepJob.start(header, exit_trace, tmp_path, "x", command=(sys.executable, "-c", copy))
    good.process.wait(timeout=30)
    assert good.result is not None
    assert len(read_events(good.result)) == len(read_events(exit_trace))


def test_a_text_that_depends_on_the_draft_is_refused_with_the_reason(tmp_path: Path, open_page: Open) -> None:
    header, *rest = exit_events()
    assert isinstance(header, ev.Header)
    header.keeps_tokens, header.sampling = False, {**header.sampling, "temperature": 0.7}
    path = write_trace(tmp_path / "sampled", [header, *rest])
    at = open_page(Settings(replay=path), "early-exit", show="other settings")
    assert not at.exception
    assert "the text depends on what was drafted" in at.info[0].value.replace("\\", "")
    assert not [b for b in at.button if b.key == "sweep"]
