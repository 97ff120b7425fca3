"""Screen *Ranks* as text: the draft tree with block, slot and rank of every node, and the tables over the run."""

from rich.style import Style
from rich.text import Text

from specviz.numerals import prob
from specviz.runlog.run import Mark
from specviz.text import clip, pad
from specviz.view.blocks import TableBlock, twin
from specviz.view.frame.frame import TreeFrame
from specviz.view.panels.ranks.model import BUCKETS, OUTCOMES, ExpansionView, RanksModel
from specviz.view.panels.ranks.text import none_judged, rank_words, unknown_words
from specviz.view.words import palette
from specviz_tui.common.blocks import cursor_line, heat, paint, painted, square_at
from specviz_tui.common.paint import FAINT, PLAIN, STRONG, Painter, bar, joined, sentence, wrapped
from specviz_tui.widgets.tree_rows import listed

TOKEN = 14
OFFERS = 6  # tokens of an expansion that are listed beyond its children


def under(words: str, cells: int, style: Style = PLAIN) -> list[Text]:
    """A sentence in lines under a table."""
    return [Text(" ").append_text(line) for line in sentence(words, cells - 2, style)]


def tree(seen: TreeFrame, model: RanksModel, painter: Painter, cells: int) -> tuple[Text, list[int], int | None]:
    """The draft tree with badges, a line a node; the ids in that order, and the line of the cursor."""
    if seen.missing or not seen.nodes:
        return Text(seen.missing or "nothing has been drafted in this round", style=FAINT), [], None
    rows = listed(seen, painter, cells, len(seen.nodes), model.badges)
    lines = [Text.assemble(*row.pieces, no_wrap=True) for row in rows]
    for line in lines:
        line.truncate(cells, overflow="ellipsis")
    cursor = next((k for k, row in enumerate(rows) if row.cursor is not None), None)
    return Text("\n").join([*lines, *under(model.tree_text, cells, FAINT)]), [row.spots[0][2] for row in rows], cursor


def offers(model: RanksModel, painter: Painter, cells: int) -> Text:
    """Why the round ended, what was offered at the node under the cursor, why the tree has this shape."""
    lines = [Text(line, style=STRONG) for line in wrapped(model.ending, cells)]
    lines += [Text("")] if lines else []
    if model.expansions:
        lines += sentence(f"What was {model.expansions_title}", cells, FAINT)
        for view in model.expansions:
            lines += expansion(view, painter, cells)
            lines.append(Text(""))
    elif model.round_expansions:
        lines += [*sentence("nothing was offered after this node", cells, FAINT), Text("")]
    lines += sentence(model.shape, cells)
    for note in model.notes:
        lines += [Text(""), *sentence(note, cells, FAINT)]
    return Text("\n").join(lines)


def expansion(view: ExpansionView, painter: Painter, cells: int) -> list[Text]:
    """The predicted bucket with its odds, the tokens with their fates, the sentence."""
    mark, outcome = OUTCOMES[view.outcome]
    head = Text(f"b{view.block}·s{view.slot}", style=STRONG, no_wrap=True)
    head.append(f" after {clip(view.parent_shown, TOKEN)}  predicted ", style=FAINT).append(
        view.bucket_text, style=STRONG
    )
    if view.true_bucket is not None and view.cost is not None:
        style = palette.COSTS[view.cost]
        head.append("  true ", style=FAINT)
        head.append(f"{BUCKETS[view.true_bucket]} {style.glyph}", style=painter.style(style))
    lines = [head, *_odds(view, painter, cells)]
    if view.outcome != "unknown":
        sign = Text(f"{palette.glyph(mark)} ", style=painter.tint(mark))
        lines.append(sign.append(f"{outcome}{', on the path' if view.on_path else ''}", style=FAINT))
    shown = [offer for offer in view.offers if offer.child or offer.best or offer.written][: view.n_children + OFFERS]
    for offer in shown:
        role = "written" if offer.written else "target's best" if offer.best else ""
        look = painter.tint("accepted") + STRONG if role and offer.child else STRONG if role else PLAIN
        line = Text(f"{f'#{offer.rank}':>4} ", style=FAINT, no_wrap=True)
        line.append(pad(clip(offer.shown, TOKEN), TOKEN), style=look if offer.child or role else FAINT)
        line.append(f" {prob(offer.prob):>5} ", style=FAINT).append(bar(offer.prob, 5), style=painter.tint("drafted"))
        if role:
            fate: Mark = "accepted" if offer.child else "rejected"
            line.append(f" {palette.glyph(fate)} ", style=painter.tint(fate)).append(role, style=STRONG)
        line.truncate(cells, overflow="ellipsis")
        lines.append(line)
    return lines + sentence(view.words, cells) + sentence(rank_words(view), cells, FAINT)


def _odds(view: ExpansionView, painter: Painter, cells: int) -> list[Text]:
    """The rank head's four probabilities in a line."""
    if not view.probs:
        return []
    parts = []
    for bucket, chance in enumerate(view.probs):
        text = Text(f"{BUCKETS[bucket]} ", style=STRONG if bucket == view.bucket else FAINT)
        parts.append(text.append(prob(chance), style=STRONG if bucket == view.bucket else FAINT))
    return [Text(" ", no_wrap=True).append_text(joined(parts, cells - 1, "  "))]


FIRST = 1  # lines above the heat map


def buckets(model: RanksModel, painter: Painter, cells: int) -> Text:
    """The table with its margins, what being wrong costs, and every (block, slot)."""
    table, head = model.confusion, Text(f" {model.filter_text}", style=STRONG, no_wrap=True)
    if table is None or model.over_run is None:
        why = none_judged(model) if not model.notes else model.notes[0]
        return Text("\n").join([head, Text(""), *under(why, cells, FAINT)])
    lines = [head, *heat(table.heat, painter, cells), _legend(painter, cells)]
    lines += [line for words in (f"Counted {table.basis}", *table.findings) for line in under(f"{words}.", cells)]
    if table.n_unknown:
        lines += under(unknown_words(table), cells, FAINT)
    return Text("\n").join([*lines, Text(""), *paint(model.over_run.slots, painter, cells)])


def _legend(painter: Painter, cells: int) -> Text:
    parts = [
        Text(style.glyph, style=painter.style(style)).append(f" {style.word.split(':')[0]}", style=FAINT)
        for style in palette.COSTS.values()
    ]
    return Text(" ", no_wrap=True).append_text(joined(parts, cells - 2, "  "))


def cell(chosen: TableBlock | None, painter: Painter, cells: int) -> tuple[Text, int | None]:
    """The expansions of the chosen cell, and the line of the cursor."""
    if chosen is None:
        text = "Arrows choose a cell; enter lists its expansions, and enter again goes to the node."
        return Text("\n").join(sentence(text, cells, FAINT)), None
    lines = [Text(chosen.title, style=STRONG), *paint(chosen, painter, cells)]
    return Text("\n").join(lines), None if chosen.cursor is None else 1 + cursor_line(chosen)


def widths(model: RanksModel, painter: Painter, cells: int) -> Text:
    """What every width was given, spent and brought; what any width would have covered."""
    head = Text(f" {model.filter_text}", style=STRONG, no_wrap=True)
    if model.over_run is None or model.confusion is None:
        why = none_judged(model) if not model.notes else model.notes[0]
        return Text("\n").join([head, Text(""), *under(why, cells, FAINT)])
    run = model.over_run
    return Text("\n").join([head, painted([twin(run.widths), run.reach, run.other_widths], painter, cells)])


def blocks(model: RanksModel, painter: Painter, cells: int) -> Text:
    """Numbers of the run, then what each block and each depth used of the budget and brought."""
    run = model.over_run
    return painted([run.summary, run.blocks, twin(run.blocks), run.depths] if run else [], painter, cells)


def pressed(model: RanksModel | None, x: int, y: int) -> tuple[int, int] | None:
    """The cell of the table at a place: predicted and true bucket."""
    return square_at(model.confusion.heat, x, y - FIRST) if model is not None and model.confusion is not None else None
