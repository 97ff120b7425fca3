"""Lines of the tree: pure functions, so looked at without a terminal."""

from dataclasses import replace

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from specviz.runlog.fold import fold
from specviz.view import Options, Player
from specviz.view.frame.frame import TreeFrame
from specviz_tui.common.paint import Painter, bar, track
from specviz_tui.widgets.tree import neighbour
from specviz_tui.widgets.tree import rows as tree_rows
from specviz_tui.widgets.tree_rows import Row, judged
from support.traces import make_events

PAINTER = Painter()


def tree_of(round_index: int = 0, **recipe: object) -> TreeFrame:
    player = Player(fold(make_events(**recipe)))
    player.seek_index(round_index)
    return player.frame(Options(folding="none")).tree


TREES = [tree_of(k, shape=shape, temperature=t) for shape in ("chain", "tree") for t in (0.0, 0.8) for k in range(4)]


def text(row: Row) -> str:
    return "".join(piece for piece, _ in row.pieces)


@pytest.mark.parametrize("width", [40, 80, 160])
@pytest.mark.parametrize("tree", TREES)
def test_every_visible_node_stands_once_and_none_covers_another(tree: TreeFrame, width: int) -> None:
    rows = tree_rows.columns(tree, PAINTER, width)
    assert sorted(node for row in rows for _, _, node in row.spots) == sorted(node.id for node in tree.nodes)
    for row in rows:
        assert row.cells == cell_len(text(row))
        ends = [0, *(x1 for _, x1, _ in row.spots)]
        assert all(end <= x0 for end, (x0, _, _) in zip(ends, row.spots, strict=False))


@pytest.mark.parametrize("tree", TREES)
def test_siblings_begin_in_the_same_column(tree: TreeFrame) -> None:
    rows = tree_rows.columns(tree, PAINTER, 200)
    starts: dict[int, set[int]] = {}
    for row in rows:
        for x0, _, node in row.spots:
            place = tree.node(node)
            assert place is not None
            starts.setdefault(place.column, set()).add(x0)
    assert all(len(columns) == 1 for columns in starts.values())


@pytest.mark.parametrize("tree", TREES)
def test_the_list_holds_the_way_to_the_cursor_and_what_was_kept(tree: TreeFrame) -> None:
    for at in tree.nodes:
        moved = replace(
            tree, nodes=tuple(msgspec.structs.replace(node, cursor=node.id == at.id) for node in tree.nodes)
        )
        rows = tree_rows.listed(moved, PAINTER, 80)
        listed = [row.spots[0][2] for row in rows]
        assert at.id in listed
        assert {node.id for node in tree.nodes if node.winning} <= set(listed)
        assert sum(row.cursor is not None for row in rows) == 1


def test_nodes_left_out_of_the_list_are_counted() -> None:
    (tree,) = [t for t in TREES if len(t.nodes) == max(len(u.nodes) for u in TREES)][:1]
    rows = tree_rows.listed(tree, PAINTER, 120)
    named = sum(int(text(row).split("+ ")[-1].split()[0]) for row in rows if text(row).endswith("below"))
    assert named == len(tree.nodes) - len(rows) > 0


@pytest.mark.parametrize("tree", TREES)
@pytest.mark.parametrize("listed", [False, True])
def test_arrows_reach_every_node_from_the_root(tree: TreeFrame, listed: bool) -> None:
    seen, edge = {-1}, [-1]
    while edge:
        here = edge.pop()
        for direction in ("left", "right", "up", "down"):
            there = neighbour(tree, here, direction, listed)
            if there is not None and there not in seen:
                seen.add(there)
                edge.append(there)
    assert seen == {node.id for node in tree.nodes}


def test_left_undoes_right() -> None:
    tree = TREES[-1]
    child = neighbour(tree, -1, "right", False)
    assert child is not None
    assert neighbour(tree, child, "left", False) == -1
    assert neighbour(tree, -1, "left", False) is None


@settings(max_examples=200)
@given(st.floats(0, 1), st.integers(1, 40))
def test_bars_have_their_width_and_show_whatever_is_above_nothing(fill: float, cells: int) -> None:
    assert cell_len(bar(fill, cells)) == cells
    assert cell_len(track(fill, cells)) == cells + 2
    assert (bar(fill, cells).strip() == "") == (fill == 0)


@settings(max_examples=100)
@given(st.floats(0, 1), st.floats(0, 1), st.integers(1, 40))
def test_a_longer_bar_never_stands_for_less(one: float, other: float, cells: int) -> None:
    def filled(fill: float) -> int:
        glyphs = " ▏▎▍▌▋▊▉█"
        return sum(glyphs.index(char) for char in bar(fill, cells))

    low, high = sorted((one, other))
    assert filled(low) <= filled(high)


@pytest.mark.parametrize("recipe", [{"shape": "tree", "temperature": 0.8}, {"shape": "chain", "temperature": 0.8}])
def test_what_is_said_of_a_draw_is_true(recipe: dict[str, object]) -> None:
    """`u` is compared with what decided: an interval under walk, a threshold under tokenwise."""
    n = 0
    for k in range(8):
        tree = tree_of(k, **recipe)
        for row in judged(tree, PAINTER, 200, 99)[1:]:
            node = tree.node(row.spots[0][2])
            assert node is not None
            v, line = node.values, text(row)
            if node.id < 0 or v.u is None:
                continue
            n += 1
            if v.lo is not None and v.hi is not None:
                assert ("not in [" in line) == (not v.lo <= v.u < v.hi)
            else:
                assert v.thr is not None
                assert ("≥" in line) == (v.u >= v.thr)
    assert n > 5
