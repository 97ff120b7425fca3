"""Screen 2: what it shows of early exits, how the cursor moves, and what it says when there is nothing."""

from pathlib import Path

import pytest
from rich.cells import cell_len

from specviz import events as ev
from specviz.view.panels.exits.build import ExitsPanel
from specviz.view.panels.exits.model import CellInfo, HeatMap
from specviz_tui.app import SpecvizApp
from specviz_tui.panels.exits import TITLES, VIEWS, LayersPane, LayerView
from support.exit_trace import exit_events
from support.live import NARROW, WIDE, Script, catalogue, frame_of, lines, live_app, main_of, press, replay_app, shown


@pytest.fixture
def exits(exit_trace_file: Path) -> Path:
    return exit_trace_file


def heat(app: SpecvizApp) -> HeatMap:
    panel = ExitsPanel.of(frame_of(app))
    assert panel is not None
    assert panel.heat is not None
    return panel.heat


def cell(app: SpecvizApp) -> CellInfo:
    panel = ExitsPanel.of(frame_of(app))
    assert panel is not None
    assert panel.cell is not None
    return panel.cell


def layer_row(app: SpecvizApp, layer: int) -> str:
    return next(line for line in lines(app) if line[1:].lstrip(" ▸>").startswith(f"L{layer} "))


async def test_exits_stand_where_the_rows_stopped(exits: Path) -> None:
    app = replay_app(exits)
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "2", *["]"] * 4)
        panel = heat(app)
        for layer in range(1, panel.n_layers + 1):
            line = layer_row(app, layer).split("││")[0]
            stops = sum(column.exit_layer == layer for column in panel.columns)
            assert line.count("⇥") == stops, (layer, line)
        assert "[2 Layers]" in shown(app)
        assert f"Cell {cell(app).title}" in shown(app)


async def test_the_cursor_is_the_trees_selected_node(exits: Path) -> None:
    app = replay_app(exits)
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "2")
        index = next(r.index for r in app.feed.player.run.rounds if len(r.nodes) >= 3)
        app.feed.player.seek_index(index)
        main_of(app).paint()
        mine = [k for k, column in enumerate(heat(app).columns) if column.index == index]
        main_of(app).query_one(LayersPane).pick(mine[1], 3)
        await pilot.pause()
        assert (heat(app).column, heat(app).layer) == (mine[1], 3)
        assert frame_of(app).selected == heat(app).columns[mine[1]].node
        await press(pilot, "l", "k", "k")
        assert (heat(app).column, heat(app).layer) == (mine[2], 5)
        await press(pilot, "left", "down")
        assert (heat(app).column, heat(app).layer) == (mine[1], 4)
        await press(pilot, "enter")
        assert main_of(app).shown == "tree"
        assert frame_of(app).selected == heat_node(app, index, 1)


def heat_node(app: SpecvizApp, index: int, row: int) -> int:
    return sorted(app.feed.player.run.rounds[index].nodes)[row - 1]


async def test_earlier_rounds_can_be_reached_and_entered(exits: Path) -> None:
    app = replay_app(exits)
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "2", *["]"] * 3)
        here = frame_of(app).cursor.index
        assert here == 3
        while heat(app).columns[heat(app).column or 0].index == here:
            await press(pilot, "left")
        assert frame_of(app).cursor.index == here, "looking at an earlier row does not move the run"
        wanted = heat(app).columns[heat(app).column or 0]
        assert cell(app).column == wanted
        await press(pilot, "enter")
        assert frame_of(app).cursor.index == wanted.index
        assert frame_of(app).selected == wanted.node


async def test_steps_bring_one_row_after_the_other(exits: Path) -> None:
    app = replay_app(exits)
    async with app.run_test(size=WIDE) as pilot:
        index = next(r.index for r in app.feed.player.run.rounds if len(r.nodes) >= 2)
        app.feed.player.seek_index(index)
        await press(pilot, "2", *["comma"] * 20)
        while frame_of(app).cursor.index < index:
            await press(pilot, "full_stop")
        seen = []
        while frame_of(app).cursor.index == index:
            panel = ExitsPanel.of(frame_of(app))
            columns = panel.heat.columns if panel and panel.heat else ()
            seen.append(sum(column.index == index for column in columns))
            before = frame_of(app).cursor
            await press(pilot, "full_stop")
            if frame_of(app).cursor == before:
                break
        assert seen == sorted(seen)
        assert seen[:3] == [0, 1, 2]
        assert seen[-1] == len(app.feed.player.run.rounds[index].nodes) + 1


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("size", [(60, 18), (80, 24), (100, 30), (120, 36), (200, 50)])
async def test_the_screen_is_filled_exactly(view: str, size: tuple[int, int], exits: Path) -> None:
    app = replay_app(exits)
    async with app.run_test(size=size) as pilot:
        await press(pilot, "2", "]", "]", "]", *["v"] * VIEWS.index(view))  # type: ignore[arg-type]
        rows = lines(app)
        assert (len(rows), {cell_len(line) for line in rows}) == (size[1], {size[0]})
        assert app.focused is main_of(app).query_one(LayersPane)
        assert main_of(app).query_one(LayerView).view == view


async def test_v_goes_through_the_views(exits: Path) -> None:
    app = replay_app(exits)
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "2", "]", "]")
        for view in (*VIEWS[1:], VIEWS[0]):
            await press(pilot, "v")
            assert TITLES[view] in shown(app)
        await press(pilot, "V")
        assert TITLES[VIEWS[-1]] in shown(app)
        assert "▶" in shown(app)
        assert "fewest" in shown(app)


async def test_the_ledger_shows_the_sum(exits: Path) -> None:
    app = replay_app(exits)
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "2", "]", "]", "v", "v")
        panel = ExitsPanel.of(frame_of(app))
        assert panel is not None
        assert panel.ledger is not None
        text = " ".join(shown(app).split())
        assert panel.calls.split(",")[0] in text
        total = next(line for line in lines(app) if line.startswith("│ round "))
        paid, earned = (sum(curve.ys) for curve in panel.ledger.curves[:2])  # type: ignore[arg-type]
        assert [str(paid), str(earned)] == [word for word in total.split() if word.isdigit()][:2]


async def test_another_threshold_is_tried_and_let_go(exits: Path) -> None:
    app = replay_app(exits)
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "2", "]", "]")
        before = heat(app).what_tau
        assert before is not None
        await press(pilot, "z", "z")
        assert heat(app).what_tau == pytest.approx(max(before - 0.1, 0), abs=0.011)
        assert "(cursor)" not in heat(app).what_text
        await press(pilot, "escape")
        assert heat(app).what_tau == before


async def test_a_narrow_screen_has_the_cell_as_a_view(exits: Path) -> None:
    app = replay_app(exits)
    async with app.run_test(size=NARROW) as pilot:
        await press(pilot, "2", "]", "]")
        assert not main_of(app).query_one("#cell-box").display
        first = " ".join(cell(app).words.split()[:4])
        assert first in shown(app), "the sentence stands under the map"
        await press(pilot, *["v"] * len(VIEWS))
        assert "top-1 here" in shown(app)


async def test_a_click_chooses_a_cell(exits: Path) -> None:
    app = replay_app(exits)
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "2", "]", "]")
        y = next(k for k, line in enumerate(lines(app)) if line[1:].lstrip(" ▸").startswith("L2 "))
        x = lines(app)[y].rindex("░", 0, 78) if "░" in lines(app)[y][:78] else lines(app)[y].rindex("▒", 0, 78)
        await pilot.click(offset=(x, y))
        await pilot.pause()
        assert heat(app).layer == 2
        assert cell(app).layer == 2


async def test_another_method_is_told_what_to_run(chain_trace: Path) -> None:
    app = replay_app(chain_trace)
    async with app.run_test(size=NARROW) as pilot:
        await press(pilot, "2")
        text = " ".join(shown(app).split())
        assert "no row stops on its way up" in text
        assert "specviz run --method specbound" in text
        await press(pilot, "1")
        assert main_of(app).query_one("#body").display


async def test_no_colour_and_ascii_say_the_same(exits: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = replay_app(exits, ascii=True)
    async with plain.run_test(size=WIDE) as pilot:
        for keys in (["2", "]", "]"], ["v"], ["v"], ["v"]):
            await press(pilot, *keys)
            assert [line for line in lines(plain) if not line.isascii()] == []
            assert {len(line) for line in lines(plain)} == {WIDE[0]}
    pictures = []
    for value in ("", "1"):
        monkeypatch.setenv("NO_COLOR", value)
        app = replay_app(exits)
        async with app.run_test(size=WIDE) as pilot:
            await press(pilot, "2", "]", "]")
            pictures.append(shown(app))
    assert pictures[0] == pictures[1]


async def test_it_works_while_the_run_goes_on() -> None:
    script = Script()
    app = live_app(script)
    events = exit_events()
    first = next(k for k, event in enumerate(events) if isinstance(event, ev.RoundEnd))
    async with app.run_test(size=WIDE) as pilot:
        script.play([catalogue(), *events[:3]])
        await pilot.pause(0.2)
        await press(pilot, "escape", "2")  # the dialog for a prompt stands over it
        assert "written when it ends" in shown(app)
        script.play(events[3 : first + 1])
        await pilot.pause(0.3)
        assert {column.index for column in heat(app).columns} == {0}
        assert "no exit_table in this trace" in ExitsPanel.of(frame_of(app)).swept  # type: ignore[union-attr]
        script.play(events[first + 1 :])
        await pilot.pause(0.3)
        assert ExitsPanel.of(frame_of(app)).sweeps  # type: ignore[union-attr]
