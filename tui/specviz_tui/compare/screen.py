"""Two to four runs side by side: the one on screen and recordings chosen beside it, aligned by what they wrote."""

from pathlib import Path

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen, Screen
from textual.widgets import Label, SelectionList, Static
from textual.widgets.selection_list import Selection

from specviz.errors import SpecvizError
from specviz.runlog.fold import Run, fold
from specviz.sources.bundled import bundled_traces, trace_name, traces_in
from specviz.text import running
from specviz.trace import read_events
from specviz.view.compare.build import SideBySide, comparison
from specviz_tui.common.paint import FAINT, STRONG, painter_of
from specviz_tui.compare import views
from specviz_tui.screens.run_screen import RunScreen

MOST = 4  # runs that can be read below each other
LONGEST = 16 << 20  # bytes of a recording that is read while one waits
KEYS = "← → position · ! next difference · ; next agreement · [ ] prompt · esc back"
HINT = "space chooses, one to three · enter compares · esc back"


class ChooseRuns(ModalScreen[list[str] | None]):
    """Answers the chosen recordings, or None."""

    BINDINGS = [
        Binding("escape,q", "cancel", "back", show=False),
        Binding("enter", "done", "compare", show=False, priority=True),
    ]

    def __init__(self, name: str, found: list[tuple[str, str, str]]) -> None:
        super().__init__()
        self._name, self._found = name, found  # file, name, where it lies

    def compose(self) -> ComposeResult:
        """The list, in the order of the library."""
        with Vertical(classes="dialog -list -wide"):
            yield Label(f"Compare {self._name} with", markup=False, classes="dialog-title")
            yield SelectionList[str](
                *(
                    Selection(Text(running(name)).append(f"   {where}", style=FAINT), path)
                    for path, name, where in self._found
                )
            )
            yield Static(HINT, markup=False, id="hint", classes="dialog-hint")

    def action_done(self) -> None:
        """What is chosen; with nothing chosen the line under the cursor."""
        box = self.query_one(SelectionList)
        chosen = list(box.selected)
        if not chosen and box.highlighted is not None:
            chosen = [box.get_option_at_index(box.highlighted).value]
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
        self._found: SideBySide = comparison(runs)
        self._at = self._first_place()

    def _first_place(self) -> int:
        """Where they part; else the beginning."""
        return self._found.text.n_same if self._found.text.parted else 0

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
        found = self._found
        prompts = f"   prompt {found.prompt + 1} of {found.n_prompts}" if found.n_prompts > 1 else ""
        title = " · ".join(f"{lane.letter} {lane.name}" for lane in found.text.lanes)
        self.query_one("#compare-head", Static).update(Text(f" Compare  {title}{prompts}", style=STRONG, no_wrap=True))
        cells = max(40, self.size.width - 2)
        self.query_one("#compared", Static).update(views.whole(found, self._at, cells, painter_of(self.app)))

    def action_move(self, by: int) -> None:
        self.action_to(max(0, self._at + by))

    def action_to(self, place: int) -> None:
        """To a position; -1 is the last."""
        last = max(0, self._found.text.n_positions - 1)
        self._at = last if place < 0 else min(place, last)
        self._paint()

    def action_next(self, by: int, differing: bool) -> None:
        """The next position where the runs differ, or agree."""
        place = views.next_place(self._found.text, self._at, by, differing)
        if place is None:
            self.notify(f"no {'difference' if differing else 'agreement'} after this position", markup=False)
        else:
            self.action_to(place)

    def action_prompt(self, by: int) -> None:
        """Another prompt that all runs share."""
        if self._found.n_prompts > 1:
            self._found = comparison(self._runs, (self._found.prompt + by) % self._found.n_prompts)
            self._at = self._first_place()
            self._paint()

    def action_leave(self) -> None:
        self.dismiss(None)


class CompareActions(RunScreen):
    """The key that begins a comparison."""

    def action_compare(self) -> None:
        """Ask with what; recordings of the working folder first, since those are one's own."""
        if not self.feed.player.run.rounds:
            self.notify("no round yet to compare", markup=False)
            return
        here = [(str(path), trace_name(path), "in this folder") for path in traces_in(Path.cwd())]
        bundled = [(str(path), name, "comes along") for name, path in bundled_traces().items()]
        found = [each for each in here + bundled if each[1] != self.feed.name]
        self.app.push_screen(ChooseRuns(self.feed.name, found), self._compare)

    def _compare(self, chosen: list[str] | None) -> None:
        if chosen is None:
            return
        try:
            runs = [(self.feed.name, self.feed.player.run), *((trace_name(path), _read(path)) for path in chosen)]
            self.app.push_screen(CompareScreen(runs))
        except SpecvizError as error:
            self.notify(str(error), severity="warning", timeout=10, markup=False)


def _read(path: str) -> Run:
    """A recording, whole. Raises SpecvizError for one that is too long to wait for."""
    size = Path(path).stat().st_size
    if size > LONGEST:
        raise SpecvizError(f"{path} has {size / 1e6:,.0f} MB, too much to wait for; 'specviz compare' reads it")
    return fold(read_events(path))
