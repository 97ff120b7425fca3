"""Two to four runs side by side: the one on screen and recordings chosen beside it, aligned by what they wrote."""

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen, Screen
from textual.widgets import Label, OptionList, Static
from textual.widgets.option_list import Option

from specviz.runlog.fold import Run
from specviz.text import running
from specviz.view.compare.build import SideBySide, comparison
from specviz_tui.common.paint import FAINT, PLAIN, STRONG, painter_of, sentence
from specviz_tui.compare import views

MOST = 4  # runs that can be read below each other
KEYS = "← → position · ! next difference · ; next agreement · [ ] prompt · esc back"
HINT = "space chooses, one to three · enter compares · esc back"


class ChooseRuns(ModalScreen[list[str] | None]):
    """Answers the chosen recordings, or None."""

    BINDINGS = [
        Binding("escape,q", "cancel", "back", show=False),
        Binding("space", "choose", "choose", show=False, priority=True),
        Binding("enter", "done", "compare", show=False, priority=True),
        Binding("j", "move(1)", "down", show=False),
        Binding("k", "move(-1)", "up", show=False),
    ]

    def __init__(self, name: str, runs: list[tuple[str, str, str]]) -> None:
        super().__init__()
        self._name, self._found = name, runs  # file, name, what it is
        self._chosen: list[str] = []

    def compose(self) -> ComposeResult:
        """The list; those with the same prompt first."""
        with Vertical(classes="dialog -list -wide"):
            yield Label(f"Compare {self._name} with", markup=False, classes="dialog-title")
            yield OptionList(*(Option(self._line(*run), run[0]) for run in self._found), markup=False)
            yield Static(HINT, markup=False, id="hint", classes="dialog-hint")

    def on_mount(self) -> None:
        self.query_one(OptionList).highlighted = 0 if self._found else None

    def _line(self, path: str, name: str, what: str) -> Text:
        chosen = path in self._chosen
        box = Text("[x] " if chosen else "[ ] ", style=STRONG if chosen else FAINT)
        return box.append(running(name).ljust(22), style=STRONG if chosen else PLAIN).append(f"  {what}", style=FAINT)

    def on_option_list_option_selected(self) -> None:
        """A click chooses as well."""
        self.action_choose()

    def action_choose(self) -> None:
        """The line under the cursor, or no longer."""
        at = self.query_one(OptionList).highlighted
        if at is None:
            return
        path = self._found[at][0]
        self._chosen = [one for one in self._chosen if one != path] if path in self._chosen else [*self._chosen, path]
        self.query_one(OptionList).replace_option_prompt(path, self._line(*self._found[at]))

    def action_move(self, by: int) -> None:
        box = self.query_one(OptionList)
        (box.action_cursor_down if by > 0 else box.action_cursor_up)()

    def action_done(self) -> None:
        """What is chosen; with nothing chosen the line under the cursor."""
        at = self.query_one(OptionList).highlighted
        chosen = self._chosen or ([] if at is None else [self._found[at][0]])
        if 1 <= len(chosen) < MOST:
            self.dismiss(chosen)
            return
        hint = self.query_one("#hint", Static)
        hint.update(f"{len(chosen)} are chosen; {MOST - 1} at most beside the run on screen")
        hint.add_class("-refused")

    def action_cancel(self) -> None:
        self.dismiss(None)


class CompareScreen(Screen[None]):
    """The comparison, at one position of the text."""

    LABEL = "Compare"
    DEFAULT_CSS = """
    CompareScreen #compare-head, CompareScreen #compare-keys { height: 1; width: 1fr; background: $panel; }
    CompareScreen VerticalScroll { height: 1fr; scrollbar-size: 1 1; }
    CompareScreen #compared { height: auto; width: 1fr; }
    """
    BINDINGS = [
        Binding("escape,q,C", "leave", "back", show=False),
        Binding("left,h", "move(-1)", "left", show=False),
        Binding("right,l", "move(1)", "right", show=False),
        Binding("home", "to(0)", "first", show=False),
        Binding("end", "to(-1)", "last", show=False),
        Binding("exclamation_mark", "next(1, True)", "difference", show=False),
        Binding("semicolon", "next(1, False)", "agreement", show=False),
        Binding("right_square_bracket", "prompt(1)", "next prompt", show=False),
        Binding("left_square_bracket", "prompt(-1)", "prompt before", show=False),
    ]

    def __init__(self, runs: list[tuple[str, Run]]) -> None:
        """Raises SpecvizError for runs that cannot be compared."""
        super().__init__()
        self._runs = runs
        self._found: SideBySide | None = self._compared()
        self._at = self._first_place()

    def _compared(self, prompt: int = 0) -> SideBySide | None:
        """What is shown; None: there is nothing yet."""
        return comparison(self._runs, prompt)

    def _first_place(self) -> int:
        """Where they part; else the beginning."""
        return self._found.text.n_same if self._found is not None and self._found.text.parted else 0

    def _head(self) -> str:
        """Which letter is which run."""
        return "" if self._found is None else "   ".join(f"{e.letter} {e.name}" for e in self._found.text.lanes)

    def _said(self, cells: int) -> list[Text]:
        """What comes of it, in a sentence or two."""
        return [] if self._found is None else sentence(self._found.text.words, cells)

    def compose(self) -> ComposeResult:
        """Head, the comparison, keys."""
        yield Static("", id="compare-head", markup=False)
        with VerticalScroll():
            yield Static("", id="compared", markup=False)
        yield Static(Text(f" {KEYS}", style=FAINT), id="compare-keys", markup=False)

    def on_mount(self) -> None:
        self._paint()

    def on_resize(self) -> None:
        self._paint()

    def _paint(self) -> None:
        comparison, cells = self._found, max(40, self.size.width - 2)
        prompts = (
            f"   prompt {comparison.prompt + 1} of {comparison.n_prompts}"
            if comparison and comparison.n_prompts > 1
            else ""
        )
        head = Text(f" {self.LABEL}  {self._head()}{prompts}", style=STRONG, no_wrap=True)
        self.query_one("#compare-head", Static).update(head)
        lines = [Text(" ").append_text(line) for line in self._said(cells - 2)]
        shown = [] if comparison is None else views.whole(comparison, self._at, cells, painter_of(self.app))
        self.query_one("#compared", Static).update(Text("\n").join([*lines, Text(""), *shown]))

    def action_move(self, by: int) -> None:
        self.action_to(max(0, self._at + by))

    def action_to(self, place: int) -> None:
        """To a position; -1 is the last."""
        last = max(0, self._found.text.n_positions - 1) if self._found is not None else 0
        self._at = last if place < 0 else min(place, last)
        self._paint()

    def action_next(self, by: int, differing: bool) -> None:
        """The next position where the runs differ, or agree."""
        place = views.next_place(self._found.text, self._at, by, differing) if self._found is not None else None
        if place is None:
            self.notify(f"no {'difference' if differing else 'agreement'} after this position", markup=False)
        else:
            self.action_to(place)

    def action_prompt(self, by: int) -> None:
        """Another prompt that all runs share."""
        if self._found is not None and self._found.n_prompts > 1:
            self._found = self._compared((self._found.prompt + by) % self._found.n_prompts)
            self._at = self._first_place()
            self._paint()

    def action_leave(self) -> None:
        self.dismiss(None)
