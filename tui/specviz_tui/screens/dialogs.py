"""One question, one line: a place to go to, a knob's value, the words of a bookmark.

A list to choose from: traces to open, bookmarks to go to.
"""

from collections.abc import Callable
from dataclasses import dataclass

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Label, OptionList, Static
from textual.widgets.option_list import Option

from specviz.errors import SpecvizError
from specviz_tui.common.paint import FAINT


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
        self.dismiss(None)


@dataclass(frozen=True, slots=True)
class ListChoice:
    """A line of the list; `id` is the answer."""

    id: str
    title: str
    note: str = ""


class PickScreen(ModalScreen[str | None]):
    """Answers the id of the chosen line, or None."""

    BINDINGS = [
        Binding("escape,q", "cancel", "back", show=False),
        Binding("j", "move(1)", "down", show=False),
        Binding("k", "move(-1)", "up", show=False),
    ]

    def __init__(
        self, title: str, choices: list[ListChoice], hint: str, leave: str = "esc back", enters: str = "opens"
    ) -> None:
        super().__init__()
        self._title, self._choices, self._hint = title, choices, f"{hint}enter {enters} · {leave}"

    def compose(self) -> ComposeResult:
        widest = max((len(choice.title) for choice in self._choices), default=0)
        with Vertical(classes="dialog -list"):
            yield Label(self._title, markup=False, classes="dialog-title")
            options = [
                Option(Text(choice.title.ljust(widest + 2)).append(choice.note, style=FAINT), id=choice.id)
                for choice in self._choices
            ]
            yield OptionList(*options, markup=False)
            yield Static(self._hint, markup=False, classes="dialog-hint")

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(event.option_id)

    def action_move(self, step: int) -> None:
        box = self.query_one(OptionList)
        (box.action_cursor_down if step > 0 else box.action_cursor_up)()

    def action_cancel(self) -> None:
        self.dismiss(None)
