"""The tree in the room of a terminal: columns that shrink, steps that lay nothing out, the parts beside it."""

import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from textual.widget import Widget

from specviz.runlog.fold import fold
from specviz.trace.bundled import all_bundled
from specviz.view import Options, Player
from specviz.view.frame.frame import Frame, TreeFrame, TreeViewport
from specviz_tui.app import SpecvizApp
from specviz_tui.common.paint import Painter
from specviz_tui.screens.again import AgainScreen
from specviz_tui.screens.main import MainScreen
from specviz_tui.widgets.knob_bar import KnobPanel
from specviz_tui.widgets.tree import TreeBox, TreeCanvas, neighbour
from specviz_tui.widgets.tree_columns import ColumnGrid, column_plan
from specviz_tui.widgets.tree_rows import listed
from specviz_tui.widgets.tree_rows import tests as judged_table
from specviz_tui.widgets.tree_side import TreeSide
from specviz_tui.widgets.why_panel import WhyPanel
from support.live import NARROW, WIDE, replay_app, shown
from support.traces import make_events

FULL = (200, 50)


def frame_of(app: SpecvizApp) -> Frame:
    main = app.screen_stack[0]
    assert isinstance(main, MainScreen)
    assert main.frame is not None
    return main.frame


def player() -> Player:
    own_player = Player(fold(make_events(shape="tree", temperature=0.8)))
    own_player.seek_index(2)
    return own_player


def tree(rows: int = 0, listed: bool = False, selected: int | None = None) -> TreeFrame:
    return player().frame(Options(room=TreeViewport(rows, listed, 3), selected=selected)).tree


@settings(max_examples=60, deadline=None)
@given(st.integers(24, 220), st.integers(0, 12))
def test_the_column_that_is_looked_at_is_wide_and_all_fit(width: int, around: int) -> None:
    drawn = tree()
    around = min(around, drawn.n_columns - 1)
    plan = column_plan(drawn, width, around)
    assert plan.cells < width
    assert plan.wide(around)
    assert len(plan.tokens) == drawn.n_columns


@settings(max_examples=40, deadline=None)
@given(st.integers(12, 120), st.integers(0, 30))
def test_every_shown_node_has_its_spot_however_narrow(width: int, rows: int) -> None:
    drawn = tree(rows)
    grid = ColumnGrid(drawn, Painter(), width)
    painted = [grid.row(y) for y in range(grid.n_rows)]
    assert sorted(node for row in painted for _, _, node in row.spots) == sorted(node.id for node in drawn.nodes)
    for row in painted:
        ends = [0, *(x1 for _, x1, _ in row.spots)]
        assert all(end <= x0 for end, (x0, _, _) in zip(ends, row.spots, strict=False))


@pytest.mark.parametrize("as_list", [False, True])
def test_arrows_reach_every_node_through_a_window_of_four_lines(as_list: bool) -> None:
    here, every = player(), {node.id for node in tree().nodes}
    seen, edge = {-1}, [-1]
    while edge:
        at = edge.pop()
        drawn = here.frame(Options(room=TreeViewport(4, as_list), selected=at)).tree
        for direction in ("left", "right", "up", "down"):
            there = neighbour(drawn, at, direction, as_list)
            if there is not None and there not in seen:
                seen.add(there)
                edge.append(there)
    assert seen == every


def test_the_list_counts_what_the_room_has_folded() -> None:
    drawn = tree(5, listed=True)
    lines = listed(drawn, Painter(), 200, 5)
    text = ["".join(piece for piece, _ in row.pieces) for row in lines]
    named = sum(int(line.split("+ ")[-1].split()[0]) for line in text if line.endswith("below"))
    assert named + len(lines) == len(tree().nodes)


def test_the_map_holds_all_that_is_drafted() -> None:
    drawn = tree(4).map
    assert drawn is not None
    assert sum(drawn.sizes) == drawn.n_nodes == len(tree().nodes)
    assert drawn.n_folded == drawn.n_nodes - len(tree(4).nodes)


def test_a_table_that_is_cut_says_so() -> None:
    drawn = tree()
    whole = judged_table(drawn, Painter(), 60, 99)
    cut = judged_table(drawn, Painter(), 60, len(whole) - 1)
    assert len(cut) == len(whole) - 1
    assert "+ 2 more" in "".join(piece for piece, _ in cut[-1].pieces)


async def test_a_step_within_a_round_lays_nothing_out(tree_trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = replay_app(tree_trace)
    async with app.run_test(size=WIDE) as pilot:
        await pilot.press("right_square_bracket", "less_than_sign", "less_than_sign")
        laid: list[Widget] = []
        plain = Widget.refresh

        def refresh(self: Widget, *regions: Any, layout: bool = False, **how: Any) -> Widget:
            laid.extend([self] if layout else [])
            return plain(self, *regions, layout=layout, **how)

        monkeypatch.setattr(Widget, "refresh", refresh)
        at = frame_of(app).cursor
        for _ in range(6):
            await pilot.press("full_stop")
        await pilot.pause()
        assert frame_of(app).cursor != at
        assert [widget for widget in laid if widget.is_on_screen] == []


async def test_a_wide_screen_shows_tests_and_curves_beside_the_tree(tree_trace: Path) -> None:
    app = replay_app(tree_trace)
    async with app.run_test(size=FULL) as pilot:
        await pilot.press("right_square_bracket")
        await pilot.pause()
        assert app.screen.query_one(TreeSide).display
        for words in ("Tests", "Kept by place in the draft", "Where a round's time goes"):
            assert words in shown(app)
        await pilot.resize_terminal(*WIDE)
        await pilot.pause()
        assert not app.screen.query_one(TreeSide).display
        assert "Kept by place" not in shown(app)


async def test_the_part_in_focus_takes_the_screen_and_gives_it_back(tree_trace: Path) -> None:
    app = replay_app(tree_trace)
    async with app.run_test(size=WIDE) as pilot:
        box, why = app.screen.query_one(TreeBox), app.screen.query_one(WhyPanel)
        before = box.size
        await pilot.press("O")
        await pilot.pause()
        assert box.size.width > before.width
        assert box.size.height > before.height
        assert not why.display
        await pilot.press("O")
        await pilot.pause()
        assert box.size == before
        why.focus()
        await pilot.press("O")
        await pilot.pause()
        assert not box.display
        assert why.size.width > before.width


async def test_knobs_of_a_recording_take_a_line(chain_trace: Path) -> None:
    app = replay_app(chain_trace)
    async with app.run_test(size=WIDE) as pilot:
        await pilot.pause()
        assert app.screen.query_one(KnobPanel).outer_size.height == 1
        assert "temperature .8" in shown(app)


async def test_a_node_is_decided_again(chain_trace: Path) -> None:
    """A tested node, with a u on the other side of its threshold: another verdict; and by the other rules."""
    app = replay_app(chain_trace)
    async with app.run_test(size=WIDE) as pilot:
        await pilot.press("right_curly_bracket")
        await pilot.pause()
        await pilot.press("u")
        await app.workers.wait_for_complete()
        await pilot.pause()
        assert isinstance(app.screen, AgainScreen)
        text = shown(app)
        assert "tokenwise" in text
        assert "blockwise" in text
        assert "would have been kept" in text
        await pilot.press("escape")
        assert len(app.screen_stack) == 1


async def test_nothing_is_decided_again_before_its_verdict(chain_trace: Path) -> None:
    app = replay_app(chain_trace)
    async with app.run_test(size=WIDE) as pilot:
        await pilot.press("right_curly_bracket")
        await pilot.pause()
        node = frame_of(app).selected
        assert node is not None
        await pilot.press("less_than_sign", "less_than_sign")
        await pilot.press("u")
        await pilot.pause()
        assert isinstance(app.screen, MainScreen)


async def test_a_panel_without_anything_offers_a_recording_and_opens_it(chain_trace: Path) -> None:
    app = replay_app(chain_trace)
    async with app.run_test(size=WIDE) as pilot:
        await pilot.press("2")
        await app.workers.wait_for_complete()
        await pilot.pause()
        assert "exits" in frame_of(app).unfit
        assert "has it: enter opens it" in shown(app)
        await pilot.press("enter")
        await app.workers.wait_for_complete()
        await pilot.pause()
        assert "exits" not in frame_of(app).unfit
        assert "has it: enter opens it" not in shown(app)


KEYS = (
    "right",
    "left",
    "up",
    "down",
    "x",
    "X",
    "O",
    "v",
    "enter",
    "escape",
    "full_stop",
    "comma",
    "}",
    "]",
    "[",
    "u",
    "2",
    "1",
    "t",
)


async def test_random_keys_and_sizes_never_hurt(tree_trace: Path) -> None:
    app, dice = replay_app(tree_trace), random.Random(20261122)
    async with app.run_test(size=WIDE) as pilot:
        for _ in range(60):
            if dice.random() < 0.1:
                await pilot.resize_terminal(dice.choice((60, 80, 120, 170, 200)), dice.choice((18, 24, 36, 50)))
            await pilot.press(dice.choice(KEYS))
        await pilot.press("escape", "escape")
        await pilot.resize_terminal(*NARROW)
        await pilot.pause()
        assert app.screen_stack[0].query_one(TreeCanvas).listed


async def test_a_tree_that_was_scrolled_for_another_room_begins_at_its_root_again() -> None:
    """At first nothing is folded, for the canvas does not know its lines yet."""
    app = replay_app(all_bundled()["explain-specblock"])
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.pause()
        main, canvas = app.screen, app.screen.query_one(TreeCanvas)
        assert isinstance(main, MainScreen)
        whole = main.feed.player.frame(Options(selected=max(node.id for node in frame_of(app).tree.nodes)))
        canvas.rebuild(whole)
        assert canvas.scroll_offset.y > 0
        main.repaint_all()
        await pilot.pause()
        assert canvas.scroll_offset.y == 0
