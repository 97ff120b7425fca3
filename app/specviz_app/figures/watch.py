"""Figures about a watched server: what is kept by position, and acceptance and speed over time with what changed."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import plotly.graph_objects as go

from specviz.engines.watch.picture import LookPoint, PositionShare, WatchPicture
from specviz.runlog.run import Mark
from specviz.view.words.palette import colour
from specviz_app.figures import base

_HEIGHT = 260


def fig_kept(positions: Sequence[PositionShare], dark: bool = False) -> go.Figure:
    """The share of rounds that kept a token at each position, with 95 % intervals; a diamond: of those that came so
    far."""
    if not positions:
        return base.empty("the server tells no positions, or nothing was drafted yet")
    xs = [at.position + 1 for at in positions]
    words = [f"{at.kept:.1%} [{at.low:.1%}, {at.high:.1%}] of {at.n:,}" for at in positions]
    kept = base.bar(
        "of all rounds",
        xs,
        [at.kept for at in positions],
        [f"position {x}: {hover_words}" for x, hover_words in zip(xs, words, strict=True)],
        marker={"color": colour("accepted", dark)},
    )
    ends = base.pieces(*([(x, at.low), (x, at.high)] for x, at in zip(xs, positions, strict=True)))
    conditional = [(x, at.conditional) for x, at in zip(xs, positions, strict=True) if at.conditional is not None]
    reached = base.scatter(
        "markers",
        "of rounds that came so far",
        hover=[f"position {x}: {share:.1%} of those that came so far" for x, share in conditional],
        **base.spots(conditional),
        marker={"symbol": "diamond", "size": 9, "color": colour("recovered", dark)},
    )
    whiskers = go.Scatter(**ends, **base.WHISKER, showlegend=False)
    y = {"range": [0, 1.02], "tickformat": ".0%"}
    return base.figure([kept, whiskers, reached], _HEIGHT, {"title": "draft position", "dtick": 1}, y)


def kept_rows(positions: Sequence[PositionShare]) -> list[dict[str, Any]]:
    """The table of `fig_kept`."""
    rows = ((at.position + 1, at.kept, at.low, at.high, at.n, at.conditional) for at in positions)
    return base.table("position | kept | 95 % from | to | rounds | of those that came so far", rows)


def fig_length(picture: WatchPicture, dark: bool = False) -> go.Figure:
    """Tokens a round from look to look; dashed: acceptance changed, dotted: the server began again."""
    out = _curve(picture.points, [p.length for p in picture.points], "tokens a round", "accepted", dark)
    for change in picture.changes:
        out.add_vline(_at(change.wall), line={"color": colour("rejected", dark), "width": 2, "dash": "dash"})
    for wall in picture.restarts:
        out.add_vline(_at(wall), line={"color": base.GREY, "width": 2, "dash": "dot"})
    return out


def fig_speed(picture: WatchPicture, dark: bool = False) -> go.Figure:
    """Generated tokens a second from look to look."""
    return _curve(picture.points, [p.tokens_per_s for p in picture.points], "tokens a second", "bonus", dark)


def look_rows(picture: WatchPicture) -> list[dict[str, Any]]:
    """The table of `fig_length` and `fig_speed`."""
    rows = ((_at(p.wall), p.length, p.acceptance, p.tokens_per_s) for p in picture.points)
    return base.table("time | tokens a round | kept of drafted | tokens a second", rows)


def _curve(points: Sequence[LookPoint], values: Sequence[float | None], name: str, mark: Mark, dark: bool) -> go.Figure:
    known_values = [value for value in values if value is not None]
    if not known_values:
        return base.empty(f"{name}: nothing was counted between two looks yet")
    line = base.scatter(
        "lines+markers" if len(known_values) < 40 else "lines",
        name,
        [_at(point.wall) for point in points],
        list(values),
        [f"{name} {value:.3g}" if value is not None else "" for value in values],
        line={"color": colour(mark, dark), "width": 2},
    )
    return base.figure([line], _HEIGHT, {"type": "date"}, {"title": name, "rangemode": "nonnegative"}, showlegend=False)


def _at(wall: float) -> datetime:
    """The time on this machine's clock."""
    return datetime.fromtimestamp(wall)
