"""What stands in a chart of bars, read back from its HTML."""

import re
from collections.abc import Mapping
from html import unescape
from html.parser import HTMLParser
from typing import Any

from specviz.view.blocks import Plot
from specviz_app.figures.bars import bars_html


class _Reader(HTMLParser):
    """Values by the number of their curve, and the intervals; tips and words as they are shown."""

    def __init__(self) -> None:
        super().__init__()
        self.values: dict[int, list[float]] = {}
        self.intervals: list[tuple[float, float]] = []
        self.tips: list[str] = []
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        of: Mapping[str, str] = {name: value or "" for name, value in attrs}
        style = dict(part.split(":", 1) for part in of.get("style", "").split(";") if part)
        if tag == "data":
            number = next(int(name[1:]) for name in of["class"].split() if name[0] == "n")
            self.values.setdefault(number, []).append(float(of["value"]))
        elif tag == "u":
            low, long = (float(style[name].rstrip("%")) / 100 for name in ("--lo", "--long"))
            self.intervals.append((low, low + long))
        self.tips += [of["data-tip"]] if "data-tip" in of else []

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def read(chart: Plot, dark: bool = False) -> _Reader:
    reader = _Reader()
    reader.feed(bars_html(chart, dark))
    return reader


def values(chart: Plot) -> dict[str, list[float]]:
    """The values of every curve by its name, those that are known."""
    return {chart.curves[k].name: ys for k, ys in read(chart).values.items()}


def charts(at: Any) -> list[str]:
    """What every chart of a page says in words: figures, and those of bars."""
    bars = [re.search(r'class="sv-bars[^>]*aria-label="([^"]*)"', str(page.value)) for page in at.get("html")]
    return [chart.proto.alt for chart in at.get("plotly_chart")] + [unescape(found[1]) for found in bars if found]
