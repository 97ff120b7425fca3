"""The run judged: the line, who made the run, what stands out; then the blocks of its numbers."""

from rich.text import Text

from specviz.judge.finding import Finding
from specviz.text import clip
from specviz.view.frame.judgement import RunCard
from specviz.view.panels.overview.model import Overview
from specviz_tui.common.blocks import painted, titled
from specviz_tui.common.paint import FAINT, PLAIN, STRONG, Painter, indented, wrapped

CURSOR_MARK, OTHER_MARK = "▸", " "


def judgement(model: Overview, painter: Painter, cells: int) -> Text:
    """The line, how the speed-up came about, then every finding; the one under the cursor in full."""
    judged = model.judgement
    head = Text(f" {judged.tokens}", style=STRONG)
    head.append(" · ", style=FAINT).append(judged.speed_text, style=STRONG)
    lines = [head, *indented(judged.basis_words, cells, FAINT)]
    if judged.card is not None:
        lines += _card(judged.card, painter, cells)
    if not judged.findings:
        return Text("\n").join([*lines, *indented(judged.nothing, cells, FAINT)])
    for k, finding in enumerate(judged.findings):
        chosen = k == (model.finding or 0)
        lines += _finding(finding, chosen, painter, cells)
    return Text("\n").join(lines)


def _card(card: RunCard, painter: Painter, cells: int) -> list[Text]:
    """Who made the run, by what rule, and what does not add up."""
    lines = []
    for label, words in card.rows:
        red = label == "promise" and card.tone == "broken"
        style = painter.tint("rejected") + STRONG if red else PLAIN
        first, *more = wrapped(f"{label}: {words}", cells - 2)
        lines.append(Text(f" {first[: len(label) + 1]}", style=FAINT).append(first[len(label) + 1 :], style=style))
        lines += [Text(f"   {line}", style=style) for line in more]
    return [*lines, *(Text(f" ! {words}", style=painter.tint("rejected") + STRONG) for words in card.violations)]


def _finding(finding: Finding, chosen: bool, painter: Painter, cells: int) -> list[Text]:
    mark = CURSOR_MARK if chosen else OTHER_MARK
    head = Text(f" {mark} ", style=STRONG).append(finding.headline, style=painter.tint("recovered") + STRONG)
    if not chosen:
        return [head]
    shown = f" · enter: {finding.where}" if finding.where else ""
    head.append(clip(shown, max(0, cells - head.cell_len)), style=FAINT)
    return [head, *(Text(f"   {line}", style=PLAIN) for line in wrapped(finding.text, cells - 4))]


def curves(model: Overview, painter: Painter, cells: int) -> Text:
    """Acceptance by position, by depth where that is another number, survival where tests do not tell."""
    shown = model.blocks.acceptance if model.blocks is not None else []
    if not shown:
        return Text(" nothing was drafted, or nodes are not on record (--level none)", style=FAINT)
    lines: list[Text] = []
    for curve in shown:
        lines += ([Text("")] if lines else []) + titled(curve, painter, cells)
    return Text("\n").join(lines)


def calibration(model: Overview, painter: Painter, cells: int) -> Text:
    """What the draft gave its tokens, what the target gave them, and how many were kept."""
    return painted([model.blocks.calibration] if model.blocks else [], painter, cells)


def stages(model: Overview, painter: Painter, cells: int) -> Text:
    """Median time of each stage."""
    return painted([model.blocks.stages, model.blocks.timing] if model.blocks else [], painter, cells)


def numbers(model: Overview, painter: Painter, cells: int) -> Text:
    """Every number with what it means, then what became of drafted tokens and how many a round kept."""
    blocks = model.blocks
    return painted([blocks.numbers, blocks.marks, blocks.histogram] if blocks else [], painter, cells)
