"""What stands around the tree: whose run it is, the line of phases, the test in hand, the time line."""

from collections.abc import Iterator
from itertools import groupby

from specviz.view.picture import measure
from specviz.view.picture.look import Colours, mix
from specviz.view.picture.shapes import Box, Piece, Shape, TextLine
from specviz.view.stage.parts import Gauge, StageHead, StagePoint, StageRound, StageWhy
from specviz.view.words.palette import TONES

LEGEND = ("accepted", "rejected", "untested", "recovered", "bonus")
_ENTRIES = 4
_SLOT = 46.0  # a round of the time line is no wider


def header(head: StageHead, page: StageRound, x: float, y: float, wide: float, colours: Colours) -> Iterator[Shape]:
    """The run, its badge, and which round this is."""
    plain = colours.of
    place = f"{page.place} of {len(head.points)}"
    room = wide - measure.width(place, 15, bold=True) - 20
    yield TextLine(x, y, (Piece(measure.clipped(head.title, room, 15, bold=True), plain.ink, True),), 15)
    yield TextLine(x + wide, y, (Piece(place, plain.ink, True),), 15, anchor="end")
    tinted = {"kept": colours.mark("bonus"), "broken": colours.mark("rejected"), "open": plain.soft}[head.tone]
    badge = Piece(f"{TONES[head.tone]} {head.badge}", colours.readable(tinted, plain.ground), True)
    facts = measure.clipped(f"   {head.facts}", wide - measure.width(badge.text, 12.5, bold=True), 12.5)
    yield TextLine(x, y + 21, (badge, Piece(facts, plain.soft)), 12.5)


def phases(head: StageHead, phase: int, x: float, y: float, wide: float, colours: Colours) -> Iterator[Shape]:
    """Six points on a line, the one that is reached large."""
    plain = colours.of
    slot = wide / len(head.phases)
    yield Box(x + slot / 2, y - 1, wide - slot, 2, fill=plain.line)
    for number, word in enumerate(head.phases, 1):
        middle = x + slot * (number - 0.5)
        past, on = number < phase, number == phase
        r = 7.5 if on else 4.5 if past else 6
        fill = colours.mark("accepted") if on else plain.soft if past else plain.ground
        yield Box(middle - r, y - r, 2 * r, 2 * r, r, fill, None if on or past else plain.line, 2)
        ink = plain.ink if on else plain.soft
        yield TextLine(middle, y + 24, (Piece(word, ink, on),), 12, anchor="middle")


def legend(x: float, y: float, wide: float, colours: Colours) -> Iterator[Shape]:
    """What signs and bars mean."""
    plain = colours.of
    words = [(colours.glyph(mark), colours.mark(mark), colours.word(mark)) for mark in LEGEND]
    lengths = [46.0 + measure.width("q draft", 12), 46.0 + measure.width("p target", 12)]
    lengths += [32.0 + measure.width(word, 12) for _, _, word in words]
    at = x + max(0.0, (wide - sum(lengths) + 18) / 2)
    for (name, mark), length in zip((("q draft", "recovered"), ("p target", "accepted")), lengths, strict=False):
        yield Box(at, y - 7, 22, 6, 3, colours.mark(mark))
        yield TextLine(at + 28, y, (Piece(name, plain.soft),), 12)
        at += length
    for (glyph, colour, word), length in zip(words, lengths[2:], strict=True):
        sign = Piece(glyph, colours.readable(colour, plain.ground), True)
        yield TextLine(at, y, (sign, Piece(f" {word}", plain.soft)), 12)
        at += length


def in_hand(
    why: StageWhy, counted: str, token: str, x: float, y: float, wide: float, colours: Colours, falls: float = 1.0
) -> Iterator[Shape]:
    """The test in hand: token, rule, verdict, and `u` against the band that keeps the token. `falls` 0..1: how far."""
    plain, own = colours.of, colours.readable(colours.mark(why.mark), colours.of.ground)
    verdict = f"{colours.glyph(why.mark)} {colours.word(why.mark)}" if falls >= 1 else ""
    name = Piece(measure.clipped(token, wide * 0.3, 14, True), plain.ink, True)
    long = measure.width(name.text, 14, True)
    start = x + (measure.width(counted, 12.5) + 12 if counted else 0)
    if counted:
        yield TextLine(x, y, (Piece(counted, plain.soft),), 12.5)
    yield TextLine(start, y, (name,), 14, True)
    room = wide - (start - x) - long - measure.width(verdict, 13.5, bold=True) - 30
    yield TextLine(start + long + 14, y, (Piece(measure.clipped(why.rule, room, 12.5), plain.soft),), 12.5)
    yield TextLine(x + wide, y, (Piece(verdict, own, True),), 13.5, anchor="end")
    if why.gauge is not None:
        yield from gauge(why.gauge, x, y + 32, wide, colours, falls)
    else:
        numbers = "  ·  ".join(" ".join(f"{row.label} {row.value} {row.note}".split()) for row in why.rows)
        yield TextLine(x, y + 30, (Piece(measure.clipped(numbers, wide, 13), plain.soft),), 13)


def gauge(found: Gauge, x: float, y: float, wide: float, colours: Colours, falls: float) -> Iterator[Shape]:
    """The scale from 0 to 1. In the band the token is kept."""
    plain, high = colours.of, 18
    yield Box(x, y, wide, high, 7, mix(colours.mark("rejected"), plain.wash, 0.16))
    lo, hi = (max(0.0, min(1.0, value)) for value in (found.lo, found.hi))
    if hi > lo:
        band = mix(colours.mark("accepted"), plain.panel, 0.62)
        yield Box(x + lo * wide, y, max(2.0, (hi - lo) * wide), high, 7, band)
    at = x + max(0.0, min(1.0, found.u)) * wide
    up = (1 - falls) * 34
    yield Box(at - 1.6, y - 9 - up, 3.2, high + 14, 1.6, plain.ink)
    yield TextLine(at, y - 12 - up, (Piece("u", plain.ink, True),), 12.5, True, "middle")
    yield TextLine(x, y + 36, (Piece("0", plain.soft),), 12)
    yield TextLine(x + wide, y + 36, (Piece("1", plain.soft),), 12, anchor="end")
    yield TextLine(x + wide / 2, y + 36, (Piece(found.text, plain.ink, True),), 13, anchor="middle")


def left(why: StageWhy, x: float, y: float, wide: float, colours: Colours) -> Iterator[Shape]:
    """What was left to draw from, the drawn token among it."""
    plain = colours.of
    yield TextLine(x, y, (Piece(measure.clipped(why.left, wide, 13, bold=True), plain.ink, True),), 13)
    shown = sorted(why.entries, key=lambda entry: -entry.share)[:_ENTRIES]
    drawn = [entry for entry in why.entries if entry.drawn and entry not in shown]
    shown = [*shown[: _ENTRIES - len(drawn)], *drawn]
    most = max((entry.share for entry in shown), default=1.0) or 1.0
    for n, entry in enumerate(shown):
        row = y + 21 * (n + 1)
        note = ", ".join(word for word, so in (("drawn", entry.drawn), ("drafted", entry.drafted)) if so)
        ink = plain.ink if entry.drawn else plain.soft
        yield TextLine(x, row, (Piece(measure.clipped(entry.shown, 110, 13, True), ink, entry.drawn),), 13, True)
        yield Box(x + 120, row - 9, wide - 270, 9, 4, plain.wash)
        colour = colours.mark("recovered") if entry.drawn else plain.soft
        yield Box(x + 120, row - 9, max(2.0, (wide - 270) * entry.share / most), 9, 4, colour)
        yield TextLine(x + wide - 140, row, (Piece(entry.text, ink, entry.drawn), Piece(f"  {note}", plain.soft)), 12.5)


def _written(point: StagePoint) -> list[tuple[str, int]]:
    """The tokens of a round by what they are, each kind with how many in a row."""
    if len(point.tokens) != point.n or not point.n:
        return [("accepted" if point.n else "rejected", point.n)]
    return [(mark, len(list(same))) for mark, same in groupby(mark for _, mark, _ in point.tokens)]


def timeline(
    head: StageHead, index: int, x: float, y: float, wide: float, high: float, colours: Colours
) -> Iterator[Shape]:
    """A bar a round, as high as the tokens it wrote and in their colours, and where one was rejected; of a long run
    what is near."""
    plain, points = colours.of, head.points
    n = min(len(points), int(wide // 4))
    first = max(0, min(len(points) - n, index - n // 2))
    shown = points[first : first + n]
    slot = min(_SLOT, wide / n)
    gap = min(3.0, slot * 0.2)
    most = max((point.n for point in shown), default=1) or 1
    x += (wide - slot * n) / 2
    here, foot = x + (index - first) * slot, y + high - 13
    yield Box(here, y - 5, slot, high + 8, 5, mix(plain.ink, plain.ground, 0.1), plain.ink, 1.3)
    for place, point in enumerate(shown):
        left, tall = x + place * slot + gap / 2, 0.0
        for mark, n_tokens in _written(point):
            part = max(2.0, (high - 13) * n_tokens / most)
            tall += part
            colour = mix(colours.mark(mark), plain.ground, 0.85)
            yield Box(left, foot - tall, slot - gap, part, min(3.0, slot / 3, part / 2), colour)
        middle = left + (slot - gap) / 2
        if point.rejected and slot >= 8:
            sign = Piece(colours.glyph("rejected"), colours.mark("rejected"), True)
            yield TextLine(middle, foot + 11, (sign,), 10, anchor="middle")
        if point.markers and slot >= 8:
            yield TextLine(middle, foot - tall - 2, (Piece(point.markers[0], plain.ink),), 10, anchor="middle")
