"""Screen *Lanes*, its part *would it pay*: tokens a second by draft length."""

from rich.style import Style
from rich.text import Text

from specviz.cost.payoff import Payoff
from specviz.view.panels.lanes.model import LanesModel
from specviz.view.words.numbers import BARS, number
from specviz_tui.common.paint import FAINT, STRONG, Painter, sentence

HEIGHT, COLUMN = 7, 3  # lines of the columns, cells of one


def pay(found: LanesModel, painter: Painter, width: int) -> Text:
    """A column a draft length; what is best, then the run's own length and what it measured."""
    panel = found.pay
    if panel is None or panel.curve is None:
        return Text("\n").join(sentence(panel.missing if panel else "nothing yet", width, FAINT))
    lines = sentence(panel.words, width, STRONG)
    lines += _columns(panel.curve, painter, width)
    lines += sentence(panel.point_text, width) if panel.point_text else []
    return Text("\n").join([*lines, *sentence(panel.note, width, FAINT)])


def _columns(curve: Payoff, painter: Painter, width: int) -> list[Text]:
    """Eighths of a line, from 0, so that a column twice as high is twice as fast; · where the interval ends."""
    shown = curve.gammas[: max(2, (width - 7) // COLUMN)]
    top = max(max(curve.high), curve.measured or 0.0)
    out = []
    for level in range(HEIGHT - 1, -1, -1):
        label = number(top * (level + 1) / HEIGHT, 0) if level in (HEIGHT - 1, HEIGHT // 2) else ""
        line = Text(f"{label:>5} ", style=FAINT, no_wrap=True)
        for gamma in shown:
            line.append(*_cell(curve, gamma, level, top, painter)).append(" " * (COLUMN - 2))
        out.append(line)
    foot = Text("    γ ", style=FAINT, no_wrap=True)
    for gamma in shown:
        mark = STRONG if gamma in (curve.best, curve.own) else FAINT
        foot.append(f"{gamma:<{COLUMN}}", style=mark)
    legend = Text(f"{'':>6}", style=FAINT, no_wrap=True)
    legend.append("██", style=painter.tint("accepted")).append(" best ", style=FAINT)
    legend.append("██", style=painter.tint("recovered")).append(" own ", style=FAINT)
    legend.append("◆ measured ", style=STRONG).append("·· 95 %, γ 0 plain", style=FAINT)
    legend.truncate(width)
    return [*out, foot, legend]


def _cell(curve: Payoff, gamma: int, level: int, top: float, painter: Painter) -> tuple[str, Style | str]:
    """Two cells of a column on one line."""
    if gamma == curve.own and curve.measured and int(min(curve.measured / top, 0.999) * HEIGHT) == level:
        return "◆ ", STRONG
    full = curve.speeds[gamma] / top * HEIGHT - level
    mark = "accepted" if gamma == curve.best else "recovered" if gamma == curve.own else "untested"
    style = painter.tint(mark)  # type: ignore[arg-type]
    if full >= 1:
        return "██", style
    if full > 0.06:
        return BARS[min(7, int(full * 8))] * 2, style
    return ("··", FAINT) if int(min(curve.high[gamma] / top, 0.999) * HEIGHT) == level else ("  ", FAINT)
