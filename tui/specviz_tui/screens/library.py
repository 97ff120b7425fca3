"""What can be opened: bundled traces, traces in the working folder, and the core itself when it is installed."""

import contextlib
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from specviz.commands import Start
from specviz.errors import SpecvizError
from specviz.runlog.fold import fold
from specviz.sources import NoSource, Source, TraceFile, Worker
from specviz.sources.bundled import bundled_traces, trace_name, traces_in
from specviz.sources.worker import unused
from specviz.view import Player
from specviz_tui.common.feed import RunFeed
from specviz_tui.screens.dialogs import ListChoice

LIVE = "live"
PRELUDE = (
    "code-draft"  # sampled; its first rounds show both ends: all kept and a bonus, then a rejection and a resample
)


@dataclass(frozen=True, slots=True)
class WorkerStart:
    """How to start a worker: its arguments, where to record, and what to decode first (None: ask).

    `redact`: what is recorded, now or later, holds no text.
    """

    argv: tuple[str, ...] = ()
    record: Path | None = None
    start: Start | None = None
    template: Start | None = None  # method and knobs for the dialog when there is no prompt
    paced: bool = True  # held to the view, so that every round is seen
    redact: bool = False


@dataclass(frozen=True, slots=True)
class Library:
    """Makes feeds. `animate` and `ascii` are the same for all of them."""

    animate: bool = True
    ascii: bool = False
    core: WorkerStart = field(default_factory=WorkerStart)
    _recorded: list[str] = field(default_factory=list)  # cores started before

    def empty(self) -> RunFeed:
        return self._feed(NoSource("nothing is open; o opens a trace"), "")

    def trace(self, path: Path | str) -> RunFeed:
        """A recorded run, read as far as it goes. Raises TraceError."""
        feed = self._feed(TraceFile(path), trace_name(path))
        try:
            feed.read()
        except SpecvizError:
            feed.close()
            raise
        return feed

    def live(self) -> RunFeed:
        """A core of our own; the prompt is handed over at once, the models load meanwhile. Raises SpecvizError."""
        record = self.core.record
        if record is not None and self._recorded:
            record = unused(record)  # that of the core before stays
        worker = Worker(self.core.argv, record, redact=self.core.redact)
        prelude = self._prelude() if self.core.start is not None else None  # without a prompt it is asked for
        feed = self._feed(worker, LIVE, paced=self.core.paced, prelude=prelude)
        self._recorded.append(LIVE)
        feed.template, feed.redact = self.core.template, self.core.redact
        if self.core.start is not None:
            feed.start(self.core.start)
        return feed

    def _prelude(self) -> Player | None:
        """What plays while the models load; nothing when it is not there or not readable."""
        path = bundled_traces().get(PRELUDE)
        if path is None:
            return None
        try:
            with contextlib.closing(TraceFile(path)) as recording:
                return Player(fold(recording.poll()), self.animate)
        except SpecvizError:
            return None

    def open(self, choice: str) -> RunFeed:
        return self.live() if choice == LIVE else self.trace(choice)

    def choices(self) -> list[ListChoice]:
        """Bundled traces first, then those of the working folder, then the core."""
        found = [ListChoice(str(path), name, "bundled") for name, path in bundled_traces().items()]
        found += [ListChoice(str(path), trace_name(path), "in this folder") for path in traces_in(Path.cwd())]
        if find_spec("torch") is not None and find_spec("transformers") is not None:
            found.append(ListChoice(LIVE, "decode live", "loads the models, asks for a prompt"))
        return found

    def _feed(self, source: Source, name: str, *, paced: bool = False, prelude: Player | None = None) -> RunFeed:
        return RunFeed(source, name, animate=self.animate, ascii=self.ascii, paced=paced, prelude=prelude)
