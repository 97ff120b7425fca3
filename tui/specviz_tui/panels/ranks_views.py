"""Screen *Ranks* as text: the draft tree with block, slot and rank of every node, and the tables over the run."""

from collections.abc import Sequence

from rich.style import Style
from rich.text import Text

from specviz.runlog.run import Mark
from specviz.text import clip, pad
from specviz.view.frame.frame import TreeFrame
from specviz.view.panels.ranks.model import (
    BUCKETS,
    OUTCOMES,
    CellList,
    Confusion,
    ConfusionCell,
    ExpansionView,
    RanksModel,
)
from specviz.view.words import palette
from specviz.view.words.numbers import number, percent, prob
from specviz_tui.common.paint import CURSOR, FAINT, PLAIN, STRONG, Painter, bar, facts, joined, sentence, wrapped
from specviz_tui.widgets.tree_rows import listed

TOKEN = 14
OFFERS = 6  # tokens of an expansion that are listed beyond its children


def under(words: str, cells: int, style: Style = PLAIN) -> list[Text]:
    """A sentence in lines under a table."""
    return [Text(" ").append_text(line) for line in sentence(words, cells - 2, style)]


def tree(seen: TreeFrame, found: RanksModel, painter: Painter, cells: int) -> tuple[Text, list[int], int | None]:
    """The draft tree with badges, a line a node; the ids in that order, and the line of the cursor."""
    if seen.missing or not seen.nodes:
        return Text(seen.missing or "nothing has been drafted in this round", style=FAINT), [], None
    rows = listed(seen, painter, cells, len(seen.nodes), found.badges)
    lines = [Text.assemble(*row.pieces, no_wrap=True) for row in rows]
    for line in lines:
        line.truncate(cells, overflow="ellipsis")
    cursor = next((k for k, row in enumerate(rows) if row.cursor is not None), None)
    return Text("\n").join([*lines, *under(found.tree_text, cells, FAINT)]), [row.spots[0][2] for row in rows], cursor


def offers(found: RanksModel, painter: Painter, cells: int) -> Text:
    """Why the round ended, what was offered at the node under the cursor, why the tree has this shape."""
    lines = [Text(line, style=STRONG) for line in wrapped(found.ending, cells)]
    lines += [Text("")] if lines else []
    if found.expansions:
        lines += sentence(f"What was {found.expansions_title}", cells, FAINT)
        for each in found.expansions:
            lines += expansion(each, painter, cells)
            lines.append(Text(""))
    elif found.round_expansions:
        lines += [*sentence("nothing was offered after this node", cells, FAINT), Text("")]
    lines += sentence(found.shape, cells)
    for note in found.notes:
        lines += [Text(""), *sentence(note, cells, FAINT)]
    return Text("\n").join(lines)


def expansion(each: ExpansionView, painter: Painter, cells: int) -> list[Text]:
    """The predicted bucket with its odds, the tokens with their fates, the sentence."""
    mark, outcome = OUTCOMES[each.outcome]
    head = Text(f"b{each.block}·s{each.slot}", style=STRONG, no_wrap=True)
    head.append("  predicted ", style=FAINT).append(each.bucket_text, style=STRONG)
    if each.true_bucket is not None and each.cost is not None:
        style = palette.COSTS[each.cost]
        head.append("  true ", style=FAINT)
        head.append(f"{BUCKETS[each.true_bucket]} {style.glyph}", style=painter.style(style))
    lines = [head, *_odds(each, painter, cells)]
    if each.outcome != "unknown":
        sign = Text(f"{palette.glyph(mark)} ", style=painter.tint(mark))
        lines.append(sign.append(outcome, style=FAINT))
    shown = [offer for offer in each.offers if offer.child or offer.best or offer.written][: each.n_children + OFFERS]
    for offer in shown:
        said = "written" if offer.written else "target's best" if offer.best else ""
        look = painter.tint("accepted") + STRONG if said and offer.child else STRONG if said else PLAIN
        line = Text(f"{f'#{offer.rank}':>4} ", style=FAINT, no_wrap=True)
        line.append(pad(clip(offer.shown, TOKEN), TOKEN), style=look if offer.child or said else FAINT)
        line.append(f" {prob(offer.prob):>5} ", style=FAINT).append(bar(offer.prob, 5), style=painter.tint("drafted"))
        if said:
            fate: Mark = "accepted" if offer.child else "rejected"
            line.append(f" {palette.glyph(fate)} ", style=painter.tint(fate)).append(said, style=STRONG)
        line.truncate(cells, overflow="ellipsis")
        lines.append(line)
    return lines + sentence(each.words, cells)


def _odds(each: ExpansionView, painter: Painter, cells: int) -> list[Text]:
    """The rank head's four probabilities in a line."""
    if not each.probs:
        return []
    parts = []
    for bucket, chance in enumerate(each.probs):
        text = Text(f"{BUCKETS[bucket]} ", style=STRONG if bucket == each.bucket else FAINT)
        parts.append(text.append(prob(chance), style=STRONG if bucket == each.bucket else FAINT))
    return [Text(" ", no_wrap=True).append_text(joined(parts, cells - 1, "  "))]


LABEL, CELL, BAR = 10, 10, 3
FIRST = 2  # lines above the table's first row
SHOWN_WIDTHS = (1, 2, 3, 4, 5, 6, 8, 10, 15, 20)
_SENT = "sent: nodes of the budget, by the block that offered them first; kept: they became text"
NO_EXPANSIONS = "No expansion has been judged yet"


def buckets(found: RanksModel, painter: Painter, cells: int) -> Text:
    """The table with its margins, what being wrong costs, and every (block, slot)."""
    table = found.confusion
    head = Text(f" {found.filter_text}", style=STRONG, no_wrap=True)
    if table is None:
        why = f"{NO_EXPANSIONS} for {found.filter_text}." if not found.notes else found.notes[0]
        return Text("\n").join([head, Text(""), *under(why, cells, FAINT)])
    lines = [head, _header(cells)]
    lines += [_row(table, pred, painter, cells) for pred in range(len(BUCKETS))]
    recall = Text(f" {'recall':<{LABEL}}", style=FAINT, no_wrap=True)
    for value in table.recall:
        recall.append(f"{prob(value):>6}".ljust(CELL), style=FAINT)
    lines.append(recall.append(f" right {prob(table.accuracy)} of {table.n}", style=STRONG))
    lines += [_legend(painter, cells), *under(f"Counted {table.basis}.", cells, FAINT)]
    for words in table.findings:
        lines += under(f"{words}.", cells)
    if table.n_unknown:
        lines += under(f"{table.n_unknown} more hang below pruned nodes: their truth is unknown.", cells, FAINT)
    return Text("\n").join([*lines, Text(""), *_slots(found, painter, cells)])


def _header(cells: int) -> Text:
    line = Text(f" {'':<{LABEL}}", style=FAINT, no_wrap=True)
    for true, name in enumerate(BUCKETS):
        line.append(f"{('true ' if not true else '') + name:>6}".ljust(CELL))
    return line.append(" precision  children" if cells >= 68 else " prec. chil.")


def _row(table: Confusion, pred: int, painter: Painter, cells: int) -> Text:
    line = Text(f" {'pred ' + BUCKETS[pred]:<{LABEL}}", style=FAINT, no_wrap=True)
    for cell in table.cells[pred]:
        line.append_text(_cell(cell, painter))
    line.append(f" {prob(table.precision[pred]):>5}", style=STRONG if table.precision[pred] is not None else FAINT)
    spent = number(table.spent[pred], 1)
    return line.append(f"{'    ' if cells >= 68 else ' '}{spent:>5}", style=PLAIN).append(
        f"  gives {table.widths[pred]}" if cells >= 84 else "", style=FAINT
    )


def _cell(cell: ConfusionCell, painter: Painter) -> Text:
    """The count, its sign and how much of its row it is."""
    style = palette.COSTS[cell.cost]
    look = (painter.style(style) if cell.count else FAINT) + (CURSOR if cell.cursor else PLAIN)
    text = Text(f"{cell.count:>6}", style=look, no_wrap=True).append(style.glyph if cell.count else " ", style=look)
    return text.append(bar(cell.share, BAR), style=painter.style(style))


def _legend(painter: Painter, cells: int) -> Text:
    parts = [
        Text(style.glyph, style=painter.style(style)).append(f" {style.word.split(':')[0]}", style=FAINT)
        for style in palette.COSTS.values()
    ]
    return Text(" ", no_wrap=True).append_text(joined(parts, cells - 2, "  "))


def _slots(found: RanksModel, painter: Painter, cells: int) -> list[Text]:
    if not found.slot_rows:
        return []
    lines = [Text(" block slot      n  first right  bucket right  covered  children", style=FAINT, no_wrap=True)]
    for row in found.slot_rows:
        line = Text(f" {row.block:>5} {row.slot:>4} {row.n:>6}  ", no_wrap=True)
        line.append(f"{prob(row.top1):>4} ").append(bar(row.top1, 6), style=painter.tint("accepted"))
        line.append(f"  {prob(row.bucket):>4} ").append(bar(row.bucket, 7), style=painter.tint("drafted"))
        line.append(f"  {prob(row.coverage):>5}  {number(row.mean_width, 1):>8}")
        line.truncate(cells)
        lines.append(line)
    return lines


def cell(found: CellList | None, painter: Painter, cells: int) -> tuple[Text, int | None]:
    """The expansions of the chosen cell, and the line of the cursor."""
    if found is None:
        text = "Arrows choose a cell; enter lists its expansions, and enter again goes to the node."
        return Text("\n").join(sentence(text, cells, FAINT)), None
    lines = [Text(f"{found.title}  ({found.count})", style=STRONG), *sentence(found.words, cells), Text("")]
    cursor = None
    for k, entry in enumerate(found.entries):
        here = k == found.cursor
        cursor = len(lines) if here else cursor
        sign = palette.glyph("accepted" if entry.covered else "rejected") if entry.covered is not None else "·"
        style = painter.tint("accepted" if entry.covered else "rejected")
        line = Text(no_wrap=True).append(f"{sign} ", style=style)
        line.append(pad(entry.place, 10), style=CURSOR if here else STRONG if entry.on_path else PLAIN)
        line.append(f" {clip(entry.parent_shown, 9)} → ", style=FAINT).append(clip(entry.token_shown, 12))
        line.append(f"  {entry.text}", style=FAINT)
        line.truncate(cells, overflow="ellipsis")
        lines.append(line)
    if found.more:
        lines.append(Text(f"and {found.more} more, of earlier rounds", style=FAINT))
    return Text("\n").join(lines), cursor


def widths(found: RanksModel, painter: Painter, cells: int) -> Text:
    """What every width was given, spent and brought; what any width would have covered."""
    head = Text(f" {found.filter_text}", style=STRONG, no_wrap=True)
    if not found.widths:
        why = f"{NO_EXPANSIONS}." if not found.notes else found.notes[0]
        return Text("\n").join([head, Text(""), *under(why, cells, FAINT)])
    room = max(4, min(20, cells - 58))
    lines = [head, Text(" width  places  children  useful  covered   95 %       token's rank", style=FAINT)]
    for row in found.widths:
        low, high = row.interval or (None, None)
        line = Text(f" {row.width:>5} {row.n:>7} {row.spent:>9} {row.useful:>7}  ", no_wrap=True)
        line.append(f"{prob(row.coverage):>5} ", style=STRONG)
        line.append(f" {prob(low):>4}–{prob(high):<4}", style=FAINT)
        line.append(f" {number(row.mean_rank, 1):>4} ").append(bar(row.coverage, room), style=painter.tint("accepted"))
        line.truncate(cells)
        lines.append(line)
    lines += [*under(found.widths_words, cells), Text("")]
    lines += [Text(" If all had this width: covered, and how many had at least as many", style=FAINT)]
    for point in found.reach:
        if point.width in SHOWN_WIDTHS:
            line = Text(f" {point.width:>5}  {prob(point.share):>4} ", no_wrap=True)
            line.append(bar(point.share, room), style=painter.tint("accepted"))
            line.append(f"  {prob(point.used):>4} ", style=FAINT)
            lines.append(line.append(bar(point.used, room), style=painter.tint("drafted")))
    return Text("\n").join(lines)


def blocks(found: RanksModel, painter: Painter, cells: int) -> Text:
    """Numbers of the run, then what each block and each depth used of the budget and brought."""
    lines = facts(found.summary, cells)
    if found.block_rows:
        lines += [Text(""), Text("       calls starts  sent share kept    ms", style=FAINT, no_wrap=True)]
        for row in found.block_rows:
            line = Text(f"{row.label:<7}{row.calls:>5} {number(row.starts, 1):>6} {row.sent:>5} ", no_wrap=True)
            line.append(f"{percent(row.share):>5}", style=FAINT)
            line.append(f"{row.accepted:>5}", style=STRONG).append(f"{number(row.ms, 2):>6}", style=FAINT)
            lines.append(line)
        lines += sentence(_SENT, cells, FAINT)
    if found.depth_rows:
        lines += [Text(""), Text("depth   sent tested  kept  rounds", style=FAINT, no_wrap=True)]
        for depth in found.depth_rows:
            line = Text(f"{depth.depth:>5} {depth.sent:>6} {depth.tested:>6} ", no_wrap=True)
            line.append(f"{depth.accepted:>5}", style=STRONG).append(f"  {percent(depth.reached):>6} ", style=FAINT)
            room = max(3, min(16, cells - line.cell_len))
            lines.append(line.append(bar(depth.reached, room), style=painter.tint("accepted")))
    return Text("\n").join(lines)


def pressed(x: int, y: int) -> tuple[int, int] | None:
    """The cell of the table at a place: predicted and true bucket."""
    pred, true = y - FIRST, (x - LABEL - 1) // CELL
    n: Sequence[int] = range(len(BUCKETS))
    return (pred, true) if pred in n and true in n and x > LABEL else None
