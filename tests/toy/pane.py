"""The pane: the panel in the terminal, under a key of its own."""

from rich.text import Text
from textual.app import ComposeResult

from specviz_tui.common import pane
from specviz_tui.common.keymap import Key
from specviz_tui.common.paint import Painter
from toy.panel import Guesses, GuessOptions, GuessPanel


class GuessPane(pane.PanelPane[GuessOptions, Guesses]):
    """A line a round."""

    PANEL = GuessPanel
    OPEN = pane.opens("screen.guess", "9", GuessPanel, "Guess: what was thought beforehand")
    KEYS = (Key("guess.loud", "l", "loud", "l", "say it louder", "Guess", "loud"),)
    PAGES = {"guess": ("Guess", "A toy. It guesses how much of a draft will be kept.")}

    def parts(self) -> ComposeResult:
        yield self.box(lines, "Guessed and kept")

    def action_loud(self) -> None:
        self.choose(loud=True)


def lines(found: Guesses, painter: Painter, cells: int) -> Text:
    return Text("\n".join(f"guessed {n}, kept {kept}{'!' * found.loud}" for n, kept in found.pairs))
