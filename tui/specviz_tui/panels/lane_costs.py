"""The cost panel: what a token costs by draft length in each pipeline, and where this run stands."""

from rich.text import Text

from specviz.view.panels.lanes.cost import CostCurve, CostPanel
from specviz.view.panels.lanes.model import Lanes
from specviz.view.words.numbers import BARS, number, prob
from specviz_tui.common.paint import FAINT, STRONG, Painter, wrapped

_MARKS = {"theorem": "untested", "branch": "exit", "pearl": "recovered"}


def costs(found: Lanes, painter: Painter, width: int) -> Text:
    """A curve a line, lower is better; then the run's own point and what it comes to."""
    panel = found.cost
    if panel is None:
        return Text("no costs in this trace", style=FAINT)
    label = max(len(curve.label) for curve in panel.curves)
    cells = max(6, min(len(panel.xs), width - label - 24))
    xs = [panel.xs[round(k * (len(panel.xs) - 1) / (cells - 1))] for k in range(cells)]
    head = f"acceptance {prob(panel.alpha)}, c {number(panel.c)}, branch hit {prob(panel.hit)}"
    lines = [Text(head, style=STRONG)]
    lines.append(Text(f"{'draft forwards a token':<{label + 2}}γ {xs[0]:<{cells - 4}}{xs[-1]:>2}", style=FAINT))
    top = min(2.0 * panel.plain, max(max(v for v in curve.values if v < 1e9) for curve in panel.curves))
    low = min(min(curve.values) for curve in panel.curves)
    lines += [_curve(curve, panel, xs, (low, top), label, painter) for curve in panel.curves]
    lines.append(Text(f"{'plain decoding':<{label}}  {number(panel.plain)}", style=FAINT))
    for words in (panel.point_text, panel.words):
        lines += [Text(line) for line in wrapped(words, width)]
    return Text("\n").join(lines)


def _curve(
    curve: CostCurve, panel: CostPanel, xs: list[int], ends: tuple[float, float], label: int, painter: Painter
) -> Text:  # fmt: skip
    style = painter.tint(_MARKS.get(curve.key, "accepted"))  # type: ignore[arg-type]
    line = Text(f"{curve.label:<{label}}  ", no_wrap=True)
    for x in xs:
        value = curve.values[panel.xs.index(x)]
        line.append(_bar(value, *ends), style=style + STRONG if x == curve.best else style)
    best = curve.values[panel.xs.index(curve.best)]
    return line.append(f"  {number(best, 1):>5} at γ {curve.best:<2} {number(panel.plain / best, 1):>4}×", style=FAINT)


def _bar(value: float, low: float, top: float) -> str:
    """Low latencies are low bars; beyond the top is full."""
    share = (value - low) / (top - low) if top > low else 0.0
    return BARS[max(0, min(7, int(share * 7 + 0.5)))]
