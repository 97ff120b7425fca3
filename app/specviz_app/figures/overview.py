"""Figures about a whole run: acceptance by position and depth, accepted lengths, stages, rounds in time."""

from collections.abc import Collection, Sequence

import plotly.graph_objects as go

from specviz.runlog.rounds import RoundPoint
from specviz.runlog.run import Mark
from specviz.view.frame.parts import Series
from specviz.view.panels.overview.model import Histogram, Stage
from specviz.view.words.palette import colour, glyph, word
from specviz_app.figures import base
from specviz_app.figures.base import sentence

_HEIGHT = 260
MOST_BARS = 400  # rounds that have a bar each; of a longer run those around the cursor have
_STRETCHES = 200  # bars in which a longer run stands as a whole
_HOVER = " %{x}: %{y:.3f}<br>95 % %{customdata[1]:.3f} to %{customdata[2]:.3f}<br>n %{customdata[0]}<extra></extra>"


def fig_series(series: Series, axis: str, mark: Mark = "accepted", dark: bool = False) -> go.Figure:
    """Shares by position, depth or count: bars with 95 % intervals, how many they rest on in the hover."""
    if series.missing is not None or not series.xs:
        return base.empty(series.missing or "nothing here yet")
    spread = [
        (v, v) if lo is None or hi is None else (lo, hi)
        for v, lo, hi in zip(series.values, series.lows, series.highs, strict=True)
    ]
    bar = go.Bar(
        x=list(series.xs),
        y=list(series.values),
        name=series.label,
        marker={"color": colour(mark, dark)},
        customdata=[(n, lo, hi) for n, (lo, hi) in zip(series.ns, spread, strict=True)],
        hovertemplate=axis + _HOVER,
    )
    ends = base.pieces(*([(x, lo), (x, hi)] for x, (lo, hi) in zip(series.xs, spread, strict=True)))
    whiskers = go.Scatter(**ends, **base.WHISKER, name="95 % interval")
    x = {"title": axis, "dtick": 1 if len(series.xs) <= 16 else None}
    return base.figure([bar, whiskers], _HEIGHT, x, {"range": [0, 1.02], "tickformat": ".1f"}, showlegend=False)


def fig_histogram(histogram: Histogram, dark: bool = False) -> go.Figure:
    """Rounds by accepted tokens, with what one constant acceptance probability would give as a line."""
    if histogram.missing is not None:
        return base.empty(histogram.missing)
    counts = go.Bar(
        x=[k for k, _ in histogram.counts],
        y=[n for _, n in histogram.counts],
        name="rounds",
        marker={"color": colour("accepted", dark)},
        hovertemplate="%{x} accepted: %{y} rounds<extra></extra>",
    )
    fit = go.Scatter(
        x=[k for k, _ in histogram.expected],
        y=[n for _, n in histogram.expected],
        mode="lines+markers",
        name=f"geometric, α {histogram.alpha}",
        line={"color": colour("recovered", dark), "width": 2, "dash": "dot"},
        marker={"symbol": "diamond", "size": 8},
        hovertemplate="%{x} accepted: %{y:.1f} expected<extra></extra>",
    )
    traces = [counts, *([fit] if histogram.expected else [])]
    x = {"title": "accepted tokens of a round", "dtick": 1 if len(histogram.counts) <= 16 else None}
    return base.figure(traces, _HEIGHT, x, {"title": "rounds"}, showlegend=bool(histogram.expected))


_STAGE_MARK: dict[str, Mark] = {"draft": "drafted", "target": "accepted", "verdict": "recovered", "adapt": "exit"}


def fig_stages(stages: Collection[Stage], dark: bool = False) -> go.Figure:
    """Median time of every stage, longest way to read first: prefill is once per prompt, the rest once per round."""
    if not stages:
        return base.empty("no round has ended yet")
    names = [s.name for s in stages]
    bar = go.Bar(
        x=[s.ms for s in stages],
        y=names,
        orientation="h",
        text=[sentence(s.text) for s in stages],
        textposition="auto",
        marker={"color": [colour(_STAGE_MARK.get(n, "untested"), dark) for n in names]},
        hovertemplate="%{y}: %{text}<extra></extra>",
    )
    y = {"autorange": "reversed"}
    return base.figure([bar], 60 + 30 * len(names), {"title": "ms, median"}, y, showlegend=False)


def fig_marks(marks: Collection[tuple[Mark, int]], dark: bool = False, missing: str | None = None) -> go.Figure:
    """What became of all drafted tokens, as one bar."""
    if not marks:
        return base.empty(missing or "nothing was drafted in this run", 90)
    bars = [
        go.Bar(
            x=[n],
            y=["drafted"],
            orientation="h",
            name=f"{glyph(mark)} {word(mark)}",
            text=[f"{glyph(mark)} {n:,}"],
            textposition="inside",
            insidetextanchor="middle",
            marker={"color": colour(mark, dark)},
            hovertemplate=f"{word(mark)}: %{{x}}<extra></extra>",
        )
        for mark, n in marks
    ]
    out = base.figure(bars, 110, base.HIDDEN, base.HIDDEN, barmode="stack")
    return out.update_layout(legend={"traceorder": "normal"})


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
