"""The bandit's panel: bounds of every action as stretches of one axis, the queries with what was done, the sums."""

import math
from collections.abc import Callable

from rich.text import Text

from specviz.text import clip, pad
from specviz.view.panels.learning.build import AdaptStep, AdaptView, ArmView
from specviz.view.words.numbers import number, short_seconds
from specviz.view.words.palette import glyph
from specviz_tui.common.paint import CURSOR, FAINT, PLAIN, STRONG, Painter, bar, sentence
from specviz_tui.panels.ranks_views import under

NAME = 8


def arms(found: AdaptView | None, missing: str, painter: Painter, cells: int) -> tuple[Text, int | None]:
    """The arms at the query on screen, then all queries; the line of the one on screen."""
    if found is None:
        return Text("\n").join(under(missing, cells, FAINT)), None
    lines = [*_axis(found, painter, cells), *under(found.words, cells), Text("")]
    lines.append(Text(_HEAD if cells >= 68 else _SHORT, style=FAINT, no_wrap=True))
    cursor = None
    for step in found.steps:
        cursor = len(lines) if step.cursor else cursor
        lines.append(_step(step, painter, cells))
    return Text("\n").join(lines), cursor


_HEAD = "   query domain     len surprise  done            gain regret    sum"
_SHORT = "   query domain     len surprise  done    gain  regret"


def _step(step: AdaptStep, painter: Painter, cells: int) -> Text:
    line = Text(no_wrap=True).append(f" {glyph(step.mark)} ", style=painter.tint(step.mark))
    line.append(f"{'q' + str(step.q):<5} ", style=CURSOR if step.cursor else STRONG)
    line.append(pad(clip(step.domain or "—", 8), 8)).append(f" {number(step.tau):>5} ", style=STRONG)
    gain = "—" if step.measured_gain is None else f"{step.measured_gain:+.2f}"
    back = "taken back" if step.reverted else f"put back to {step.reset}" if step.reset else ""
    if cells >= 68:
        line.append(f"{number(step.s):>8}  ").append(f"{step.action:<5}", style=painter.tint(step.mark))
        line.append(f"{step.reason:<8}", style=FAINT).append(f" {gain:>6} {short_seconds(step.regret):>6}")
        line.append(f" {short_seconds(step.total_regret):>6}", style=FAINT)
    else:
        line.append(f"{number(step.s):>8}  ").append(f"{step.action:<5}", style=painter.tint(step.mark))
        line.append(f" {gain:>6}  {short_seconds(step.regret):>6}")
    line.append(f" {back}" if back else "", style=painter.tint("rejected"))
    line.truncate(cells, overflow="ellipsis")
    return line


def _axis(found: AdaptView, painter: Painter, cells: int) -> list[Text]:
    """A stretch from the lower to the upper bound for every action, the estimate on it, and the zero line."""
    if not found.arms:
        return [Text(" no action was weighed at this query", style=FAINT)]
    finite = [v for arm in found.arms for v in (arm.lcb, arm.mean, arm.ucb) if v is not None and math.isfinite(v)]
    low, high = min([0.0, *finite]), max([0.0, *finite])
    span = (high - low) or 1e-9
    room = max(12, cells - NAME - 20)

    def place(value: float) -> int:
        return max(0, min(room - 1, round((value - low) / span * (room - 1))))

    ends = f"{short_seconds(low)} .. {short_seconds(high)}"
    head = f" {'profit':<{NAME}} {ends}: ├ at least, ● expected, ┤ at most, ┃ 0"
    lines = [Text(head, style=FAINT, no_wrap=True)]
    lines += [_arm(arm, place, room, painter) for arm in found.arms]
    for line in lines:
        line.truncate(cells, overflow="ellipsis")
    return lines


def _arm(arm: ArmView, at: Callable[[float], int], room: int, painter: Painter) -> Text:
    """`at`: the cell of a time in seconds."""
    track = [" "] * room
    start = 0 if arm.lcb is None else at(arm.lcb)
    end = room - 1 if arm.ucb is None or math.isinf(arm.ucb) else at(arm.ucb)
    track[start : end + 1] = "─" * (end - start + 1)
    track[start] = "├" if arm.lcb is not None else "─"
    track[end] = "→" if arm.ucb is not None and math.isinf(arm.ucb) else "┤"
    track[at(0.0)] = "┃"
    if arm.mean is not None:
        track[at(arm.mean)] = "●"
    name = f"{'▶' if arm.chosen else ' '}{arm.action}"
    line = Text(f" {name:<{NAME}} ", style=STRONG if arm.chosen else PLAIN, no_wrap=True)
    line.append("".join(track), style=painter.tint("accepted" if arm.chosen else "drafted"))
    return line.append(f" cost {short_seconds(arm.cost)}", style=FAINT).append(
        f" n {arm.n}" if arm.n is not None else ""
    )


def sums(found: AdaptView | None, missing: str, painter: Painter, cells: int) -> Text:
    """Exploring, regret, what was taken back; length by domain."""
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
    lines += [Text(""), Text("domain       n   len   first → second half", style=FAINT, no_wrap=True)]
    for domain in found.domains:
        line = Text(pad(clip(domain.domain, 10), 10), no_wrap=True).append(f" {domain.n:>3} {number(domain.tau):>5}")
        lines.append(line.append(f"   {number(domain.first)} → {number(domain.last)}", style=STRONG))
    if found.arms:
        lines.append(Text(""))
        for arm in found.arms:
            lines.append(Text(f"{arm.action}: {arm.words}", style=STRONG))
            gain = f"gain {number(arm.gain)} ± {number(arm.se)} tokens a round, saves {short_seconds(arm.save)}"
            lines += [Text(f"  {text.plain}", style=FAINT) for text in sentence(f"{gain}; {arm.text}", cells - 2)]
    return Text("\n").join(lines)
