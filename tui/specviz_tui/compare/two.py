"""A/B: the prompt of the run on screen decoded under two settings, both texts side by side while they are written."""

from typing import Any

from rich.text import Text
from textual.binding import Binding

from specviz.knobs import KnobSpec
from specviz.numerals import plural
from specviz.runlog.fold import Run
from specviz.sources.two_settings import STOPPED, ABRuns, ABSettings
from specviz.view.compare import Aligned, SideBySide, comparison_of, set_of
from specviz.view.compare.aligned import LETTERS
from specviz.view.compare.texts import NOT_ON_RECORD
from specviz.view.frame.knob_bar import step_of, without_effect
from specviz.view.words.numbers import knob as shown
from specviz_tui.common.feed import RunFeed
from specviz_tui.common.paint import FAINT, STRONG
from specviz_tui.compare.screen import CompareScreen

LOOK_S = 0.2


class TwoScreen(CompareScreen):
    """The comparison of both runs while they come. The main screen behind it reads the core; this one looks at what has
    come, and the cursor follows the newest token."""

    LABEL = "A/B  one prompt, one seed "
    BINDINGS = [Binding("A", "leave", "back", show=False)]

    def __init__(self, feed: RunFeed, asked: ABSettings) -> None:
        """Raises SpecvizError where the core takes no run."""
        self._two = ABRuns(feed, asked)
        self._seen: object = None  # what was compared last: it is compared anew only when something came
        super().__init__([])

    def _compared(self, prompt: int = 0) -> SideBySide | None:
        named = zip(self._two.asked.labels, self._two.runs, strict=False)
        sets = [set_of(label, run) for label, run in named if run.rounds]
        return comparison_of(sets, prompt) if sets else None

    def on_mount(self) -> None:
        """Look again and again; the main screen behind goes on reading."""
        super().on_mount()
        self.set_interval(LOOK_S, self.look)

    def look(self) -> None:
        """See how far it is, and paint that."""
        self._two.look()
        now = [(len(run.rounds), run.end is not None) for run in self._two.runs], self._two.n_done, self._two.problem
        if now != self._seen:
            self._seen, self._found = now, self._compared()
            newest = len(self._found.text.lanes[-1].tokens) - 1 if self._found is not None else 0
            self._at = max(0, newest) if self._two.running else self._first_place()
            self._paint()

    def _head(self) -> str:
        return "   ".join(f"{letter} {label}" for letter, label in zip(LETTERS, self._two.asked.labels, strict=False))

    def _said(self, cells: int) -> list[Text]:
        """What came of it, or how far it is."""
        two, text = self._two, self._found.text if self._found is not None else None
        if two.problem is not None:
            why = "ended before both were done" if two.problem == STOPPED else two.problem
            return [Text(f"A/B: {why}", style=STRONG)]
        if text is None:
            return [Text("the core begins …", style=FAINT)]
        if two.running:
            return [Text(self._progress(text), style=STRONG)]
        return [Text(verdict(text), style=STRONG), *super()._said(cells)]

    def _progress(self, text: Aligned) -> str:
        lane, most = text.lanes[-1], self._two.most
        of = f" of at most {most}" if most else ""
        n = len(text.lanes)
        progress = (
            f"decoding {lane.letter}, {n} of {len(self._two.asked.starts)}: {plural(len(lane.tokens), 'token')}{of}"
        )
        if n < 2:
            return progress
        if text.parted:
            return f"{progress} · they part at token {text.n_same + 1}"
        return f"{progress} · the same so far"

    def action_leave(self) -> None:
        """End what goes on."""
        self._two.cancel()
        super().action_leave()


def verdict(text: Aligned) -> str:
    """`same text: 64 of 64 tokens equal`."""
    if not text.known:
        return NOT_ON_RECORD
    shortest = min(len(lane.tokens) for lane in text.lanes)
    if text.parted:
        return f"the first {text.n_same} of {shortest} tokens are equal, then the texts part"
    return f"same text: {text.n_same} of {text.n_positions} tokens equal"


def example(run: Run) -> str:
    """`gamma=5 temperature=.1`: the first knob of the run that moves along a range a step on, and one more."""
    specs = run.header.knob_specs if run.header is not None else []
    slides = [spec for spec in specs if spec.kind in ("int", "float") and without_effect(spec, run.knobs) is None]
    return " ".join(f"{spec.name}={shown(_next(spec, run.knobs.get(spec.name, spec.default)))}" for spec in slides[:2])


def _next(spec: KnobSpec, value: Any) -> Any:
    step = step_of(spec)
    return value + step if spec.hi is None or value + step <= spec.hi else value - step
