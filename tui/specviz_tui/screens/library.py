"""What can be opened: models found on this machine, bundled traces and those in the working folder."""

import contextlib
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from specviz.commands import Start
from specviz.errors import SpecvizError
from specviz.local_models.choices import ModelChoice, target_choices
from specviz.local_models.found import LocalModel, local_models
from specviz.runlog.fold import fold
from specviz.sources import NoSource, Source, TraceFile, Worker
from specviz.sources.big_trace import recording
from specviz.sources.bundled import FIRST, bundled_traces, trace_name, traces_in
from specviz.sources.model_names import ModelNames
from specviz.sources.worker import unused
from specviz.view import Player
from specviz_tui.common.feed import RunFeed
from specviz_tui.screens.dialogs import ListChoice

LIVE = "live"
MODEL, FETCH = "model:", "fetch:"  # begin the ids of choices that are no file
BETWEEN = "\0"  # target and draft model
NO_ENGINE = "decoding needs the engine: pip install 'specviz-llm[engine]'"


@dataclass(frozen=True, slots=True)
class WorkerStart:
    """How to start a worker: its arguments, where to record, and what to decode first (None: ask).

    `redact`: what is recorded, now or later, holds no text. `begin`: makes the core, as `Worker` does.
    """

    argv: tuple[str, ...] = ()
    record: Path | None = None
    start: Start | None = None
    template: Start | None = None  # method and knobs for the dialog when there is no prompt
    paced: bool = True  # held to the view, so that every round is seen
    redact: bool = False
    begin: Callable[..., Source] = Worker


@dataclass(frozen=True, slots=True)
class Library:
    """Makes feeds. `animate` and `ascii` are the same for all of them. `look`: finds the models on this machine."""

    animate: bool = True
    ascii: bool = False
    core: WorkerStart = field(default_factory=WorkerStart)
    look: Callable[[], list[LocalModel]] = local_models
    _recorded: list[str] = field(default_factory=list)  # cores started before

    def empty(self) -> RunFeed:
        return self._feed(NoSource("nothing is open; o opens a model or a trace"), "")

    def trace(self, path: Path | str) -> RunFeed:
        """A recorded run, read as far as it goes. Raises TraceError."""
        feed = self._feed(recording(path), trace_name(path))
        try:
            feed.read()
        except SpecvizError:
            feed.close()
            raise
        return feed

    def live(self) -> RunFeed:
        """The core of the command line; its prompt is handed over as soon as the models are there. SpecvizError."""
        begins = self.core.start
        prelude = self._prelude() if begins is not None else None  # without a prompt it is asked for
        feed = self._core_feed(ModelNames.of(self.core.argv), prelude)
        if begins is None:
            return feed
        if feed.names.target and begins.chat is not False:
            feed.say(begins.prompt, begins)
        else:
            feed.start(begins)
        return feed

    def model(self, names: ModelNames) -> RunFeed:
        """A core with other models; everything else as on the command line. Raises SpecvizError."""
        return self._core_feed(names, None)

    def _core_feed(self, names: ModelNames, prelude: Player | None) -> RunFeed:
        record = self.core.record
        if record is not None and self._recorded:
            record = unused(record)  # that of the core before stays
        worker = self.core.begin(names.among(self.core.argv), record, redact=self.core.redact)
        self._recorded.append(LIVE)
        feed = self._feed(worker, LIVE, paced=self.core.paced, prelude=prelude)
        feed.template, feed.redact, feed.names = self.core.template, self.core.redact, names
        return feed

    def _prelude(self) -> Player | None:
        """What plays while the models load; nothing when it is not there or not readable."""
        path = bundled_traces().get(FIRST)
        if path is None:
            return None
        try:
            with contextlib.closing(TraceFile(path)) as recording:
                return Player(fold(recording.poll()), self.animate)
        except SpecvizError:
            return None

    def open(self, choice: str) -> RunFeed:
        """What was chosen. Raises SpecvizError."""
        if choice.startswith(MODEL):
            return self.model(ModelNames(*choice.removeprefix(MODEL).split(BETWEEN)))
        return self.trace(choice)

    def choices(self, found: Sequence[LocalModel] | None) -> list[ListChoice]:
        """Models first, then bundled traces, then those of the working folder. `found` None: still looked for."""
        lines = [ListChoice("", "Talk to a model, or decode with it", heading=True)]
        if find_spec("torch") is None or find_spec("transformers") is None:
            lines.append(ListChoice("", NO_ENGINE, heading=True))
        elif found is None:
            lines.append(ListChoice("", "looking for models on this machine …", heading=True))
        else:
            lines += [_of(choice, found) for choice in target_choices(found)]
        lines.append(ListChoice("", "Watch a recording", heading=True))
        lines += [ListChoice(str(path), name, "bundled") for name, path in bundled_traces().items()]
        here = traces_in(Path.cwd())
        return lines + [ListChoice(str(path), trace_name(path), "in this folder") for path in here]

    def _feed(self, source: Source, name: str, *, paced: bool = False, prelude: Player | None = None) -> RunFeed:
        return RunFeed(source, name, animate=self.animate, ascii=self.ascii, paced=paced, prelude=prelude)


def model_id(names: ModelNames) -> str:
    """The choice of a pair."""
    return MODEL + BETWEEN.join((names.target, names.draft))


def _of(choice: ModelChoice, found: Sequence[LocalModel]) -> ListChoice:
    """A model that can be started, one that can be fetched, or one that says why it can be neither."""
    if choice.able:
        return ListChoice(model_id(ModelNames.proposed(choice.name, found)), choice.label, choice.what)
    if choice.command:
        return ListChoice(FETCH + choice.name, choice.label, f"enter fetches it: {choice.command}")
    return ListChoice(MODEL + choice.name, choice.label, choice.problem, able=False)


def fetching(name: str) -> tuple[str, ...]:
    """The command that fetches a known model."""
    return (sys.executable, "-m", "specviz", "models", "get", name)
