"""What panels are made of: facts, words, tables, charts and heat maps. Every front-end draws each kind once.

A block is plain values: numbers for whoever draws them, beside the texts that stand for them, which are formatted and
escaped as everywhere in the view. `missing` says why a block is empty, `words` what is to be seen in it (a picture's
text for whoever cannot see it), `help` what it means.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from specviz import numerals
from specviz.runlog.run import Mark
from specviz.view.frame.parts import Series, WhyRow
from specviz.view.words import numbers

Unit = Literal["share", "percent", "count", "number", "ms", "seconds"]
Look = Literal["bar", "line", "step", "dots"]


@dataclass(frozen=True, slots=True)
class Destination:
    """Where a line or a point leads: a round, by its index over the run, and a node of it."""

    index: int
    node: int | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """Numbers, each with its name and what it means: `label`, `value`, `note`; `bar` 0..1."""

    key: str
    rows: tuple[WhyRow, ...]
    title: str = ""


@dataclass(frozen=True, slots=True)
class Words:
    """Sentences; `strong`: what the block comes to, else a remark."""

    text: str
    strong: bool = False


class Cell(NamedTuple):
    """A place of a table. `value`: what it is sorted by, the text where it is None; `fill`: a bar, 0..1."""

    text: str
    value: float | str | bool | None = None
    fill: float | None = None
    mark: Mark | None = None


@dataclass(frozen=True, slots=True)
class TableBlock:
    """Lines under `heads`. `places`: where each leads, None: nowhere; `cursor`: the one that is looked at."""

    key: str
    heads: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    title: str = ""
    help: str = ""
    words: str = ""
    missing: str = ""
    places: tuple[Destination | None, ...] = ()
    cursor: int | None = None

    def column(self, head: str) -> list[float | str | bool]:
        """The values under a heading, texts where there are none."""
        at = self.heads.index(head)
        cells = [row[at] for row in self.rows]
        return [cell.text if cell.value is None else cell.value for cell in cells]


@dataclass(frozen=True, slots=True)
class PlotCurve:
    """Values over the places of a chart, None where there is none. `lows`, `highs`: 95 % intervals; `ns`: of how many.

    `texts`: the values in words, where the chart's unit does not say it; `marks`: a colour for each place.
    """

    name: str
    ys: tuple[float | None, ...]
    mark: Mark = "accepted"
    look: Look = "bar"
    lows: tuple[float | None, ...] = ()
    highs: tuple[float | None, ...] = ()
    ns: tuple[int, ...] = ()
    texts: tuple[str, ...] = ()
    marks: tuple[Mark, ...] = ()


@dataclass(frozen=True, slots=True)
class Plot:
    """Curves over the same places: numbers in their order, or names. `axis`, `unit`: what the places and values are.

    `flat`: names are long, so bars lie; `stacked`: bars add up; `notes`: what else is to be said of each place;
    `signs`: places that stand out, each with the word for it; `table`: in place of the one that `twin` makes.
    """

    key: str
    title: str
    axis: str
    xs: tuple[float | str, ...]
    curves: tuple[PlotCurve, ...]
    unit: Unit = "number"
    help: str = ""
    words: str = ""
    missing: str = ""
    flat: bool = False
    stacked: bool = False
    notes: tuple[str, ...] = ()
    signs: tuple[tuple[int, str, Mark], ...] = ()
    places: tuple[Destination | None, ...] = ()
    cursor: int | None = None
    table: TableBlock | None = None


class Square(NamedTuple):
    """A cell of a heat map. `share`: how full it is, None: nothing to be shaded; `sign` stands behind the text."""

    text: str
    share: float | None
    sign: str = ""
    mark: Mark | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Heat:
    """Squares `[row][column]`. `right`: texts of each row, under `heads`; `foot`: a name and a text for each column;
    `cursor`: (row, column)."""

    key: str
    title: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    squares: tuple[tuple[Square, ...], ...]
    heads: tuple[str, str] = ("", "")
    right: tuple[tuple[str, ...], ...] = ()
    foot: tuple[tuple[str, ...], ...] = ()
    help: str = ""
    words: str = ""
    missing: str = ""
    cursor: tuple[int, int] | None = None


Block = Facts | Words | TableBlock | Plot | Heat


def written(value: float | None, unit: Unit) -> str:
    """A value as it stands on a screen."""
    if value is None:
        return numerals.UNKNOWN
    if unit in ("share", "percent"):
        return numerals.prob(value) if unit == "share" else numerals.percent(value)
    if unit == "count":
        return f"{value:,.0f}"
    if unit == "seconds":
        return numbers.short_seconds(value)
    return f"{numerals.number(value)} ms" if unit == "ms" else numerals.number(value)


def value_text(chart: Plot, curve: PlotCurve, at: int) -> str:
    """A value of a chart with its interval: `.71 [.64, .78]`."""
    text = curve.texts[at] if curve.texts else written(curve.ys[at], chart.unit)
    low, high = interval(curve, at)
    return text if low is None else f"{text} [{written(low, chart.unit)}, {written(high, chart.unit)}]"


def interval(curve: PlotCurve, at: int) -> tuple[float, float] | tuple[None, None]:
    """The 95 % interval at a place, where there is one."""
    if not curve.lows:
        return None, None
    low, high = curve.lows[at], curve.highs[at]
    return (None, None) if low is None or high is None else (low, high)


def twin(chart: Plot) -> TableBlock:
    """A chart as a table, a line a place."""
    if chart.table is not None:
        return chart.table
    heads = [chart.axis]
    for curve in chart.curves:
        heads += [curve.name, *(["95 % from", "to"] if curve.lows else []), *(["n"] if curve.ns else [])]
    rows = (tuple(_line(chart, at)) for at in range(len(chart.xs)))
    return TableBlock(chart.key, tuple(heads), tuple(rows), chart.title, places=chart.places, cursor=chart.cursor)


def _line(chart: Plot, at: int) -> Iterator[Cell]:
    x = chart.xs[at]
    yield Cell(str(x), x)
    for curve in chart.curves:
        y = curve.ys[at]
        yield Cell(curve.texts[at] if curve.texts else written(y, chart.unit), y)
        if curve.lows:
            for end in interval(curve, at):
                yield Cell(written(end, chart.unit), end)
        if curve.ns:
            yield Cell(f"{curve.ns[at]:,}", curve.ns[at])


def ordered(table: TableBlock, column: int, descending: bool) -> TableBlock:
    """The same lines by the values of a column, those without one last; places go with their lines, no cursor stays."""
    values = [row[column].value for row in table.rows]
    counted = any(isinstance(value, int | float) for value in values)

    def known(at: int) -> bool:
        return not counted or isinstance(values[at], int | float)

    def value(at: int) -> Any:
        return values[at] if counted else table.rows[at][column].text

    places = range(len(table.rows))
    order = sorted(filter(known, places), key=value, reverse=descending)
    order += [at for at in places if not known(at)]
    return replace(
        table,
        rows=tuple(table.rows[at] for at in order),
        places=tuple(table.places[at] for at in order) if table.places else (),
        cursor=None,
    )


def series_plot(series: Series, axis: str, title: str, mark: Mark = "accepted") -> Plot:
    """A share by position, depth or count, with its intervals and how many it rests on."""
    curve = PlotCurve("share", series.values, mark, lows=series.lows, highs=series.highs, ns=series.ns)
    lowest = min(zip(series.values, series.xs, series.ns, strict=True), default=None)
    takeaway = f"; lowest at {axis} {lowest[1]}: {numerals.prob(lowest[0])} of {lowest[2]}" if lowest else ""
    return Plot(
        series.name,
        title,
        axis,
        series.xs,
        (curve,) if series.xs else (),
        "share",
        help=series.label,
        words=f"{series.label}{takeaway}.",
        missing=series.missing or ("" if series.xs else "nothing here yet"),
    )
