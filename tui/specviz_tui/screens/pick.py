"""A list to choose from: traces to open, bookmarks to go to."""

from dataclasses import dataclass

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Label, OptionList, Static
from textual.widgets.option_list import Option

from specviz_tui.common.paint import FAINT


@dataclass(frozen=True, slots=True)
class Choice:
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

    def __init__(self, title: str, choices: list[Choice], hint: str, leave: str = "esc back", enters: str = "opens"
    ) -> None:  # fmt: skip
        super().__init__()
        self._title, self._choices, self._hint = title, choices, f"{hint}enter {enters} · {leave}"

    def compose(self) -> ComposeResult:
        """Title, list, hint."""
        widest = max((len(choice.title) for choice in self._choices), default=0)
        with Vertical(classes="dialog -list"):
            yield Label(self._title, markup=False, classes="dialog-title")
            options = [Option(_line(choice, widest), id=choice.id) for choice in self._choices]
            yield OptionList(*options, markup=False)
            yield Static(self._hint, markup=False, classes="dialog-hint")

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Answer."""
        self.dismiss(event.option_id)

    def action_move(self, step: int) -> None:
        """A line down or up."""
        box = self.query_one(OptionList)
        (box.action_cursor_down if step > 0 else box.action_cursor_up)()

    def action_cancel(self) -> None:
        """Nothing chosen."""
        self.dismiss(None)


def _line(choice: Choice, widest: int) -> Text:
    return Text(choice.title.ljust(widest + 2)).append(choice.note, style=FAINT)
