"""The text so far: committed tokens by kind, then what this round has on the table. Shows the end that fits."""

from functools import lru_cache

from rich.cells import cell_len
from rich.style import Style
from rich.text import Text
from textual import events
from textual.reactive import reactive

from specviz.runlog.run import TextToken
from specviz.view.frame.frame import Frame
from specviz.view.words import palette
from specviz_tui.common.frame_widget import FrameWidget, NodePicked, SeekAsked
from specviz_tui.common.paint import FAINT, Painter, spread

MODES = ("text", "tokens", "ids")
BREAK = " │ "
MOST_IDS = 1_000  # of a prompt: more than any screen shows


class TextStrip(FrameWidget, can_focus=True):
    """`t` goes through words, raw tokens and ids. A click on a token selects its node or goes to its round."""

    EXPLAIN = "text"
    mode: reactive[str] = reactive("text")
    _counted = ""

    def part(self, frame: Frame) -> object:
        return frame.strip, frame.selected

    def watch_mode(self, mode: str) -> None:
        """The title says which form is shown."""
        self.border_title = "Text" if mode == "text" else f"Text · {mode}"

    def show(self, frame: Frame | None) -> None:
        if frame is not None and frame.strip.summary != self._counted:
            self._counted = self.border_subtitle = frame.strip.summary
        self.refresh()

    def render(self) -> Text:
        """As many of the last tokens as fit, wrapped by cells."""
        width, lines = self.content_size.width, max(self.content_size.height, 1)
        if self.frame is None or width < 4:
            return Text("")
        summary = Text(f"  {self.frame.strip.summary} ", style=FAINT) if lines == 1 and not self._bordered else Text("")
        cells = width - summary.cell_len - 1
        shown = _last(_lines(self._tail(cells * lines - lines), cells), lines)
        text = Text("\n").join(Text(" ") + line for line in shown)
        return spread(text, summary, width) if summary else text

    @property
    def _bordered(self) -> bool:
        return self.styles.border_top[0] not in ("", "none")

    def _tail(self, cells: int) -> Text:
        """The last `cells` cells of text, whatever the number of tokens before them."""
        assert self.frame is not None
        kept: list[Text] = []
        selected, painter = self.frame.selected, self.painter
        for token in reversed(self.frame.strip.tokens):
            piece = _piece(token, token.node is not None and token.node == selected, self.mode, painter)
            kept.append(piece)
            cells -= piece.cell_len
            if cells < 0:
                break
        tail = Text(no_wrap=True).join(reversed(kept))
        return _last_cells(tail, tail.cell_len + cells) if cells < 0 else tail

    def on_click(self, event: events.Click) -> None:
        """Select the node behind the token, or go to the round that committed it."""
        meta = event.style.meta
        if self.frame is None or not meta.get("round"):
            return
        if meta["round"] == self.frame.round and meta.get("node") is not None:
            self.post_message(NodePicked(meta["node"]))
            return
        points = self.frame.timeline.points
        at = [p.index for p in points if p.r == meta["round"] and p.q == self.frame.query]
        if at:
            self.post_message(SeekAsked(at[0]))


@lru_cache(4096)
def _piece(token: TextToken, selected: bool, mode: str, painter: Painter) -> Text:
    """A token with its mark. Nobody writes into it: most of them stand in many frames."""
    style = painter.mark(token.mark)
    if token.fresh or selected:
        style += Style(bold=True, underline=selected)
    meta = Style(meta={"node": token.node, "round": token.round})
    piece = Text(BREAK, style=FAINT) if token.breaks else Text("")
    piece.append(_word(token, mode), style=style + meta)
    if token.mark != "prompt":
        piece.append(palette.glyph(token.mark), style=painter.tint(token.mark) + meta)
    return piece


def _word(token: TextToken, mode: str) -> str:
    if mode == "ids":
        ids = (token.ids[-MOST_IDS:] or ("—",)) if token.mark == "prompt" else (token.token,)
        return "".join(f" {id}" for id in ids)
    return token.running if mode == "text" else f" {token.shown}"


def _last_cells(text: Text, cells: int) -> Text:
    plain, start, room = text.plain, len(text.plain), cells - 1
    while start > 0 and (room := room - cell_len(plain[start - 1])) >= 0:
        start -= 1
    return Text("…", style=FAINT).append_text(text[start:])


def _last(lines: list[Text], n: int) -> list[Text]:
    """The last lines; what was left out is marked."""
    if len(lines) <= n:
        return lines
    first, *rest = lines[-n:]
    return [Text("…", style=FAINT).append_text(first[1:]), *rest]


def _lines(text: Text, cells: int) -> list[Text]:
    """The text in lines of `cells` cells, broken at spaces; a word longer than a line is broken where that ends."""
    plain, cuts, used, space = text.plain, [], 0, 0  # `space`: place behind the last one of this line
    for at, char in enumerate(plain):
        if used + cell_len(char) > cells:
            cuts.append(at + 1 if char == " " else space or at)
            used, space = cell_len(plain[cuts[-1] : at]), 0
        used += cell_len(char) if at >= (cuts[-1] if cuts else 0) else 0
        space = at + 1 if char == " " and at >= (cuts[-1] if cuts else 0) else space
    lines = list(text.divide(cuts))
    for line in lines[:-1]:
        line.rstrip()
    return lines
