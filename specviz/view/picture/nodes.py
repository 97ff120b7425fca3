"""The nodes of the tree and the lines between them: a card each, with the token, what the draft said of it above what
the target says. The looks are those of the stage's style sheet.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from specviz.view.picture import measure
from specviz.view.picture.layout import PlacedTree, Spot
from specviz.view.picture.look import Colours, mix
from specviz.view.picture.shapes import Bend, Box, Piece, Shape, TextLine
from specviz.view.words.palette import CLOSING, ROOT, Phase

_WRITTEN = ("recovered", "bonus", "plain")
_FADED, _FADED_LOST, _UNTESTED = 0.42, 0.85, 0.7  # how much is left of a node that did not make it


@dataclass(frozen=True, slots=True)
class NodeLook:
    """One node at one moment. `here` 0..1: how far it has come; `at` the action is now."""

    id: int
    spot: Spot
    word: str
    state: Mapping[str, Any]
    phase: int
    here: float = 1.0
    at: bool = False

    @property
    def mark(self) -> str:
        return str(self.state["mark"])

    @property
    def won(self) -> bool:
        return bool(self.state.get("win"))

    @property
    def clear(self) -> float:
        """How much of its colours is left."""
        lost = self.phase >= Phase.CLOSE and not self.won and self.id != CLOSING and self.mark != "drafted"
        fate = (_FADED_LOST if self.mark == "rejected" else _FADED) if lost and not self.at else 1.0
        return self.here * min(fate, _UNTESTED if self.mark == "untested" and not self.at else 1.0)


def edge(look: NodeLook, parent: Spot, of: PlacedTree, colours: Colours) -> Iterator[Bend]:
    """From the parent's right side to the node's left one; to the next line, through the gap between the lines."""
    plain, scale = colours.of, of.scale
    strong = mix(colours.mark(look.mark), plain.ground, look.here)
    stroke = strong if look.won else mix(plain.soft, plain.ground, 0.42 * look.here)
    wide = (3.4 if look.won else 1.6) * scale
    start, end = (parent.x + parent.w, parent.y), (look.spot.x, look.spot.y)
    if look.spot.line == parent.line:
        bend = max(14 * scale, abs(end[0] - start[0]) * 0.55)
        yield Bend((start, (start[0] + bend, start[1]), (end[0] - bend, end[1]), end), stroke, wide)
        return
    turn, middle = 22 * scale, (start[1] + end[1]) / 2
    right, left = (start[0], middle), (end[0], middle)
    yield Bend((start, (start[0] + turn, start[1]), (start[0] + turn, middle), right), stroke, wide)
    yield Bend((right, right, left, left), stroke, wide)
    yield Bend((left, (end[0] - turn, middle), (end[0] - turn, end[1]), end), stroke, wide)


def card(look: NodeLook, of: PlacedTree, colours: Colours) -> Iterator[Shape]:
    """Everything of one node."""
    plain, scale, dense = colours.of, of.scale, of.form.dense
    spot, mark = look.spot, look.mark
    own = colours.mark(mark)
    high = (40 if look.id == ROOT and not dense else of.form.high) * scale

    def dim(colour: str) -> str:
        return mix(colour, plain.ground, look.clear)

    top = spot.y - high / 2
    if look.at and look.id != ROOT:
        ring = 4 * scale
        box = Box(spot.x - ring, top - ring, spot.w + 2 * ring, high + 2 * ring, 14 * scale, None, None)
        yield Box(box.x, box.y, box.w, box.h, box.r, None, mix(own, plain.ground, 0.42 * look.here), 2.5 * scale)
    fill, stroke, wide, dash = _frame(look, own, colours)
    radius = (7 if dense else 11) * scale
    yield Box(spot.x, top, spot.w, high, radius, dim(fill), dim(stroke), wide * scale, dash and _times(dash, scale))
    yield from _name(look, of, own, high, dim, colours)
    if look.id != ROOT:
        for k, name in enumerate(("p",) if look.id == CLOSING else ("q", "p")):
            yield from _bar(name, k, look, of, dim, colours)


def _times(dash: tuple[float, float], scale: float) -> tuple[float, float]:
    return dash[0] * scale, dash[1] * scale


def _frame(look: NodeLook, own: str, colours: Colours) -> tuple[str, str, float, tuple[float, float] | None]:
    """Fill, stroke, its width, its dashes."""
    plain, mark = colours.of, look.mark
    if mark == "root":
        return plain.ink, plain.ink, 1.5, None
    if mark in _WRITTEN:
        return mix(own, plain.panel, 0.28), own, 2.4, None
    if look.won:
        return mix(own, plain.panel, 0.2), own, 2.4, None
    if mark == "rejected":
        return mix(own, plain.panel, 0.09), own, 1.7, (6, 4)
    if mark == "untested":
        return plain.panel, mix(own, plain.panel, 0.6), 1.5, (2, 4)
    return mix(own, plain.panel, 0.09), mix(own, plain.panel, 0.6), 1.5, None


def _name(look: NodeLook, of: PlacedTree, own: str, high: float, dim: Any, colours: Colours) -> Iterator[Shape]:
    """Mark and token, and the word beside them where there is room."""
    plain, scale, form = colours.of, of.scale, of.form
    x, spot = look.spot.x, look.spot
    base = spot.y + (5 if look.id == ROOT else 1.5 if form.dense else -form.high / 2 + 21) * scale
    ink, sign = (plain.ground, plain.ground) if look.mark == "root" else (plain.ink, own)
    yield TextLine(
        x + 10 * scale, base, (Piece(colours.glyph(look.mark), dim(sign), True),), (12 if form.dense else 15) * scale
    )
    struck = dim(own) if look.mark == "rejected" else None
    word = Piece(look.word, dim(ink), look.won, struck=struck)
    yield TextLine(x + (25 if form.dense else 29) * scale, base, (word,), form.size * scale, True)
    note = str(look.state.get("note") or "")
    taken = measure.width(look.word, form.size, True) + measure.width(note, 11) + 44
    if note and not form.dense and taken * scale < spot.w:
        yield TextLine(x + spot.w - 9 * scale, base, (Piece(note, dim(plain.soft)),), 11 * scale, anchor="end")


def _bar(name: str, k: int, look: NodeLook, of: PlacedTree, dim: Any, colours: Colours) -> Iterator[Shape]:
    plain, scale, form, spot = colours.of, of.scale, of.form, look.spot
    left, right, tall = (8, 8, 2.5) if form.dense else (24, 44, 6)
    rows = (form.high / 2 - 8, form.high / 2 - 4.5) if form.dense else (form.high / 2 - 31, form.high / 2 - 16)
    y, x = spot.y + rows[k] * scale, spot.x + left * scale
    wide = spot.w - (left + right) * scale
    share = look.state.get(f"{name}b")
    faint = 0.16 if share is not None else 0.06
    yield Box(x, y, wide, tall * scale, tall * scale / 2, dim(mix(plain.soft, plain.panel, faint)))
    if share:
        colour = colours.mark("recovered" if name == "q" else "accepted")
        yield Box(x, y, max(tall * scale, wide * min(1.0, share)), tall * scale, tall * scale / 2, dim(colour))
    if not form.dense:
        text = str(look.state.get(name) or "")
        yield TextLine(spot.x + 11 * scale, y + 7 * scale, (Piece(name, dim(plain.soft)),), 11 * scale)
        yield TextLine(
            spot.x + spot.w - 9 * scale, y + 7 * scale, (Piece(text, dim(plain.soft)),), 11 * scale, anchor="end"
        )
