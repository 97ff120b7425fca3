"""The line in which one talks to the model: enter says it, up and down bring back what was said, esc leaves.

It has the focus only while somebody writes: `m` or a click gives it, and what was said takes it away again."""

from textual import events
from textual.widgets import Input

from specviz.sources.chat_examples import CHAT_EXAMPLES
from specviz_tui.common.frame_widget import Left, Pressed, ScreenMessage


class MessageLine(Input):
    """One line at the bottom of the live screen. What is refused stays in it."""

    class Entered(ScreenMessage):
        """Somebody pressed enter."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    def __init__(self, id: str) -> None:
        super().__init__(id=id, compact=True, select_on_focus=False)
        self._said = list(CHAT_EXAMPLES.values())[::-1]  # and what was said, newest last
        self._at = len(self._said)  # among them; their number: what is being typed
        self._draft = ""  # what was being typed when up was pressed

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.post_message(self.Entered(event.value))

    def was_said(self) -> None:
        """The message was taken: keep it to be brought back, and make room for the next one."""
        if self.value and self._said[-1:] != [self.value]:
            self._said.append(self.value)
        self._at, self._draft, self.value = len(self._said), "", ""

    def offer(self, message: str) -> None:
        """A message that came to nothing, unless something else is being typed."""
        if not self.value:
            self.value = message
            self.cursor_position = len(message)

    def on_key(self, event: events.Key) -> None:
        """Keys that an input has no use for."""
        if event.key in ("up", "down"):
            self.action_recall(-1 if event.key == "up" else 1)
        elif event.key == "escape":
            self.action_leave()
        elif event.key == "ctrl+c" and self.selection.is_empty:
            self.post_message(Pressed("interrupt"))
        else:
            return
        event.stop()
        event.prevent_default()

    def action_leave(self) -> None:
        """Back to the keys; what was written stays."""
        self.post_message(Left())

    def action_recall(self, by: int) -> None:
        """The message before the one in the line, or behind it."""
        if self._at == len(self._said):
            self._draft = self.value
        self._at = min(max(self._at + by, 0), len(self._said))
        self.value = self._said[self._at] if self._at < len(self._said) else self._draft
        self.cursor_position = len(self.value)
