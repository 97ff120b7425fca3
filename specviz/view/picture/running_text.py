"""The text of the run up to a moment: the end of the prompt, and the last lines of what was written, every token in
the colour of how it came about.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from specviz.view.picture import measure
from specviz.view.picture.look import Colours, mix
from specviz.view.picture.shapes import Piece, TextLine
from specviz.view.stage.parts import StageHead, StageMoment, StageQuery, StageRound
from specviz.view.words.palette import Phase

SIZE, APART, SMALL = 16.0, 25.0, 13.5  # pixels of letters, from line to line; letters of the prompt
_PROMPT, _TOKENS = 400, 160  # letters and tokens that are looked at: more than lines can hold
_SURE = 0.965  # of a line: small letters are painted in whole pixels, up to a thirtieth wider than they are
_WORDS = re.compile(r"\n|[^\S\n]*[^\s]+|[^\S\n]+")


def pieces(
    head: StageHead, page: StageRound, moment: StageMoment, state: Mapping[int, Mapping[str, Any]], colours: Colours
) -> list[Piece]:
    """Committed text, and what is on the table at this moment."""
    query = query_of(head, page.index)
    written = moment.phase == Phase.COMMIT
    rounds = head.points[query.first : page.index + written]
    tokens = [
        (text, mark, n == len(rounds) - 1 and written) for n, p in enumerate(rounds) for text, mark, _ in p.tokens
    ]
    plain = colours.of
    found = []
    for text, mark, new in tokens[-_TOKENS:]:
        strong = new or mark in ("recovered", "bonus")
        found.append(Piece(text, colours.letters(mark), strong, mix(colours.mark(mark), plain.wash, 0.5)))
    texts = {node.id: node.text for node in page.nodes}
    for node in () if written else moment.maybe:
        mark = str(state.get(node, {}).get("mark", "drafted"))
        struck = colours.mark(mark) if mark == "rejected" else None
        found.append(Piece(texts.get(node, ""), mix(colours.letters(mark), plain.wash, 0.85), struck=struck))
    return [piece for piece in found if piece.text]


def prompt(head: StageHead, page: StageRound, wide: float, colours: Colours) -> Piece:
    """The prompt on one line; of a long one its end, which the text goes on from."""
    whole = query_of(head, page.index).prompt.replace("\n", "").strip()
    text = whole[-_PROMPT:]
    while measure.width(measure.ELLIPSIS + text, SMALL) > wide:
        text = text[1:]
    return Piece(text if text == whole else measure.ELLIPSIS + text, colours.of.soft)


def query_of(head: StageHead, index: int) -> StageQuery:
    """The prompt that a round goes on from."""
    return [query for query in head.queries if query.first <= index][-1]


def lines(found: Sequence[Piece], x: float, y: float, wide: float, most: int) -> list[TextLine]:
    """The last so many lines, the first of them at `y`."""
    laid = _laid(found, wide * _SURE)[-most:]
    return [TextLine(x, y + n * APART, tuple(row), SIZE) for n, row in enumerate(laid)]


def _laid(found: Sequence[Piece], wide: float) -> list[list[Piece]]:
    rows: list[list[Piece]] = [[]]
    at = 0.0
    for piece in _apart(found, wide):
        if piece.text == "\n":
            rows.append([])
            at = 0.0
            continue
        long = measure.width(piece.text, SIZE, bold=piece.bold)
        if rows[-1] and at + long > wide:
            rows.append([])
            at = 0.0
            piece = replace(piece, text=piece.text.lstrip())
        rows[-1].append(piece)
        at += long
    return [row for row in rows if row] or [[]]


def _apart(found: Sequence[Piece], wide: float) -> Iterator[Piece]:
    """Words, each with the space before it; line ends by themselves. What no line can hold is clipped."""
    for piece in found:
        for word in _WORDS.findall(piece.text):
            text = word if word == "\n" else measure.clipped(word, wide, SIZE, bold=piece.bold)
            yield replace(piece, text=text)
