"""Labels to jump to: none begins another, every one leads where it stands, leaving leaves everything as it was."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specviz_tui.app import SpecvizApp
from specviz_tui.find.jump import MOST, JumpLine, jump_labels
from specviz_tui.screens.main import MainScreen
from specviz_tui.widgets.timeline import Transport
from specviz_tui.widgets.tree import TreeCanvas
from support.live import NARROW, WIDE, lines, replay_app, shown


@given(st.integers(0, MOST + 50))
def test_labels_are_many_enough_and_none_begins_another(n: int) -> None:
    labels = jump_labels(n)
    assert len(set(labels)) == len(labels) == min(n, MOST)
    long = {label[0] for label in labels if len(label) == 2}
    assert not long & {label for label in labels if len(label) == 1}
    assert [len(label) for label in labels] == sorted(len(label) for label in labels)


def main_of(app: SpecvizApp) -> MainScreen:
    screen = app.screen_stack[0]
    assert isinstance(screen, MainScreen)
    return screen


@pytest.mark.parametrize("size", [WIDE, NARROW])
async def test_a_label_leads_to_its_node_and_to_its_round(tree_trace: Path, size: tuple[int, int]) -> None:
    app = replay_app(tree_trace)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        main = main_of(app)
        canvas, transport = main.query_one(TreeCanvas), main.query_one(Transport)
        before = main.feed.player.cursor
        await pilot.press("apostrophe")
        await pilot.pause()
        nodes, rounds = dict(canvas.labels), dict(transport.labels)
        assert set(nodes) == set(canvas.in_sight)
        assert nodes
        assert rounds
        assert "type a label" in shown(app)
        assert all(len(line) <= size[0] for line in lines(app))
        await pilot.press("escape")
        await pilot.pause()
        assert (canvas.labels, transport.labels) == ({}, {})
        assert main.feed.player.cursor == before
        assert not main.query_one(JumpLine).has_class("-on")
        node, label = list(nodes.items())[-1]
        await pilot.press("apostrophe", *label)
        await pilot.pause()
        assert main.feed.options.selected == node
        index, label = next((k, v) for k, v in rounds.items() if k != before.index)
        await pilot.press("apostrophe", *label)
        await pilot.pause()
        assert main.feed.player.cursor.index == index
        assert app.focused is canvas


async def test_keys_mean_nothing_else_while_labels_are_shown(tree_trace: Path) -> None:
    app = replay_app(tree_trace)
    async with app.run_test(size=WIDE) as pilot:
        await pilot.pause()
        main = main_of(app)
        before = main.feed.player.cursor
        await pilot.press("apostrophe", "right_square_bracket")
        await pilot.pause()
        assert main.feed.player.cursor == before
        assert main.query_one(TreeCanvas).labels == {}, "a key that is no label leaves"
