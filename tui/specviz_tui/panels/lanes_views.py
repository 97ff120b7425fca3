"""The parts of screen *Lanes* below the chart as text: confidences, the fan, the block, the classifier and numbers."""

from rich.text import Text

from specviz.text import clip, pad
from specviz.view.panels.lanes.model import BlockInfo, Fan, Hrad, Lanes
from specviz.view.words.numbers import percent, prob
from specviz.view.words.palette import glyph
from specviz_tui.common.paint import FAINT, PLAIN, STRONG, Painter, bar, wrapped

TOKEN = 11
IN_BRANCH = "No bound here: in a branch nothing stops drafting; its tokens are cut once the branch has survived."
NO_BOUND = "This method drafts on however unsure the draft model is."
NO_HRAD = "No classifier in this method: specbranch asks one how far to draft."


def sentence(words: str, width: int, style: object = PLAIN) -> list[Text]:
    """A sentence in lines."""
    return [Text(line, style=style) for line in wrapped(words, width)]  # type: ignore[arg-type]


def steps(found: Lanes, painter: Painter, width: int) -> Text:
    """A line a drafted token: fate, token, bar of its confidence with the bound as a bar line, and the comparison."""
    if not found.steps:
        return Text("nothing drafted in this round", style=FAINT)
    cells = max(4, min(20, width - TOKEN - 24))
    lines = []
    for step in found.steps:
        line = Text(no_wrap=True).append(f"{glyph(step.mark)} ", style=painter.tint(step.mark))
        line.append(pad(clip(step.shown, TOKEN), TOKEN), style=STRONG if step.stopped else PLAIN)
        line.append(f"{'' if step.branch is None else f'b{step.branch}':<3}", style=FAINT)
        track = list(bar(step.conf, cells))
        if step.bound is not None:
            track[min(cells - 1, int(step.bound * cells))] = "┃"
        line.append("".join(track), style=painter.tint("rejected" if step.stopped else "drafted"))
        lines.append(line.append(f" {step.text}", style=STRONG if step.stopped else FAINT))
        lines[-1].truncate(width, overflow="ellipsis")
    if found.steps and all(step.bound is None for step in found.steps):
        lines += sentence(IN_BRANCH if found.steps[0].branch is not None else NO_BOUND, width, FAINT)
    return Text("\n").join(lines)


def fan(found: Fan | None, missing: str, painter: Painter, width: int) -> Text:
    """k and why, then a line a branch: q of its first token, the tokens behind, ▶ the one that survived."""
    if found is None:
        return Text("\n").join(sentence(missing, width, FAINT))
    lines = [Text(found.k_text, style=STRONG)]
    if found.mass is not None:
        line = Text("p(B) ", style=FAINT).append(percent(found.mass), style=STRONG).append(" ")
        lines.append(line.append(bar(found.mass, max(4, min(16, width - 14))), style=painter.tint("bonus")))
    for branch in found.branches:
        line = Text(no_wrap=True).append("▶" if branch.survivor else " ", style=painter.tint("accepted"))
        line.append(f"b{branch.branch} {glyph(branch.mark)} ", style=painter.tint(branch.mark))
        line.append(pad(clip(branch.shown, TOKEN), TOKEN), style=STRONG if branch.survivor else PLAIN)
        line.append(f" q {prob(branch.q):<4} ", style=FAINT).append(bar(branch.q, 5), style=painter.tint("drafted"))
        for token in branch.tokens:
            line.append(f" {token.shown}", style=painter.tint(token.mark))
        line.truncate(width, overflow="ellipsis")
        lines.append(line)
    lines += sentence(found.words, width)
    lines += sentence(found.memory, width, FAINT) if found.memory else []
    return Text("\n").join(lines)


def block(found: BlockInfo | None, painter: Painter, width: int) -> Text:
    """The sentence on the block under the cursor, then its numbers."""
    if found is None:
        return Text("nothing has happened yet", style=FAINT)
    lines = [Text(found.title, style=painter.tint(found.mark) + STRONG), *sentence(found.words, width), Text("")]
    label = max(len(row.label) for row in found.rows)
    for row in found.rows:
        line = Text(no_wrap=True).append(f"{row.label:<{label}}  ", style=FAINT).append(row.value, style=STRONG)
        line.append(f"  {row.note}" if row.note else "", style=FAINT)
        line.truncate(width, overflow="ellipsis")
        lines.append(line)
    return Text("\n").join(lines)


def hrad(found: Hrad | None, painter: Painter, width: int) -> Text:
    """Probabilities of the three answers, and how often the classifier was right."""
    if found is None:
        return Text("\n").join(sentence(NO_HRAD, width, FAINT))
    lines = []
    for call in found.calls:
        lines.append(Text(f"{call.stage}: s = {call.s}, {call.words} ({call.source})", style=STRONG))
        for s, chance in enumerate(call.probs or ()):
            line = Text(f"  s {s} {prob(chance):>4} ", style=STRONG if s == call.s else FAINT, no_wrap=True)
            lines.append(line.append(bar(chance, max(4, min(20, width - 12))), style=painter.tint("exit")))
    if found.confusion is not None:
        lines.append(Text("said ↓ true →     0     1     2   precision", style=FAINT))
        for said, row in enumerate(found.confusion):
            total = sum(row)
            cells = "".join(f"{count:>6}" for count in row)
            lines.append(
                Text(f"  s {said}        {cells}   {percent(row[said] / total) if total else '—'}", no_wrap=True)
            )
    return Text("\n").join([*lines, *sentence(found.words, width, FAINT)])


def summary(found: Lanes, width: int) -> Text:
    """The run on this clock."""
    label = max((len(row.label) for row in found.summary), default=0)
    lines = []
    for row in found.summary:
        line = Text(no_wrap=True).append(f"{row.label:<{label}}  ", style=FAINT).append(row.value, style=STRONG)
        line.append(f"  {row.note}" if row.note else "", style=FAINT)
        line.truncate(width)
        lines.append(line)
    return Text("\n").join(lines)
