"""Places: nothing overlaps, lines join parents to children, nothing moves while a round appears."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specviz import events as ev
from specviz.runlog.fold import fold
from specviz.runlog.tree import RoundTree
from specviz.view import ROOT, Options, Player
from specviz.view.play.build import FrameBuilder
from specviz.view.play.tree import TreeLayout, layout
from specviz.view.words.palette import CLOSING, Phase, link
from support.traces import make_events
from view.small_rounds import a_round, closing, judged, node, untested

# A tree of forty nodes is long when it is written out, which is all that this says.
pytestmark = pytest.mark.filterwarnings("ignore:Generating overly large repr")


@st.composite
def trees(draw: st.DrawFn) -> RoundTree:
    """A random tree with a random kept path and a closing token."""
    parents = [draw(st.integers(-1, k - 1)) for k in range(draw(st.integers(0, 40)))]
    depth: dict[int, int] = {-1: 0}
    records: list[ev.Event] = []
    for i, parent in enumerate(parents):
        depth[i] = depth[parent] + 1
        records.append(node(i, f" t{i}", parent, depth[i]))
    path, at = [], -1
    while children := [i for i, p in enumerate(parents) if p == at]:
        if draw(st.booleans()):
            break
        at = draw(st.sampled_from(children))
        path.append(at)
    records += [
        judged(i, 0.5, 0.1, 0.5, k) if i in path else untested(i, "sibling_kept")
        for k, i in enumerate(range(len(parents)))
    ]
    return FrameBuilder(a_round(*records, closing("bonus", " x", at))).round_tree(0)


def check(round_tree: RoundTree, places: TreeLayout, everything: bool) -> None:
    spots = list(places.places.values())
    assert len(set(spots)) == len(spots)
    assert max(row for _, row in spots) < places.n_rows
    assert max(column for column, _ in spots) < places.n_columns
    for i, (column, row) in places.places.items():
        parent = round_tree.stop if i == CLOSING else None if i == ROOT else round_tree.parent(i)
        if parent is not None:
            assert column == places.places[parent][0] + 1
            assert row >= places.places[parent][1]
    if everything:
        assert set(places.places) == {ROOT, CLOSING, *round_tree.nodes}


@given(trees())
def test_no_two_nodes_in_one_place(round_tree: RoundTree) -> None:
    check(round_tree, layout(round_tree), everything=True)


@given(trees())
def test_first_children_stand_beside_their_parent_and_siblings_in_id_order(round_tree: RoundTree) -> None:
    places = layout(round_tree).places
    for parent, children in round_tree.children.items():
        rows = [places[c][1] for c in children]
        assert rows == sorted(rows)
        assert not rows or rows[0] == places[parent][1]


@given(trees())
def test_lines_lead_from_every_parent_to_every_child(round_tree: RoundTree) -> None:
    lines = layout(round_tree)
    shapes = {(piece.column, piece.row): piece.shape for piece in lines.links}
    assert len(shapes) == len(lines.links)
    for i, (column, row) in lines.places.items():
        if i == ROOT:
            continue
        parent = round_tree.stop if i == CLOSING else round_tree.parent(i)
        top = lines.places[parent][1]
        assert shapes[column - 1, row] in ({"line", "tee"} if row == top else {"branch", "corner"})
        assert all((column - 1, between) in shapes for between in range(top, row))


@given(trees())
def test_folding_keeps_the_path_and_counts_the_rest(round_tree: RoundTree) -> None:
    places = layout(round_tree, "losers")
    check(round_tree, places, everything=False)
    assert {ROOT, CLOSING, *round_tree.accepted} <= set(places.places)
    assert sum(fold.n_nodes for fold in places.folds) == len(round_tree.nodes) + 2 - len(places.places)
    spots = set(places.places.values())
    assert not any((fold.column, fold.row) in spots for fold in places.folds)


@given(trees(), st.data())
def test_folding_never_hides_the_selected_node(round_tree: RoundTree, data: st.DataObject) -> None:
    if round_tree.nodes:
        chosen = data.draw(st.sampled_from(sorted(round_tree.nodes)))
        assert chosen in layout(round_tree, "losers", chosen).places


def test_the_tree_of_the_mock() -> None:
    """A small tree, drawn from places and lines."""
    run = a_round(
        node(0, "the"),
        node(1, "a"),
        node(2, "old", 0, 2),
        node(3, "dog", 0, 2),
        node(4, "mat", 2, 3),
        node(5, "sofa", 2, 3),
        node(6, "small", 1, 2),
        judged(0, 0.9, 0.1, 0.9, 0),
        untested(1, "sibling_kept"),
        judged(2, 0.9, 0.1, 0.9, 1),
        untested(3, "sibling_kept"),
        judged(4, 0.1, 0.9, 0.1, 2),
        judged(5, 0.1, 0.9, 0.1, 3),
        untested(6, "sibling_kept"),
        closing("recovered", "rug", 2),
    )
    round_tree = FrameBuilder(run).round_tree(0)
    places = layout(round_tree)
    names = {
        spot: "." if i == ROOT else "rug" if i == CLOSING else round_tree.nodes[i].text
        for i, spot in places.places.items()
    }
    lines = {(piece.column, piece.row): link(piece.shape) for piece in places.links}
    drawn = [
        "".join(f"{names.get((c, r), ''):5}{lines.get((c, r), '   ')}" for c in range(places.n_columns)).rstrip()
        for r in range(places.n_rows)
    ]
    assert drawn == [
        ".    ─┬─the  ─┬─old  ─┬─mat",
        "      │       │       ├─sofa",
        "      │       │       └─rug",
        "      │       └─dog",
        "      └─a    ───small",
    ]


def test_nothing_moves_while_the_round_appears() -> None:
    player = Player(fold(make_events(shape="tree", temperature=0.8, seed=2)))
    player.first()
    seen: dict[tuple[int, int], tuple[int, int]] = {}
    while True:
        frame = player.frame()
        for shown in frame.tree.nodes:
            assert seen.setdefault((frame.cursor.index, shown.id), (shown.column, shown.row)) == (
                shown.column,
                shown.row,
            )
        if not player.next_step():
            break
    assert len(seen) > 20


def test_no_line_leads_nowhere_before_the_round_is_closed() -> None:
    player = Player(fold(make_events(shape="tree", temperature=0.8, seed=2)))
    player.first()
    while True:
        frame = player.frame()
        spots = {(n.column, n.row) for n in frame.tree.nodes}
        for piece in frame.tree.links:
            if piece.shape != "bar":
                assert (piece.column + 1, piece.row) in spots, (frame.cursor, piece)
        if not player.next_step():
            break


def test_pruned_nodes_are_shown_on_demand() -> None:
    player = Player(fold(make_events(shape="tree", temperature=0.8, seed=2)))
    player.seek("r1")
    pruned = {i for i, n in player.run.rounds[0].nodes.items() if not n.kept}
    assert pruned
    assert not pruned & {n.id for n in player.frame().tree.nodes}
    everything = player.frame(Options(folding="none")).tree
    assert pruned == {n.id for n in everything.nodes if n.mark == "pruned"}
    one = min(pruned)
    assert one in {n.id for n in player.frame(Options(selected=one)).tree.nodes}


def test_siblings_are_those_that_spell_the_same_way() -> None:
    """Two parallel chains that begin alike: their second tokens compete."""
    run = a_round(node(0, " a"), node(1, " b", 0, 2), node(2, " a"), node(3, " c", 2, 2))
    run.rounds[0].nodes[2].token = run.rounds[0].nodes[0].token
    round_tree = FrameBuilder(run).round_tree(0)
    assert round_tree.siblings(1) == (1, 3)
    assert round_tree.siblings(0) == (0, 2)
    assert Phase.ROOT == 1
