"""A tree in less room than it needs: what is shown, what is counted."""

from hypothesis import given, settings
from hypothesis import strategies as st

from specviz.runlog.fold import fold
from specviz.runlog.tree import RoundTree
from specviz.trace import read_events
from specviz.view.frame.frame import Cursor, Feed, Options, TreeViewport
from specviz.view.play.build import FrameBuilder
from specviz.view.play.fit import TreePruner, every_kin
from specviz.view.play.tree import TreeLayout, layout
from specviz.view.words.palette import CLOSING, ROOT, Phase
from support.recordings import RECORDINGS
from view.test_layout import check, trees

ROWS = st.integers(1, 30)


def shown_in(round_tree: RoundTree, rows: int, selected: int | None = None, listed: bool = False) -> TreeLayout:
    return layout(round_tree, "pruned", selected, TreeViewport(rows, listed))


@settings(deadline=None)
@given(trees(), ROWS)
def test_every_node_stands_there_or_is_counted(round_tree: RoundTree, rows: int) -> None:
    places = shown_in(round_tree, rows)
    check(round_tree, places, everything=False)
    n_folded = sum(fold.n_nodes for fold in places.folds)
    assert len(places.places) + n_folded == len(round_tree.nodes) + 2  # root and closing token
    assert {fold.parent for fold in places.folds} <= set(places.places)


@settings(deadline=None)
@given(trees(), ROWS)
def test_what_was_kept_is_always_shown(round_tree: RoundTree, rows: int) -> None:
    assert {ROOT, CLOSING, *round_tree.accepted} <= set(shown_in(round_tree, rows).places)


@settings(deadline=None)
@given(trees(), ROWS, st.booleans())
def test_the_room_is_kept_by_all_but_what_must_be_shown(round_tree: RoundTree, rows: int, listed: bool) -> None:
    places = shown_in(round_tree, rows, listed=listed)
    lines = len(places.places) if listed else places.n_rows
    must = TreePruner(every_kin(round_tree), TreeViewport(1, listed)).fitted(1, None)
    assert lines <= rows or set(places.places) == must


@settings(deadline=None)
@given(trees(), st.data())
def test_a_selected_node_brings_its_neighbours_whatever_the_room(round_tree: RoundTree, data: st.DataObject) -> None:
    if not round_tree.nodes:
        return
    node = data.draw(st.sampled_from(sorted(round_tree.nodes)))
    shown = set(shown_in(round_tree, 2, node).places)
    siblings = round_tree.children[round_tree.parent(node)]
    at = siblings.index(node)
    assert {node, *round_tree.ancestors(node), *siblings[max(0, at - 1) : at + 2]} <= shown
    assert set(round_tree.children.get(node, ())[:1]) <= shown


@settings(deadline=None)
@given(trees())
def test_where_all_fits_nothing_is_folded(round_tree: RoundTree) -> None:
    whole = layout(round_tree)
    assert shown_in(round_tree, whole.n_rows).places == whole.places


@settings(deadline=None)
@given(trees(), ROWS)
def test_nothing_is_left_out_when_all_is_asked_for(round_tree: RoundTree, rows: int) -> None:
    assert layout(round_tree, "none", None, TreeViewport(rows)).places == layout(round_tree).places


def test_counts_stand_there_from_the_last_drafted_level_on_and_tell_of_none_before() -> None:
    """Under all that is drafted; sooner they would tell what comes."""
    builder = FrameBuilder(fold(read_events(RECORDINGS["code-eagle3"])))
    index = max(range(len(builder.run.rounds)), key=lambda at: len(builder.round_tree(at).nodes))
    tree, options = builder.round_tree(index), Options(room=TreeViewport(6))

    def counted(phase: Phase, step: int) -> int:
        return sum(fold.n_nodes for fold in builder.frame(Cursor(index, phase, step), options, Feed()).tree.folds)

    drafted = [counted(Phase.DRAFT, level) for level in range(1, tree.n_levels + 1)]
    assert drafted == [0] * (tree.n_levels - 1) + [counted(Phase.VERIFY, 0)]
    assert drafted[-1]
