"""The tree with block, slot and rank of every node as lines, and the expansions at the one under the cursor."""

from rich.text import Text

from specviz.text import clip, pad, width
from specviz.view.panels.ranks.model import BUCKETS, OUTCOMES, ExpansionView, RankNode, Ranks, RankTree
from specviz.view.words import palette
from specviz.view.words.numbers import prob
from specviz.view.words.terms import Mark
from specviz_tui.common.paint import CURSOR, FAINT, PLAIN, STRONG, Painter, bar, joined, wrapped

TOKEN, BADGE, CHANCE = 14, 11, 8
OFFERS = 6  # tokens of an expansion that are listed beyond its children


def sentence(words: str, cells: int, style: object = PLAIN) -> list[Text]:
    """A sentence in lines."""
    return [Text(line, style=style) for line in wrapped(words, cells)]  # type: ignore[arg-type]


def indented(words: str, cells: int, style: object = PLAIN) -> list[Text]:
    """A sentence in lines under a table."""
    return [Text(" ").append_text(line) for line in sentence(words, cells - 2, style)]


def legend(painter: Painter) -> Text:
    """What the signs mean."""
    parts = [
        Text(style.glyph, style=painter.style(style)).append(f" {word}", style=FAINT)
        for style, word in (
            (palette.SPINE, "spine"), (palette.START, "block starts"), (palette.MERGED, "offered again"),
        )
    ]  # fmt: skip
    return joined(parts, 60, "  ")


def tree(found: RankTree, painter: Painter, cells: int) -> tuple[Text, list[int], int | None]:
    """A line a node, the ids in that order, and the line of the cursor."""
    if found.missing or not found.nodes:
        return Text(found.missing or "nothing has been drafted in this round", style=FAINT), [], None
    room = min(max(width(node.rails) for node in found.nodes) + TOKEN + 2, max(24, cells - BADGE - CHANCE - 14))
    lines = [_node(node, painter, room, cells) for node in found.nodes]
    if found.n_hidden:
        lines.append(Text(f"  {found.n_hidden} pruned nodes left out: X shows them, x folds the losers", style=FAINT))
    lines += indented(found.text, cells, FAINT)
    cursor = next((k for k, node in enumerate(found.nodes) if node.cursor), None)
    return Text("\n").join(lines), [node.id for node in found.nodes], cursor


def _node(node: RankNode, painter: Painter, room: int, cells: int) -> Text:
    line = Text(no_wrap=True).append(" ")
    rails = node.rails if width(node.rails) < room - 8 else f"…{node.rails[-(room - 10) :]}"
    line.append(rails[:-2], style=FAINT)
    line.append(rails[-2:], style=painter.style(palette.SPINE) if node.spine else FAINT)
    style = painter.mark(node.mark) + (CURSOR if node.cursor else PLAIN)
    line.append(f"{node.glyph} ", style=painter.tint(node.mark))
    line.append(clip(node.shown, max(6, room - width(rails) - 2)), style=style)
    line.append(" " * max(1, room + 1 - line.cell_len))
    badge = node.badge or (node.mark if node.depth else "")
    line.append(f"{badge:<{BADGE}}", style=STRONG if node.path else PLAIN if node.kept and node.badge else FAINT)
    line.append(f"{node.chance if node.badge else '':>{CHANCE}}  ", style=FAINT)
    if node.start_block is not None or node.start is not None:
        line.append(f"{palette.START.glyph}b{node.start_block or '?'} ", style=painter.style(palette.START))
    if node.merged:
        line.append(f"{palette.MERGED.glyph}{node.merged + 1} ", style=painter.style(palette.MERGED))
    line.append("pruned" if not node.kept else "", style=FAINT)
    line.truncate(cells, overflow="ellipsis")
    return line


def offers(found: Ranks, painter: Painter, cells: int) -> Text:
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
