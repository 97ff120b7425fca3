"""`Row`: a line of the tree canvas, as pieces of text with the spots of nodes that a click can hit."""

from dataclasses import dataclass, field

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from specviz.view.frame.frame import TreeNode
from specviz_tui.common.paint import FAINT, PLAIN

Piece = tuple[str, Style]


@dataclass(slots=True)
class Row:
    """One line: pieces left to right, `(x0, x1, node)` spots, and the spot of the cursor."""

    pieces: list[Piece] = field(default_factory=list)
    spots: list[tuple[int, int, int]] = field(default_factory=list)
    cursor: tuple[int, int] | None = None
    cells: int = 0
    pinned: bool = False  # it does not scroll sideways

    def add(self, text: str, style: Style = PLAIN) -> None:
        if text:
            self.pieces.append((text, style))
            self.cells += cell_len(text)

    def to(self, x: int, fill: str = " ", style: Style = PLAIN) -> None:
        """Fill up to a column."""
        self.add(fill * (x - self.cells), style)

    def spot(self, x0: int, node: TreeNode) -> None:
        """Mark what was added since `x0` as the node's."""
        self.spots.append((x0, self.cells, node.id))
        if node.cursor:
            self.cursor = (x0, self.cells)


def cut_to(strip: Strip, width: int, base: Style) -> Strip:
    """A line in so many cells; where words do not fit, `…` stands at its end."""
    if not strip.crop(width).text.strip():
        return strip.crop_extend(0, width, base)
    return Strip.join([strip.crop(0, width - 1), Strip([Segment("…", base + FAINT)])])
