"""Figures about a watched server: acceptance and speed over time with what changed."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import plotly.graph_objects as go

from specviz.engines.watch.picture import LookPoint, WatchPicture
from specviz.runlog.run import Mark
from specviz.view.words.palette import colour
from specviz_app.figures import base

_HEIGHT = 260


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
