"""The conversation: who said what, oldest first. The newest answer is in the colours of how its tokens came about, and
moves with the round on screen; what this round has on the table stands behind it with the marks of its tests."""

from rich.style import Style
from rich.text import Text
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.widgets import Static

from specviz.runlog.run import TextToken
from specviz.sources.chat_examples import CHAT_EXAMPLES
from specviz.sources.conversation import ChatMessage, Conversation
from specviz.text import NEWLINE, running
from specviz.view.frame.frame import Frame, Strip
from specviz.view.words import palette
from specviz_tui.common.paint import FAINT, STRONG, Painter, painter_of

YOU, MODEL = "you", "model"
EMPTY = "Type a message: m begins it, enter says it; ↑ there brings examples:"
WAITS = " (waits)"
STOPPED = " (stopped)"
COMING = "…"


class TalkView(VerticalScroll, can_focus=True):
    """Follows its end, until somebody scrolls up."""

    def __init__(self, id: str) -> None:
        super().__init__(id=id)
        self._shown: object = None
        self._past: object = None

    def compose(self) -> ComposeResult:
        yield Static("", id="talk-past", markup=False)
        yield Static("", id="talk-now", markup=False)

    def on_mount(self) -> None:
        self.anchor()

    def show(self, talk: Conversation, frame: Frame) -> None:
        """Paint what is new of it; the end stays in sight where it was."""
        painter = painter_of(self.app)
        strip = frame.strip if talk.run and frame.run.run == talk.run else None
        shown = (len(talk.spoken), talk.asked, talk.waiting, strip, painter)
        if shown == self._shown:
            return
        self._shown = shown
        again = strip is not None and talk.asked is None  # the newest answer is painted from its run
        past = talk.spoken[:-2] if again else talk.spoken
        if self._past != (len(past), len(talk.spoken)):
            self._past = (len(past), len(talk.spoken))
            earlier = self.query_one("#talk-past", Static)
            earlier.update(_turns(past))
            earlier.display = bool(past)
        self.query_one("#talk-now", Static).update(_now(talk, strip, painter))
        self.border_subtitle = f"prompt {strip.n_prompt:,} tok with its template · {strip.summary}" if strip else ""


def _turns(spoken: list[ChatMessage]) -> Text:
    return Text("\n").join(
        _turn(YOU if message.role == "user" else message.who or MODEL, Text(_lines(message.text)), message.stopped)
        for message in spoken
    )


def _turn(who: str, text: Text, stopped: bool = False) -> Text:
    line = Text().append(f"{running(who)} ", style=STRONG).append_text(text)
    return line.append(STOPPED, style=FAINT) if stopped else line


def _now(talk: Conversation, strip: Strip | None, painter: Painter) -> Text:
    """The newest question and answer, and what waits."""
    turns = []
    if talk.asked is not None:
        answer = _answer(strip, painter) if strip is not None else Text(COMING, style=FAINT)
        turns += [_turn(YOU, Text(_lines(talk.asked.prompt))), _turn(talk.who or MODEL, answer)]
    elif strip is not None:
        question, reply = talk.spoken[-2:]
        turns += [
            _turn(YOU, Text(_lines(question.text))),
            _turn(reply.who or MODEL, _answer(strip, painter), reply.stopped),
        ]
    if talk.waiting is not None:
        turns.append(_turn(YOU, Text(_lines(talk.waiting.prompt)).append(WAITS, style=FAINT)))
    if turns or talk.spoken:
        return Text("\n").join(turns)
    return Text(f"{EMPTY}\n  {', '.join(CHAT_EXAMPLES)}", style=FAINT)


def _answer(strip: Strip, painter: Painter) -> Text:
    """The text up to the round on screen: committed tokens by colour alone, so that it can be read."""
    return Text("").join(_piece(token, painter) for token in strip.tokens if token.mark != "prompt")


def _piece(token: TextToken, painter: Painter) -> Text:
    if not (token.provisional or token.fresh):
        return Text(_lines(token.running, marked=True), style=painter.tint(token.mark))
    piece = Text(token.running, style=painter.mark(token.mark) + Style(bold=True))
    return piece.append(palette.glyph(token.mark), style=painter.tint(token.mark))


def _lines(text: str, marked: bool = False) -> str:
    """With real line breaks; every line made safe to show (`marked`: it is already, breaks are marks there)."""
    if marked:
        return text.replace(NEWLINE, "\n")
    return "\n".join(running(line) for line in text.split("\n"))
