"""What was learnt while serving: the decision after the query on screen, all queries as a table, the sums."""

from rich.text import Text

from specviz.text import clip, pad
from specviz.view.panels.learning.build import AdaptStep, AdaptView
from specviz.view.words.numbers import number, short_seconds
from specviz.view.words.palette import glyph
from specviz_tui.common.paint import CURSOR, FAINT, STRONG, Painter, bar, sentence
from specviz_tui.panels.ranks_views import under

_HEAD = "   query domain     len surprise  done            gain regret    sum"
_SHORT = "   query domain     len surprise  done    gain  regret"


def queries(found: AdaptView | None, missing: str, painter: Painter, cells: int) -> tuple[Text, int | None]:
    """The decision at the query on screen, then all queries; the line of the one on screen."""
    if found is None:
        return Text("\n").join(under(missing, cells, FAINT)), None
    lines = [*under(found.words, cells), Text("")]
    lines.append(Text(_HEAD if cells >= 68 else _SHORT, style=FAINT, no_wrap=True))
    cursor = None
    for step in found.steps:
        cursor = len(lines) if step.cursor else cursor
        lines.append(_step(step, painter, cells))
    return Text("\n").join(lines), cursor


def _step(step: AdaptStep, painter: Painter, cells: int) -> Text:
    line = Text(no_wrap=True).append(f" {glyph(step.mark)} ", style=painter.tint(step.mark))
    line.append(f"{'q' + str(step.q):<5} ", style=CURSOR if step.cursor else STRONG)
    line.append(pad(clip(step.domain or "—", 8), 8)).append(f" {number(step.tau):>5} ", style=STRONG)
    gain = "—" if step.measured_gain is None else f"{step.measured_gain:+.2f}"
    back = "taken back" if step.reverted else f"put back to {step.reset}" if step.reset else ""
    line.append(f"{number(step.s):>8}  ").append(f"{step.action:<5}", style=painter.tint(step.mark))
    if cells >= 68:
        line.append(f"{step.reason:<8}", style=FAINT).append(f" {gain:>6} {short_seconds(step.regret):>6}")
        line.append(f" {short_seconds(step.total_regret):>6}", style=FAINT)
    else:
        line.append(f" {gain:>6}  {short_seconds(step.regret):>6}")
    line.append(f" {back}" if back else "", style=painter.tint("rejected"))
    line.truncate(cells, overflow="ellipsis")
    return line


def sums(found: AdaptView | None, missing: str, painter: Painter, cells: int) -> Text:
    """Exploring, regret, what was taken back; what every action was worth at the query on screen."""
    if found is None:
        return Text("\n").join(under(missing, cells, FAINT))
    label = max(len(row.label) for row in found.summary)
    lines: list[Text] = []
    for row in found.summary:
        line = Text(no_wrap=True).append(f"{row.label:<{label}}  ", style=FAINT).append(row.value, style=STRONG)
        if row.bar is not None:
            line.append(" ").append(bar(row.bar, 8), style=painter.tint("drafted"))
        lines.append(line)
        lines += [Text(f"  {text.plain}", style=FAINT) for text in sentence(row.note, cells - 2)] if row.note else []
    for action in found.actions:
        lines += [Text(""), *sentence(action, cells)]
    return Text("\n").join(lines)
