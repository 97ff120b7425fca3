"""Dialogs: one question on one line, and a list to choose from."""

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
from specviz.text import running
from specviz_tui.common.paint import FAINT, PLAIN, STRONG


@dataclass(frozen=True, slots=True)
class Question:
    """`check` takes what was typed and raises SpecvizError with the reason it will not do; `hints` says what it would
    do while it is typed."""

    title: str
    hint: str
    value: str = ""
    check: Callable[[str], object] | None = None
    hints: Callable[[str], str] | None = None


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

    def on_input_changed(self, event: Input.Changed) -> None:
        """Say what this would do; a refusal of what stood there before goes."""
        if self._question.hints is None:
            return
        hint = self.query_one("#hint", Static)
        try:
            hint.update(self._question.hints(event.value))
            hint.remove_class("-refused")
        except SpecvizError as error:
            hint.update(str(error))
            hint.add_class("-refused")

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
    """A line of the list; `id` is the answer. `heading`: stands above others; not `able`: grey, with its reason."""

    id: str
    title: str
    note: str = ""
    heading: bool = False
    able: bool = True

    def option(self, widest: int, indent: str = "", wrap: bool = False, cells: int | None = None) -> Option:
        """As the list shows it, the notes in a column behind the widest title, or in lines of their own.

        `cells`: what does not fit into so many is left out.
        """
        if self.heading:
            return Option(Text(self.title, style=STRONG), disabled=True)  # without its id: nobody can choose it
        if wrap:
            head = Text(running(self.title), style=STRONG)
            return Option(head.append(f"\n{running(self.note)}" if self.note else "", style=PLAIN), self.id)
        title = Text(
            f"{indent}{running(self.title)}".ljust(widest + len(indent) + 2),
            style=PLAIN if self.able else FAINT,
        )
        title.append(running(self.note), style=FAINT)
        if cells is not None:
            title.truncate(cells, overflow="ellipsis")
        return Option(title, self.id)


class PickScreen(ModalScreen[str | None]):
    """Answers the id of the chosen line, or None."""

    BINDINGS = [
        Binding("escape,q", "cancel", "back", show=False),
        Binding("j", "move(1)", "down", show=False),
        Binding("k", "move(-1)", "up", show=False),
    ]

    def __init__(
        self,
        title: str,
        choices: list[ListChoice],
        hint: str,
        leave: str = "esc back",
        enters: str = "opens",
        wrap: bool = False,
    ) -> None:
        super().__init__()
        self._wrap = wrap  # notes are sentences: in lines of their own, in full
        self._title, self._choices, self._hint = title, choices, f"{hint}enter {enters} · {leave}"

    def compose(self) -> ComposeResult:
        wide = " -wide" if self._wrap or any(choice.heading for choice in self._choices) else ""
        with Vertical(classes=f"dialog -list{wide}"):
            yield Label(self._title, markup=False, classes="dialog-title")
            yield OptionList(*self.options(), markup=False)
            yield Static(self._hint, markup=False, id="hint", classes="dialog-hint")

    def options(self) -> list[Option]:
        """The lines, indented where there are headings."""
        indent = "  " if any(choice.heading for choice in self._choices) else ""
        widest = max((len(choice.title) for choice in self._choices if not choice.heading), default=0)
        return [choice.option(widest, indent, self._wrap) for choice in self._choices]

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Answer; a line that cannot be chosen says why, and the list stays."""
        chosen = next(choice for choice in self._choices if choice.id == event.option_id)
        if chosen.able:
            self.dismiss(chosen.id)
            return
        hint = self.query_one("#hint", Static)
        hint.update(running(f"{chosen.title} {chosen.note}"))
        hint.add_class("-refused")

    def action_move(self, step: int) -> None:
        box = self.query_one(OptionList)
        (box.action_cursor_down if step > 0 else box.action_cursor_up)()

    def action_cancel(self) -> None:
        self.dismiss(None)
