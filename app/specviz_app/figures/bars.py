"""Charts of bars as HTML: a browser has drawn one in a millisecond, where a figure of Plotly's takes it fifty.

Everything is placed in shares of the field, so that a chart takes any width. A place has all its values for whoever
points at it.
"""

import math
from collections.abc import Iterator
from html import escape
from itertools import groupby
from typing import Any

from specviz.view.blocks import Look, Plot, PlotCurve, interval, value_text
from specviz.view.words.palette import colour

_MOST_NAMES = 16  # numbers below a field
_FULL = 0.8  # of a field: longer bars have their text inside
_LEAST = 0.05  # of a field: shorter pieces of a pile have no text
_BETWEEN = 0.3  # of a place that is left free
_PATHS: dict[Look, tuple[float, ...]] = {"line": (0.5,), "step": (0, 1)}  # where in its place a line has its value
_TITLES = {"ms": "ms", "seconds": "s"}
_FORMATS = {"share": ".1f", "percent": ".0%"}


def has_bars(chart: Plot) -> bool:
    """Whether a chart is drawn here; one of lines and points alone is not, nor one with nothing to be seen."""
    return not chart.missing and any(curve.look == "bar" for curve in chart.curves)


def bars_html(chart: Plot, dark: bool = False) -> str:
    """Bars upright or lying, beside or upon each other, with their intervals; lines over them."""
    ticks, low, top = _scale(chart)
    drawn = _Field(chart, low, top, dark)
    every = math.ceil(len(drawn.xs) / _MOST_NAMES) if drawn.counted else 1
    names = "".join(f"<span>{'' if at % every else escape(str(x))}</span>" for at, x in enumerate(drawn.xs))
    marks = [(tick, f"--lo:{drawn.share(tick):.2%}") for tick in ticks]
    lines = "".join(f'<span class="line" style="{at}"></span>' for _, at in marks)
    numbers = "".join(f'<span style="{at}">{_number(tick, chart)}</span>' for tick, at in marks)
    across, up = (_TITLES.get(chart.unit, ""), chart.axis) if chart.flat else (chart.axis, _TITLES.get(chart.unit, ""))
    return (
        f'<div class="sv-bars{" flat" * chart.flat}" role="img" aria-label="{escape(chart.words or chart.title)}">'
        f'{_legend(chart, dark)}<div class="names">{names}</div><div class="ticks">{numbers}</div>'
        f'<div class="field">{lines}{"".join(drawn.slots())}{"".join(drawn.paths())}</div>'
        f'<div class="up">{escape(up)}</div><div class="across">{escape(across)}</div></div>'
    )


class _Field:
    """Where values and places lie."""

    def __init__(self, chart: Plot, low: float, top: float, dark: bool) -> None:
        self.chart, self.low, self.top, self.dark = chart, low, top, dark
        self.bars = [(k, curve) for k, curve in enumerate(chart.curves) if curve.look == "bar"]
        self.counted = all(isinstance(x, int) for x in chart.xs)  # numbers that are left out have room as well
        self.at = {x: at for at, x in enumerate(chart.xs)}
        self.xs: list[Any] = [*chart.xs]
        if self.counted and self.xs:
            self.xs = [*range(min(self.xs), max(self.xs) + 1)]

    def share(self, value: float) -> float:
        return (value - self.low) / (self.top - self.low)

    def slots(self) -> Iterator[str]:
        for k, x in enumerate(self.xs):
            at = self.at.get(x)
            inside = "" if at is None else "".join(self._slot(at))
            tip = "" if at is None else f' data-tip="{escape(_tip(self.chart, at))}"'
            yield f'<div class="slot{" late" * (2 * k >= len(self.xs))}"{tip}>{inside}</div>'

    def _slot(self, at: int) -> Iterator[str]:
        under, n = 0.0, 1 if self.chart.stacked else len(self.bars)
        for column, (k, curve) in enumerate(self.bars):
            y = curve.ys[at]
            if y is None:
                continue
            column %= n
            room = f"--at:{_BETWEEN / 2 + (1 - _BETWEEN) * column / n:.2%};--wide:{(1 - _BETWEEN) / n:.2%}"
            yield self._bar(curve, at, k, (under, under + y), room)
            low, high = interval(curve, at)
            if low is not None and high is not None:
                yield f'<u style="{room};{self._span(low, high)}"></u>'
            under += y if self.chart.stacked else 0.0
        for k, curve in enumerate(self.chart.curves):
            if curve.look != "bar" and (y := curve.ys[at]) is not None:
                style = f"--lo:{self.share(y):.2%};--mark:{colour(curve.mark, self.dark)}"
                yield f'<data class="dot n{k % 6}" value="{y}" style="{style}"></data>'

    def _bar(self, curve: PlotCurve, at: int, k: int, ends: tuple[float, float], room: str) -> str:
        y, mark = curve.ys[at], curve.marks[at] if curve.marks else curve.mark
        full = self.chart.stacked or self.share(max(ends)) > _FULL
        text, faint = "", ";opacity:.6" if mark == "pruned" else ""
        if self.chart.flat and y and not (self.chart.stacked and y < _LEAST * (self.top - self.low)):
            text = f"<em>{escape(value_text(self.chart, PlotCurve('', curve.ys, texts=curve.texts), at))}</em>"
        return (
            f'<data class="bar n{k % 6}{" full" * full}" value="{y}" style="{room};{self._span(*ends)};'
            f'--mark:{colour(mark, self.dark)}{faint}">{text}</data>'
        )

    def _span(self, start: float, end: float) -> str:
        low, high = sorted((self.share(start), self.share(end)))
        return f"--lo:{low:.2%};--long:{high - low:.2%}"

    def paths(self) -> Iterator[str]:
        """The lines over the bars, broken where there is no value; cut out of a ground, for the page lets no SVG in."""
        for k, curve in enumerate(self.chart.curves):
            ys = [curve.ys[self.at[x]] if x in self.at else None for x in self.xs]
            for known, part in groupby(enumerate(ys), lambda pair: pair[1] is not None):
                if known and curve.look in _PATHS:
                    points = [
                        (f"{(n + share) / len(ys):.2%}", f"{1 - self.share(y or 0.0):.2%}")
                        for n, y in part
                        for share in _PATHS[curve.look]
                    ]
                    ends = [f"{x} calc({y} - 1px)" for x, y in points] + [
                        f"{x} calc({y} + 1px)" for x, y in points[::-1]
                    ]
                    style = f"clip-path:polygon({','.join(ends)});--mark:{colour(curve.mark, self.dark)}"
                    yield f'<div class="path n{k % 6}" style="{style}"></div>'


def _scale(chart: Plot) -> tuple[list[float], float, float]:
    """Round numbers beside the field, and the values of its two ends."""
    bars = [curve.ys for curve in chart.curves if curve.look == "bar"]
    values = [y or 0.0 for curve in chart.curves for y in (*curve.ys, *curve.lows, *curve.highs)]
    if chart.stacked:
        values = [sum(y or 0.0 for y in pile) for pile in zip(*bars, strict=True)]
    low, high = min(0.0, *values), max(0.0, *values)
    if chart.unit in _FORMATS and not chart.stacked:
        high = max(1.0, high)
    rough = (high - low or 1.0) / 5
    size = 10 ** math.floor(math.log10(rough))
    step = next(size * times for times in (1, 2, 5, 10) if size * times >= rough * 0.999)
    step = max(1.0, step) if chart.unit == "count" else step
    first, last = math.ceil(low / step - 1e-9), math.floor((high or 1.0) / step + 1e-9)
    return [step * k for k in range(first, last + 1)], low * 1.04, (high or 1.0) * 1.04


def _number(value: float, chart: Plot) -> str:
    return format(value, _FORMATS.get(chart.unit, ",.6g"))


def _tip(chart: Plot, at: int) -> str:
    """All that is known of a place, a line a curve."""
    lines = [f"{chart.axis} {chart.xs[at]}".strip()]
    for curve in chart.curves:
        n = f", n {curve.ns[at]:,}" if curve.ns else ""
        name = f"{curve.name}: " if curve.name else ""
        lines += [f"{name}{value_text(chart, curve, at)}{n}"] if curve.ys[at] is not None else []
    return "\n".join([*lines, *chart.notes[at : at + 1]]).strip()


def _legend(chart: Plot, dark: bool) -> str:
    """What tells the curves apart, where there are several."""
    if len(chart.curves) < 2:
        return ""
    signs = (
        f'<span><i class="{"bar" if curve.look == "bar" else "dot"} n{k % 6}" '
        f'style="--mark:{colour(curve.mark, dark)}"></i>{escape(curve.name)}</span>'
        for k, curve in enumerate(chart.curves)
    )
    return f'<div class="legend">{"".join(signs)}</div>'
