"""Where the nodes of a round stand in a picture: large while they fit, close together where there are many, and a long
chain in several lines, as text is. Of a tree with very many rows those are left out that nothing happened in.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from specviz.view.picture import measure
from specviz.view.stage.parts import StageNode, StageRound
from specviz.view.words.palette import ROOT

States = Mapping[int, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Form:
    """How nodes are drawn. `row`: from one row to the next; `high`: of a card; `least` wide, `letters` at most."""

    row: float
    high: float
    gap: float
    size: float
    least: float
    letters: int
    beside: float  # of a card, what is no text
    dense: bool = False


ROOMY = Form(82, 64, 26, 15.5, 94, 16, 46)
DENSE = Form(38, 32, 22, 13, 50, 13, 36, True)
_WIDEST = 80.0  # between columns that have room
_SMALLEST = 0.8  # of its size: a chain that would be smaller is broken into lines
_LINES = 3  # rows up to which it is
_LARGE_ROWS = 6  # that large nodes may have
_MOST_ROWS = 16
_TALL, _ROWS_APART = 400.0, 46.0  # rows of close nodes have that height together, and are that far apart at most
_QUIET = ("untested", "pruned", "drafted")


@dataclass(frozen=True, slots=True)
class Spot:
    """Left edge, middle, width."""

    x: float
    y: float
    w: float
    line: int = 0


@dataclass(frozen=True, slots=True)
class PlacedTree:
    """Every node that is drawn. `scale`: of the form's lengths; `n_left_out` nodes are not drawn."""

    form: Form
    scale: float
    spots: Mapping[int, Spot]
    words: Mapping[int, str]
    height: float
    n_left_out: int = 0

    @property
    def high(self) -> float:
        return self.form.high * self.scale


def layout(page: StageRound, ended: States, wide: float) -> PlacedTree:
    """`ended`: what is known of the nodes at the end of the round. `wide`: pixels there are."""
    rows = _rows(page, ended)
    nodes = [node for node in page.nodes if node.row in rows]
    left_out = len(page.nodes) - len(nodes)
    if len(rows) <= _LARGE_ROWS:
        widths = _columns(nodes, page.n_columns, ROOMY)
        fit = (wide + ROOMY.gap) / sum(w + ROOMY.gap for w in widths)
        if fit >= _SMALLEST or len(rows) <= _LINES:
            lines = _broken(widths, wide / _SMALLEST) if fit < _SMALLEST else [list(range(page.n_columns))]
            return _laid(nodes, rows, lines, widths, ROOMY, ROOMY.row, wide, left_out)
    widths = _columns(nodes, page.n_columns, DENSE)
    apart = max(DENSE.row, min(_ROWS_APART, _TALL / len(rows)))
    return _laid(nodes, rows, [list(range(page.n_columns))], widths, DENSE, apart, wide, left_out)


def _columns(nodes: Sequence[StageNode], n: int, form: Form) -> list[float]:
    found = [form.least] * n
    for node in nodes:
        found[node.column] = max(found[node.column], measure.width(_word(node, form), form.size, True) + form.beside)
    return found


def _word(node: StageNode, form: Form) -> str:
    letters = node.shown
    return letters if len(letters) <= form.letters else letters[: form.letters - 1] + measure.ELLIPSIS


def _broken(widths: Sequence[float], wide: float) -> list[list[int]]:
    """Columns in lines, as even as they come."""
    n = 1
    while True:
        most = -(-len(widths) // n)
        lines = [list(range(first, min(first + most, len(widths)))) for first in range(0, len(widths), most)]
        if most == 1 or all(sum(widths[c] + ROOMY.gap for c in line) - ROOMY.gap <= wide for line in lines):
            return lines
        n += 1


def _laid(
    nodes: Sequence[StageNode],
    rows: Mapping[int, int],
    lines: Sequence[Sequence[int]],
    widths: Sequence[float],
    form: Form,
    row: float,
    wide: float,
    left_out: int,
) -> PlacedTree:
    longest = max(sum(widths[c] + form.gap for c in line) - form.gap for line in lines)
    scale = min(1.0, wide / longest)
    spare = (wide / scale - longest) / max(1, max(map(len, lines)) - 1)
    gap = form.gap + max(0.0, min(_WIDEST, spare))
    starts: dict[int, tuple[float, int]] = {}
    for number, line in enumerate(lines):
        x = 0.0
        for column in line:
            starts[column] = x, number
            x += widths[column] + gap
    ends = max(x + widths[c] for c, (x, _) in starts.items())
    left = max(0.0, wide - ends * scale) / 2
    spots = {}
    for node in nodes:
        x, number = starts[node.column]
        y = (number * len(rows) + rows[node.row]) * row + form.high / 2 + 4
        spots[node.id] = Spot(left + x * scale, y * scale, widths[node.column] * scale, number)
    height = ((len(lines) * len(rows) - 1) * row + form.high + 8) * scale
    words = {node.id: _word(node, form) for node in nodes}
    return PlacedTree(form, scale, spots, words, height, left_out)


def _rows(page: StageRound, ended: States) -> dict[int, int]:
    """The rows that are drawn, each with its new place. Nobody stays without those it hangs on."""
    by_id = {node.id: node for node in page.nodes}
    every = sorted({node.row for node in page.nodes})
    if len(every) <= _MOST_ROWS:
        return {row: place for place, row in enumerate(every)}
    kept: set[int] = set()
    for row in sorted(every, key=lambda row: _weight(row, page, ended), reverse=True):
        needed = {row} | {up.row for node in page.nodes if node.row == row for up in _above(node, by_id)}
        if len(kept | needed) <= _MOST_ROWS:
            kept |= needed
    return {row: place for place, row in enumerate(sorted(kept))}


def _above(node: StageNode, by_id: Mapping[int, StageNode]) -> list[StageNode]:
    found = []
    while node.id != ROOT and node.parent in by_id:
        node = by_id[node.parent]
        found.append(node)
    return found


def _weight(row: int, page: StageRound, ended: States) -> tuple[bool, float]:
    """Rows in which something was decided come first, then those that the draft was surest of."""
    nodes = [node.id for node in page.nodes if node.row == row]
    decided = any(ended.get(i, {}).get("mark") not in (*_QUIET, None) for i in nodes)
    return decided, max((ended.get(i, {}).get("qb") or 0.0 for i in nodes), default=0.0)
