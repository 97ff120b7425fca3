"""One question, one line: a place to go to, a knob's value, the words of a bookmark."""

from collections.abc import Callable
from dataclasses import dataclass

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Label, Static

from specviz.errors import SpecvizError


@dataclass(frozen=True, slots=True)
class Question:
    """`check` takes what was typed and raises SpecvizError with the reason it will not do."""

    title: str
    hint: str
    value: str = ""
    check: Callable[[str], object] | None = None


class AskScreen(ModalScreen[str | None]):
    """Answers the typed text, or None for esc."""

    BINDINGS = [Binding("escape", "cancel", "back", show=False)]

    def __init__(self, question: Question) -> None:
        super().__init__()
        self._question = question

    def compose(self) -> ComposeResult:
        """Title, input, hint; the hint's place also takes the reason of a refusal."""
        with Vertical(classes="dialog"):
            yield Label(self._question.title, markup=False, classes="dialog-title")
            yield Input(self._question.value, id="answer")
            yield Static(self._question.hint, markup=False, id="hint", classes="dialog-hint")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Check, then answer."""
        try:
            if self._question.check is not None:
                self._question.check(event.value)
        except SpecvizError as error:
            hint = self.query_one("#hint", Static)
            hint.update(str(error))
            hint.add_class("-refused")
            return
        self.dismiss(event.value)

    def action_cancel(self) -> None:
        """No answer."""
        self.dismiss(None)
