"""The page Ranks: figures hold what the view says, other widths are counted right, and every lack has its reason."""

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.conftest import Open, box
from specviz.errors import SpecvizError
from specviz.events import Event, Expansion, Node
from specviz.runlog.fold import fold
from specviz.view import Options, Player
from specviz.view.panels.ranks.build import RanksPanel
from specviz.view.panels.ranks.model import RankFilter, RanksModel
from specviz.view.panels.ranks.widths import WidthTable, offered, recorded, width_change
from specviz_app.figures.rank_tree import fig_offers, offer_rows, rank_tree_rows
from specviz_app.figures.ranks import (
    block_rows,
    depth_rows,
    fig_blocks,
    fig_depths,
    fig_rank_confusion,
    fig_reach,
    fig_slots,
    fig_widths,
    rank_confusion_rows,
    reach_rows,
    slot_rows,
    width_rows,
)
from specviz_app.figures.widths import change_rows, curve_rows, fig_curves, fig_frontier, frontier_rows
from specviz_app.server.core import Settings
from support.rank_trace import rank_events
from support.traces import make_events, of_kind, write_trace

HOSTILE = ("<b>x</b>", "<script>", "[red]", "\x1b[31m", "&amp;", '"><i>', "‮", "a<br>b")
ALL, PATH = RankFilter(), RankFilter(path_only=True)


@pytest.fixture(scope="module")
def rank_trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_trace(tmp_path_factory.mktemp("ranks") / "ranks", rank_events())


def ranks(index: int = 1, events: list[Event] | None = None, **options: Any) -> RanksModel:
    player = Player(fold(events or rank_events()), animate=False)
    player.seek_index(index)
    found = RanksPanel.of(player.frame(RanksPanel.choose(Options(), **options)))
    assert found is not None
    return found


def spec(figure: Any) -> dict[str, Any]:
    plain: dict[str, Any] = json.loads(figure.to_json())
    return plain


def trace(figure: dict[str, Any], name: str) -> dict[str, Any]:
    return next(t for t in figure["data"] if t["name"] == name)  # type: ignore[no-any-return]


def numbers(packed: Any) -> list[Any]:
    """An array as JSON holds it: plain, or packed by Plotly."""
    import base64

    if isinstance(packed, dict):
        return np.frombuffer(base64.b64decode(packed["bdata"]), dtype=packed["dtype"]).tolist()  # type: ignore[no-any-return]
    return list(packed)


# Other widths -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "how", [{}, {"trims": True}, {"queries": 3, "temperature": 0.8}, {"level": "summary"}, {"widths": (1, 3, 5, 2)}]
)
def test_the_runs_own_table_gives_the_recorded_children(how: dict[str, Any]) -> None:
    rows = recorded(fold(rank_events(**how)))
    assert offered(rows, rows.own).tolist() == rows.given.tolist()
    change = width_change(rows, rows.own, ALL)
    assert change.agrees
    assert (change.ran, change.ran_children) == (change.here, change.children)
    assert change.steps[0] == change.steps[1] > 0


@pytest.mark.parametrize("table", [(1, 3, 8, 0), (2, 0, 4, 1), (0, 2, 6, 3), (4, 1, 1, 2)])
def test_another_table_is_counted_as_the_drafter_would_have_grown(table: tuple[int, int, int, int]) -> None:
    """First rounds of many prompts, really grown with either table: what is in both has the children that are told."""
    shared: dict[str, Any] = {"queries": 1, "new_tokens": 8, "budget": 200, "start_cap": 50}
    n_same = 0
    for seed in range(6):
        base, other = (rank_events(widths=widths, seed=seed, **shared) for widths in ((2, 4, 6, 3), table))
        rows = recorded(fold(base))
        told = offered(rows, WidthTable(table, rows.own.beam))
        ours, theirs = _first_round(base), _first_round(other)
        ordered = sorted(ours, key=lambda key: (ours[key].start, ours[key].slot))
        for place, key in enumerate(ordered):
            if key in theirs:
                n_same += 1
                assert theirs[key].n_children == told[place]
    assert n_same > 60


def _first_round(events: list[Event]) -> dict[tuple[Any, ...], Expansion]:
    """By the tokens down to the parent, block and slot."""
    nodes = {e.node: e for e in events if isinstance(e, Node) and e.r == 1}

    def path(node: int) -> tuple[int, ...]:
        return () if node < 0 else (*path(nodes[node].parent), nodes[node].token)

    return {(path(e.parent), e.block, e.slot): e for e in events if isinstance(e, Expansion) and e.r == 1}


def test_the_best_of_all_tables_is_the_best_of_all_tables() -> None:
    rows = recorded(fold(rank_events(queries=2)))
    change = width_change(rows, rows.own, ALL)
    for (x0, y0, _), (x1, y1, _) in pairwise(change.frontier):
        assert x0 < x1
        assert y0 < y1
    rng = np.random.default_rng(5)
    for _ in range(60):
        drawn = [int(w) for w in rng.integers(1, 21, 4)]
        table = WidthTable((drawn[0], drawn[1], drawn[2], drawn[3]), rows.own.beam)
        tried = width_change(rows, table, ALL)
        reached = max(y for x, y, _ in change.frontier if x <= tried.children + 1e-12)
        assert reached >= tried.here - 1e-12
    for _, share, table in change.frontier[:: max(1, len(change.frontier) // 8)]:
        assert width_change(rows, table, ALL).here == pytest.approx(share, abs=1e-12)
    assert width_change(rows, change.cheapest, ALL).here >= change.ran


def test_wider_never_covers_less_and_narrower_loses_what_was_accepted() -> None:
    rows = recorded(fold(rank_events()))
    narrow = width_change(rows, WidthTable((1, 1, 1, 1), 1), PATH)
    wide = width_change(rows, WidthTable((20, 20, 20, 20), 20), PATH)
    assert narrow.here < narrow.ran <= wide.here
    assert narrow.steps[1] < narrow.steps[0] == wide.steps[1]
    assert wide.stops[2] >= wide.stops[1]


def test_what_cannot_be_counted_is_refused_with_the_reason() -> None:
    with pytest.raises(SpecvizError, match="belong to method specblock"):
        recorded(fold(make_events()))
    drawn = rank_events()
    for event in drawn:
        if isinstance(event, Node):
            event.mode = "sampled"
    with pytest.raises(SpecvizError, match="siblings were drawn"):
        recorded(fold(drawn))
    rows = recorded(fold(rank_events()))
    with pytest.raises(SpecvizError, match="no expansion"):
        width_change(rows, rows.own, RankFilter(block=9))


# Figures ------------------------------------------------------------------------------------------------------------


def test_the_table_of_the_tree_says_where_every_node_came_from() -> None:
    tree = ranks().tree
    assert tree is not None
    drafted = [node for node in tree.nodes if node.id >= 0]
    assert [row["block"] for row in rank_tree_rows(tree)] == [node.block for node in drafted]


def test_offers_are_those_of_the_expansion_and_the_width_is_between_them() -> None:
    said = max(ranks().round_expansions, key=lambda e: e.width)
    figure = spec(fig_offers(said))
    assert numbers(figure["data"][0]["x"]) == [o.prob for o in said.offers]
    assert figure["layout"]["shapes"][0]["y0"] == said.n_children - 0.5
    assert [row["child"] for row in offer_rows(said)] == [k < said.n_children for k in range(len(said.offers))]


def test_the_confusion_counts_every_known_expansion_once_and_marks_the_chosen_cell() -> None:
    found = ranks(cell=(1, 0))
    table = found.confusion
    assert table is not None
    figure = spec(fig_rank_confusion(table))
    counts = [int(text.split("<b>")[1].split("</b>")[0].replace(",", "")) for text in trace(figure, "counts")["text"]]
    known = [e for e in rank_events() if isinstance(e, Expansion) and e.true_bucket is not None]
    assert sum(counts) == table.n == len(known)
    cells = [tuple(numbers(data)) for data in trace(figure, "cells")["customdata"]]
    assert cells == [(p, t) for p in range(4) for t in range(4)]
    chosen = trace(figure, "chosen")
    assert (numbers(chosen["x"]), numbers(chosen["y"])) == ([0], [1])
    assert len(rank_confusion_rows(table)) == 4


def test_run_figures_hold_the_rows_of_the_view() -> None:
    found = ranks()
    widths = spec(fig_widths(found.widths))
    assert numbers(trace(widths, "children spent")["y"]) == [row.spent for row in found.widths]
    assert numbers(trace(widths, "useful: the target's token")["y"]) == [row.useful for row in found.widths]
    reach = spec(fig_reach(found.reach))
    assert numbers(trace(reach, "would be covered")["y"]) == [p.share for p in found.reach]
    slots = spec(fig_slots(found.slot_rows))
    assert numbers(trace(slots, "best token right")["y"]) == [row.top1 for row in found.slot_rows]
    blocks = spec(fig_blocks(found.block_rows))
    stacked = [numbers(t["x"]) for t in blocks["data"]]
    assert [sum(parts) for parts in zip(*stacked, strict=True)] == [row.nodes for row in found.block_rows]
    depths = spec(fig_depths(found.depth_rows))
    assert numbers(depths["data"][0]["y"]) == [row.reached for row in found.depth_rows]
    assert len(width_rows(found.widths)) == len(found.widths)
    assert len(reach_rows(found.reach)) == len(found.reach)
    assert [row["slot"] for row in slot_rows(found.slot_rows)] == [row.slot for row in found.slot_rows]
    assert sum(row["sent"] for row in block_rows(found.block_rows)) == sum(row.sent for row in found.block_rows)
    assert len(depth_rows(found.depth_rows)) == len(found.depth_rows)


def test_curves_hold_the_run_and_the_sliders() -> None:
    rows = recorded(fold(rank_events()))
    change = width_change(rows, WidthTable((3, 5, 7, 2), 4), ALL)
    figure = spec(fig_curves(change))
    here = trace(figure, "said 2–4, the sliders")
    assert numbers(here["x"]) == [5]
    assert numbers(here["y"]) == [change.buckets[2].here]
    best = trace(spec(fig_frontier(change)), "best of all tables")
    assert [tuple(numbers(data)) for data in best["customdata"]] == [table.widths for _, _, table in change.frontier]
    assert sum(row["expansions"] for row in change_rows(change)) == change.n
    assert len(curve_rows(change)) == 20
    assert sum(row["fewest children for the run's coverage"] for row in frontier_rows(change)) == 1


@pytest.mark.parametrize("dark", [False, True])
def test_tokens_are_never_markup(dark: bool) -> None:
    events = rank_events()
    for event in events:
        if isinstance(event, Node):
            event.text = HOSTILE[event.token % len(HOSTILE)]
    found = ranks(1, events, cell=(0, 0))
    figures = [fig_rank_confusion(found.confusion, dark)]
    figures += [fig_offers(said, dark) for said in found.round_expansions]
    for figure in figures:
        text = figure.to_json().replace("\\u003c", "<").replace("\\u003e", ">")
        for tag in ("<script", "<i>", "<b>x", "\x1b", "\\u001b", "a<br>b", "\\u202e"):
            assert tag not in text


@pytest.mark.parametrize("make", [fig_offers, fig_rank_confusion])
def test_nothing_is_a_reason_not_an_empty_axis(make: Callable[[None], Any]) -> None:
    assert spec(make(None))["layout"]["annotations"][0]["text"]


@pytest.mark.parametrize("make", [fig_widths, fig_reach, fig_slots, fig_blocks, fig_depths])
def test_no_rows_are_a_reason(make: Callable[[tuple[()]], Any]) -> None:
    assert spec(make(()))["layout"]["annotations"][0]["text"]


# The page -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("show", "charts"), [("this round", 2), ("the run", 7), ("other widths", 3), ("learning", 1)])
def test_every_part_of_the_page_opens(show: str, charts: int, rank_trace: Path, open_page: Open) -> None:
    at = open_page(Settings(replay=rank_trace), "ranks", at="r2", show=show)
    assert not at.exception
    assert len(at.get("plotly_chart")) == charts  # the time line among them
    assert len(at.get("bidi_component")) == (show == "this round")  # the tree, by the stage's painter
    assert all(chart.proto.alt for chart in at.get("plotly_chart"))


def test_a_cell_lists_its_expansions_and_filters_narrow_them(rank_trace: Path, open_page: Open) -> None:
    at = open_page(Settings(replay=rank_trace), "ranks", show="the run")
    found = ranks(cell=(0, 0))
    assert found.cell is not None
    box(at, "ranks-cell").set_value((0, 0)).run()
    assert not at.exception
    lists = [table.value for table in at.dataframe if "target's best" in table.value]
    assert len(lists[0]) == len(found.cell.entries) > 0
    at.selectbox(key="ranks-block").set_value(1).run()
    fewer = [table.value for table in at.dataframe if "target's best" in table.value]
    assert 0 < len(fewer[0]) < len(lists[0])
    assert set(fewer[0]["round"].str.contains("b1·")) == {True}


def test_choosing_a_node_moves_the_panel_and_the_address(rank_trace: Path, open_page: Open) -> None:
    at = open_page(Settings(replay=rank_trace), "ranks", at="r2")
    node = next(n for n in ranks().tree.nodes if n.id >= 0 and n.start is not None)  # type: ignore[union-attr]
    box(at, "ranks-node").set_value(node.id).run()
    assert not at.exception
    place = at.query_params["at"]
    assert (place if isinstance(place, str) else place[0]) == f"r2/n{node.id}"
    assert any("came from" in str(h.value) and node.badge in str(h.value) for h in at.get("html"))


def test_a_slider_counts_anew_and_the_button_goes_back(rank_trace: Path, open_page: Open) -> None:
    at = open_page(Settings(replay=rank_trace), "ranks", show="other widths")
    rows = recorded(fold(rank_events()))
    assert [at.slider(key=f"try.w{b}").value for b in range(4)] == list(rows.own.widths)
    at.slider(key="try.w1").set_value(1).run()
    assert not at.exception
    first, _, third, fourth = rows.own.widths
    wanted = width_change(rows, WidthTable((first, 1, third, fourth), rows.own.beam), ALL)
    assert any(wanted.words in str(h.value).replace("&#x27;", "'") for h in at.get("html"))
    at.button(key="widths-best").click().run()
    best = wanted.cheapest.widths
    assert [at.slider(key=f"try.w{b}").value for b in range(4)] == list(best)
    at.button(key="widths-reset").click().run()
    assert [at.slider(key=f"try.w{b}").value for b in range(4)] == list(rows.own.widths)


def test_the_address_sets_widths_and_filter(rank_trace: Path, open_page: Open) -> None:
    at = open_page(
        Settings(replay=rank_trace), "ranks", **{"show": "other widths", "try.w2": "9", "ranks-basis": "on the path"}
    )
    assert not at.exception
    assert at.slider(key="try.w2").value == 9
    assert any("given a right prefix" in str(h.value) for h in at.get("html"))


@pytest.mark.parametrize("show", ["this round", "the run", "other widths", "learning"])
def test_other_methods_give_the_reason(show: str, chain_trace: Path, open_page: Open) -> None:
    at = open_page(Settings(replay=chain_trace), "ranks", show=show)
    assert not at.exception
    said = at.info[0].value.replace("\\", "")
    assert "predicts no ranks" in said
    assert "specblock" in said


def test_a_tree_without_buckets_shows_what_applies(tmp_path: Path, open_page: Open) -> None:
    header, *rest = [e for e in rank_events() if not isinstance(e, Expansion)]
    path = write_trace(tmp_path / "eagle", [_renamed(header), *rest])
    for show in ("this round", "the run", "other widths"):
        at = open_page(Settings(replay=path), "ranks", show=show)
        assert not at.exception
        assert "eagle3 has no rank head" in at.info[0].value.replace("\\", "")


def _renamed(header: Any) -> Any:
    return of_kind(header, "eagle3")
