"""The page Ranks: figures hold what the view says, and every lack has its reason."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app import barred
from app.conftest import Open, box
from specviz.events import Event, Expansion, Node
from specviz.runlog.fold import fold
from specviz.view import Options, Player
from specviz.view.panels.ranks.build import RanksPanel
from specviz.view.panels.ranks.model import RankFilter, RanksModel
from specviz_app.figures.bars import has_bars
from specviz_app.figures.blocks import fig_heat, fig_plot, heat_rows
from specviz_app.figures.rank_tree import fig_offers, offer_rows, rank_tree_rows
from specviz_app.server.core import Settings
from support.rank_trace import rank_events
from support.traces import of_kind, write_trace

HOSTILE = ("<b>x</b>", "<script>", "[red]", "\x1b[31m", "&amp;", '"><i>', "‮", "a<br>b")
ALL, PATH = RankFilter(), RankFilter(path_only=True)


@pytest.fixture(scope="module")
def rank_trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_trace(tmp_path_factory.mktemp("ranks") / "ranks", rank_events())


def ranks(index: int = 1, events: list[Event] | None = None, **options: Any) -> RanksModel:
    player = Player(fold(events or rank_events()), animate=False)
    player.seek_index(index)
    panel = RanksPanel.of(player.frame(RanksPanel.choose(Options(), **options)))
    assert panel is not None
    return panel


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


# Figures ------------------------------------------------------------------------------------------------------------


def test_the_table_of_the_tree_says_where_every_node_came_from() -> None:
    player = Player(fold(rank_events()), animate=False)
    player.seek_index(1)
    frame, panel = player.frame(Options(shown=("ranks",))), ranks()
    rows = rank_tree_rows(frame.tree, panel.badges)
    assert [row["came from"] for row in rows] == [panel.badges[n.id] for n in frame.tree.nodes if n.id >= 0]


def test_offers_are_those_of_the_expansion_and_the_width_is_between_them() -> None:
    expansion = max(ranks().round_expansions, key=lambda e: e.width)
    figure = spec(fig_offers(expansion))
    assert numbers(figure["data"][0]["x"]) == [o.prob for o in expansion.offers]
    assert figure["layout"]["shapes"][0]["y0"] == expansion.n_children - 0.5
    assert [row["child"] for row in offer_rows(expansion)] == [
        k < expansion.n_children for k in range(len(expansion.offers))
    ]


def test_the_confusion_counts_every_known_expansion_once_and_marks_the_chosen_cell() -> None:
    panel = ranks(cell=(1, 0))
    table = panel.confusion
    assert table is not None
    figure = spec(fig_heat(table.heat))
    counts = [int(text.split("<b>")[1].split("</b>")[0].replace(",", "")) for text in trace(figure, "counts")["text"]]
    known = [e for e in rank_events() if isinstance(e, Expansion) and e.true_bucket is not None]
    assert sum(counts) == table.n == len(known)
    cells = [tuple(numbers(data)) for data in trace(figure, "cells")["customdata"]]
    assert cells == [(p, t) for p in range(4) for t in range(4)]
    chosen = trace(figure, "chosen")
    assert (numbers(chosen["x"]), numbers(chosen["y"])) == ([0], [1])
    assert len(heat_rows(table.heat)) == 5, "four rows and the recall"


def test_run_figures_hold_the_values_of_the_view() -> None:
    panel = ranks().over_run
    assert panel is not None
    for plot in (panel.widths, panel.reach, panel.slots, panel.blocks, panel.depths):
        for curve in plot.curves:
            bars = barred.values(plot) if has_bars(plot) else {}
            drawn = bars.get(curve.name) or numbers(trace(spec(fig_plot(plot)), curve.name)["y"])
            assert drawn == [y for y in curve.ys if y is not None]


@pytest.mark.parametrize("dark", [False, True])
def test_tokens_are_never_markup(dark: bool) -> None:
    events = rank_events()
    for event in events:
        if isinstance(event, Node):
            event.text = HOSTILE[event.token % len(HOSTILE)]
    panel = ranks(1, events, cell=(0, 0))
    assert panel.confusion is not None
    figures = [fig_heat(panel.confusion.heat, dark)]
    figures += [fig_offers(expansion, dark) for expansion in panel.round_expansions]
    for figure in figures:
        text = figure.to_json().replace("\\u003c", "<").replace("\\u003e", ">")
        for tag in ("<script", "<i>", "<b>x", "\x1b", "\\u001b", "a<br>b", "\\u202e"):
            assert tag not in text


def test_nothing_is_a_reason_not_an_empty_axis() -> None:
    events = [event for event in rank_events() if not isinstance(event, Expansion)]
    reason = ranks(0, events[:2]).missing, spec(fig_offers(None))
    assert reason[0]
    assert reason[1]["layout"]["annotations"][0]["text"]
    bare = ranks(1, events).over_run
    assert bare is not None
    for plot in (bare.widths, bare.reach, bare.slots):
        assert spec(fig_plot(plot))["layout"]["annotations"][0]["text"]


# The page -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("show", "charts"), [("this round", 1), ("the run", 6)])
def test_every_part_of_the_page_opens(show: str, charts: int, rank_trace: Path, open_page: Open) -> None:
    at = open_page(Settings(replay=rank_trace), "ranks", at="r2", show=show)
    assert not at.exception
    assert len(barred.charts(at)) == charts
    assert len(at.get("bidi_component")) == 1 + (show == "this round")  # the stage, and the tree by its painter
    assert all(barred.charts(at))


def test_a_cell_lists_its_expansions_and_filters_narrow_them(rank_trace: Path, open_page: Open) -> None:
    at = open_page(Settings(replay=rank_trace), "ranks", show="the run")
    panel = ranks(cell=(0, 0))
    assert panel.cell is not None
    box(at, "ranks-cell").set_value((0, 0)).run()
    assert not at.exception
    lists = [table.value for table in at.dataframe if "target's best" in table.value]
    assert len(lists[0]) == len(panel.cell.rows) > 0
    at.selectbox(key="ranks-block").set_value(1).run()
    fewer = [table.value for table in at.dataframe if "target's best" in table.value]
    assert 0 < len(fewer[0]) < len(lists[0])
    assert set(fewer[0]["round"].str.contains("b1·")) == {True}


def test_choosing_a_node_moves_the_panel_and_the_address(rank_trace: Path, open_page: Open) -> None:
    at = open_page(Settings(replay=rank_trace), "ranks", at="r2")
    node, badge = next((id, badge) for id, badge in ranks().badges.items() if "◎" in badge)
    box(at, "ranks-node").set_value(node).run()
    assert not at.exception
    place = at.query_params["at"]
    assert (place if isinstance(place, str) else place[0]) == f"r2/n{node}"
    assert any(
        "drafted" in str(h.value) and badge.split(" +")[0].removesuffix(" ◎") in str(h.value) for h in at.get("html")
    )


@pytest.mark.parametrize("show", ["this round", "the run"])
def test_other_methods_give_the_reason(show: str, chain_trace: Path, open_page: Open) -> None:
    at = open_page(Settings(replay=chain_trace), "ranks", show=show)
    assert not at.exception
    notice = at.info[0].value.replace("\\", "")
    assert "predicts no ranks" in notice
    assert "specblock" in notice


def test_a_tree_without_buckets_shows_what_applies(tmp_path: Path, open_page: Open) -> None:
    header, *rest = [e for e in rank_events() if not isinstance(e, Expansion)]
    path = write_trace(tmp_path / "eagle", [_renamed(header), *rest])
    for show in ("this round", "the run"):
        at = open_page(Settings(replay=path), "ranks", show=show)
        assert not at.exception
        assert "eagle3 has no rank head" in at.info[0].value.replace("\\", "")


def _renamed(header: Any) -> Any:
    return of_kind(header, "eagle3")
