"""The run in numbers: its judgement and findings, acceptance with intervals, calibration, where time goes."""

from rich.cells import cell_len
from rich.text import Text

from specviz.text import clip
from specviz.view.frame.judgement import RunCard, RunFinding
from specviz.view.frame.parts import Metric, Series
from specviz.view.panels.overview.model import Overview
from specviz.view.words.numbers import UNKNOWN, percent, prob
from specviz_tui.common.paint import FAINT, PLAIN, STRONG, Painter, bar, indented, wrapped

WIDEST_BAR = 44
LABELS = {
    "position_acceptance": ("at position", "of the tokens tested there, so many are kept"),
    "depth_acceptance": ("at depth", "of the nodes tested there, siblings apart, so many are kept"),
    "survival": ("at least", "of the drafts that are so long, as many tokens were kept"),
}
LEGEND = "█ surely  ▒ 95 % interval"
CURSOR_MARK, OTHER_MARK = "▸", " "


def judgement(model: Overview, painter: Painter, cells: int) -> Text:
    """The line, how the speed-up came about, then every finding; the one under the cursor in full."""
    found = model.judgement
    head = Text(f" {found.tokens}", style=STRONG)
    head.append(" · ", style=FAINT).append(found.speed_text, style=STRONG)
    lines = [head, *indented(found.basis_words, cells, FAINT)]
    if found.card is not None:
        lines += _card(found.card, painter, cells)
    if not found.findings:
        return Text("\n").join([*lines, *indented(found.nothing, cells, FAINT)])
    for k, finding in enumerate(found.findings):
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


def _finding(finding: RunFinding, chosen: bool, painter: Painter, cells: int) -> list[Text]:
    mark = CURSOR_MARK if chosen else OTHER_MARK
    head = Text(f" {mark} ", style=STRONG).append(finding.headline, style=painter.tint("recovered") + STRONG)
    if not chosen:
        return [head]
    shown = f" · enter: {finding.where}" if finding.where else ""
    head.append(clip(shown, max(0, cells - head.cell_len)), style=FAINT)
    return [head, *(Text(f"   {line}", style=PLAIN) for line in wrapped(finding.text, cells - 4))]


def curves(model: Overview, painter: Painter, cells: int) -> Text:
    """Acceptance by position, by depth where that is another number, survival where tests do not tell."""
    if not model.curves:
        return Text(" nothing was drafted, or nodes are not on record (level none)", style=FAINT)
    shown = [curve for curve in model.curves if curve.name != "survival"] or list(model.curves)
    lines: list[Text] = []
    for curve in shown:
        lines += ([Text("")] if lines else []) + _curve(curve, painter, cells)
    return Text("\n").join(lines)


def _curve(curve: Series, painter: Painter, cells: int) -> list[Text]:
    label, meaning = LABELS.get(curve.name, ("at", curve.label))
    lines = indented(f"{label}: {meaning}", cells, FAINT)
    texts = [_with_interval(v, lo, hi) for v, lo, hi in zip(curve.values, curve.lows, curve.highs, strict=True)]
    widest = max(len(text) for text in texts)
    room = max(6, min(WIDEST_BAR, cells - widest - 14))
    for x, text, value, lo, hi, n in zip(curve.xs, texts, curve.values, curve.lows, curve.highs, curve.ns, strict=True):
        line = Text(f" {x:>3}  {text:<{widest}}  ", no_wrap=True)
        line.append(interval_bar(value, lo, hi, room), style=painter.tint("accepted")).append(f" n {n}", style=FAINT)
        lines.append(line)
    return lines


def _with_interval(value: float, low: float | None, high: float | None) -> str:
    return prob(value) if low is None or high is None else f"{prob(value)} [{prob(low)}, {prob(high)}]"


def interval_bar(value: float, low: float | None, high: float | None, cells: int) -> str:
    """A bar up to the lower end of the interval, shaded on to the upper one; exactly `cells` wide."""
    if low is None or high is None:
        return bar(value, cells)
    full, upto = round(min(max(low, 0.0), 1.0) * cells), round(min(max(high, 0.0), 1.0) * cells)
    if value > 0 and not upto:
        upto = 1
    return ("█" * full + "▒" * (upto - full)).ljust(cells)


def calibration(model: Overview, painter: Painter, cells: int) -> Text:
    """What the draft gave its tokens, what the target gave them, and how many were kept."""
    if not model.calibration:
        return Text(" no probabilities of drafted tokens on record", style=FAINT)
    rows, titles = model.calibration, ("q draft", "p target", "kept", "q − p")
    band, n = (max(len(text) for text in column) for column in ([r.band for r in rows], [f"{r.n}" for r in rows]))
    q, p, kept, apart = (max(len(titles[k]), *(cell_len(row.texts[k]) for row in rows)) for k in range(4))
    room = max(2, min(16, (cells - band - n - q - p - kept - apart - 13) // 2))
    head = (
        f" {'q':<{band}}  {'n':>{n}}  {titles[0]:<{q + room + 1}}  {titles[1]:<{p + room + 1}}  {titles[2]:<{kept}}  "
    )
    lines = [Text(head + titles[3], style=FAINT, no_wrap=True)]
    for row in rows:
        line = Text(f" {row.band:<{band}}  {row.n:>{n}}  {row.texts[0]:<{q}} ", no_wrap=True)
        line.append(bar(row.q, room), style=painter.tint("drafted")).append(f"  {row.texts[1]:<{p}} ")
        line.append(bar(row.p, room), style=painter.tint("accepted"))
        lines.append(line.append(f"  {row.texts[2]:<{kept}}  {row.texts[3]}"))
    lines += indented(
        "q − p around 0: the draft knows how sure it may be. Above 0: it is too sure of itself.", cells, FAINT
    )
    for line in lines:
        line.truncate(cells, overflow="ellipsis")
    return Text("\n").join(lines)


def stages(model: Overview, painter: Painter, cells: int) -> Text:
    """Median time of each stage."""
    if not model.stages:
        return Text(" no times on record", style=FAINT)
    label = max(len(stage.name) for stage in model.stages)
    text = max(len(stage.text) for stage in model.stages)
    room = max(6, min(WIDEST_BAR, cells - label - text - 14))
    lines = []
    for stage in model.stages:
        line = Text(f" {stage.name:<{label}}  {stage.text:>{text}}  ", no_wrap=True)
        if stage.share is None:
            line.append("once a prompt", style=FAINT)
        else:
            line.append(bar(stage.share, room), style=painter.tint("accepted")).append(
                f" {percent(stage.share)}", style=FAINT
            )
        lines.append(line)
    drafting = f"drafting is {model.drafting_share} of a round with its recording"
    words = ("medians of a round", *([drafting] if model.drafting_share != UNKNOWN else []))
    lines += indented(" · ".join((*words, f"recording cost {model.overhead}")), cells, FAINT)
    return Text("\n").join(lines)


def numbers(model: Overview, painter: Painter, cells: int) -> Text:
    """Every number with what it means."""
    known = [found for found in model.metrics if found.value is not None]
    label = max((len(found.label) for found in known), default=0)
    text = max((cell_len(found.text) for found in known), default=0)
    lines = [_number(found, label, text, cells) for found in known]
    return Text("\n").join([*lines, _spread(model, cells)])


def _number(found: Metric, label: int, text: int, cells: int) -> Text:
    line = Text(f" {found.label:<{label}}  ", style=FAINT, no_wrap=True).append(f"{found.text:<{text}}  ", style=STRONG)
    line.append(found.help, style=FAINT).truncate(cells, overflow="ellipsis")
    return line


def _spread(model: Overview, cells: int) -> Text:
    """Rounds by accepted tokens in one line: `kept  0: 3  1: 5`."""
    counts = [f"{kept}: {n}" for kept, n in model.histogram.counts if n]
    line = Text(f" rounds that kept  {'  '.join(counts)}" if counts else "", style=FAINT, no_wrap=True)
    line.truncate(cells, overflow="ellipsis")
    return line
