"""The run on screen beside recordings: which ones, and reading them."""

from itertools import islice
from pathlib import Path

from specviz.errors import SpecvizError
from specviz.events import Prefill
from specviz.runlog.fold import Run, fold
from specviz.sources.bundled import bundled_traces, trace_name, traces_in
from specviz.trace import Trace, read_events
from specviz_tui.common.actions import Actions
from specviz_tui.common.keymap import Key
from specviz_tui.compare.screen import ChooseRuns, CompareScreen

LONGEST = 16 << 20  # bytes of a recording that is read while one waits
_NEAR = 20  # records before the first prompt


class CompareActions(Actions):
    """The key that begins a comparison."""

    order = 52
    KEYS = (Key("compare", "C", "compare", "C", "this run beside one to three recordings", "Run", "compare", 15),)

    def action_compare(self) -> None:
        """Ask with what; recordings of the working folder first, since those are one's own."""
        if not self.player.run.rounds:
            self.controller.notify("no round yet to compare")
            return
        run = self.player.run
        prefill = run.queries[0].prefill if run.queries else None
        mine = None if prefill is None else prefill.text
        runs = [(path, "in this folder") for path in traces_in(Path.cwd())]
        runs += [(path, "bundled") for path in bundled_traces().values()]
        lines = []
        for path, where in runs:
            name = trace_name(path)
            if name != self.feed.name:
                same = mine is not None and first_prompt(path) == mine
                lines.append((str(path), name, f"{where} · the same prompt" if same else where))
        lines.sort(key=lambda line: not line[2].endswith("prompt"))
        self.controller.push(ChooseRuns(self.feed.name, lines), self._compare)

    def _compare(self, chosen: list[str]) -> None:
        try:
            runs = [(self.feed.name, self.player.run), *((trace_name(path), _read(path)) for path in chosen)]
            self.controller.push(CompareScreen(runs))
        except SpecvizError as error:
            self.controller.notify(str(error), severity="warning", timeout=10)


def _read(path: str) -> Run:
    """A recording, whole. Raises SpecvizError for one that is too long to wait for."""
    size = Path(path).stat().st_size
    if size > LONGEST:
        raise SpecvizError(f"{path} has {size / 1e6:,.0f} MB, too much to wait for; 'specviz compare' reads it")
    return fold(read_events(path))


def first_prompt(path: Path) -> str | None:
    """The text of the first prompt of a recording, which stands near its beginning; None where there is none."""
    try:
        with Trace(path) as trace:
            prefills = (event for event in islice(trace.read(), _NEAR) if isinstance(event, Prefill))
            first = next(prefills, None)
    except SpecvizError:
        return None
    return None if first is None else first.text
