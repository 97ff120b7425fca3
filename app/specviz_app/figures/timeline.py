"""The time line of a run: a bar a round, of a long run a bar a stretch."""

from collections.abc import Collection, Sequence

import plotly.graph_objects as go

from specviz.runlog.rounds import RoundPoint
from specviz.view.words.palette import colour
from specviz_app.figures import base

MOST_BARS = 400  # rounds that have a bar each; of a longer run those around the cursor have
_STRETCHES = 200  # bars in which a longer run stands as a whole


def fig_timeline(
    points: Collection[RoundPoint], at: int | None = None, only: Collection[int] | None = None, dark: bool = False
) -> go.Figure:
    """Tokens of every round; red: nothing of its draft was kept; the chosen one is framed, others of a filter fade."""
    if not points:
        return base.empty("no rounds", 90)
    shades = [1.0 if only is None or p.index in only else 0.25 for p in points]
    bar = go.Bar(
        x=[p.index for p in points],
        y=[p.n_emitted or 0 for p in points],
        marker={
            "color": [colour("rejected" if p.rejected and not p.n_accepted else "accepted", dark) for p in points],
            "opacity": shades,
            "line": {"width": [3 if p.index == at else 0 for p in points], "color": colour("root", dark)},
        },
        customdata=[p.index for p in points],
        text=[p.markers for p in points],
        textposition="outside",
        cliponaxis=False,
        hovertext=[f"q{p.q} r{p.r}: {p.n_emitted} tokens, {p.n_accepted} of {p.n_drafted} kept" for p in points],
        hoverinfo="text",
    )
    many = len({p.q for p in points}) > 1
    named = [p for p in points if p.r == 1 or (not many and p.r % _tick(len(points)) == 0)]
    names = [f"q{p.q}" if many else f"r{p.r}" for p in named]
    x = {"tickvals": [p.index for p in named], "ticktext": names}
    y = {"title": "tokens", "nticks": 4, "rangemode": "tozero"}
    return base.figure([bar], 130, x, y, showlegend=False, bargap=0.15)


def window(n: int, at: int) -> range:
    """The rounds around one that have bars of their own, where all `n` are too many to be told apart."""
    if n <= MOST_BARS:
        return range(n)
    first = max(0, min(at - MOST_BARS // 4, n - MOST_BARS // 2))
    return range(first, first + MOST_BARS // 2)


def stretch(n: int) -> int:
    """How many rounds stand for one bar of `fig_stretches`."""
    return -(-n // _STRETCHES)


def fig_stretches(
    points: Sequence[RoundPoint], at: int, only: Collection[int] | None = None, dark: bool = False
) -> go.Figure:
    """A long run as a whole: tokens a round of so many rounds each. The one with the round `at` has a frame, those
    without any round of the filter `only` fade."""
    each = stretch(len(points))
    parts = [list(points[first : first + each]) for first in range(0, len(points), each)]
    passing = None if only is None else frozenset(index // each for index in only)
    bar = go.Bar(
        x=[part[0].index + (len(part) - 1) / 2 for part in parts],
        y=[sum(p.n_emitted or 0 for p in part) / len(part) for part in parts],
        width=[len(part) for part in parts],
        marker={
            "color": colour("accepted", dark),
            "opacity": [1.0 if passing is None or k in passing else 0.25 for k in range(len(parts))],
            "line": {"width": [3 if k == at // each else 0 for k in range(len(parts))], "color": colour("root", dark)},
        },
        customdata=[part[0].index for part in parts],
        hovertext=[_said(part) for part in parts],
        hoverinfo="text",
    )
    y = {"title": "tokens", "nticks": 3, "rangemode": "tozero"}
    return base.figure([bar], 90, {"showticklabels": False, **base.BARE}, y, showlegend=False, bargap=0)


def _said(part: Sequence[RoundPoint]) -> str:
    first, last = part[0], part[-1]
    mean = sum(p.n_emitted or 0 for p in part) / len(part)
    return (
        f"q{first.q} r{first.r} to q{last.q} r{last.r}: {mean:.2f} tokens a round, "
        f"{sum(p.rejected for p in part)} of {len(part)} with a rejection"
    )


def _tick(n: int) -> int:
    return next((step for step in (1, 2, 5, 10, 20, 50, 100, 200, 500) if n <= 16 * step), 1000)
