"""What can be opened: models on this machine, recordings that come along or lie in the working folder, lessons."""

import contextlib
import sys
from collections.abc import Callable, Mapping, Sequence
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
from specviz.sources.lesson_progress import kept_progress
from specviz.sources.lessons import bundled_lessons, lesson_minutes, lesson_script
from specviz.sources.model_names import ModelNames
from specviz.sources.trace_summary import TraceSummary, trace_summary
from specviz.sources.worker import unused
from specviz.trace import resolve
from specviz.trace.bundled import all_bundled
from specviz.view import Player
from specviz.view.lessons import LessonScript
from specviz_tui.common.feed import RunFeed
from specviz_tui.screens import bring
from specviz_tui.screens.dialogs import ListChoice

LIVE = "live"
MODEL, FETCH, LESSON, SAY = "model:", "fetch:", "lesson:", "say:"  # begin the ids of choices that are no file
BETWEEN = "\0"  # target and draft model; a model and what is said to it
DECODE, WATCH, HAVE, LEARN = "decode", "watch", "have", "learn"  # the doors, as the ids of their headings
_DOORS = {
    DECODE: "Decode: talk to a model, or give it a text to go on with",
    WATCH: "Watch: a recording, step by step or as a film",
    HAVE: "Bring: what you have of vLLM, SGLang or llama.cpp",
    LEARN: f"Learn: {lesson_minutes()} each, on recordings",
}
NO_ENGINE = "decoding needs the engine: pip install 'specviz-llm[engine]'"


@dataclass(frozen=True, slots=True)
class LessonStart:
    """`lesson`: the one to begin with; `teach`: answers stay hidden until a key; `marks`: a file for the answers."""

    lesson: str = ""
    teach: bool = False
    marks: Path | None = None


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
    """Makes feeds. `animate` and `ascii` are the same for all of them. `look`: finds the models on this machine.

    `keys`: the person's own, by the id of their action. `methods`: says of a target by name which methods work with it,
    before anything of it is loaded.
    """

    animate: bool = True
    ascii: bool = False
    core: WorkerStart = field(default_factory=WorkerStart)
    look: Callable[[], list[LocalModel]] = local_models
    keys: Mapping[str, str] = field(default_factory=dict)
    methods: Callable[[str], str] = lambda target: ""
    theme: str = ""  # asked for by name; "": the one that was chosen last
    learning: LessonStart = LessonStart()
    _recorded: list[str] = field(default_factory=list)  # cores started before

    def empty(self) -> RunFeed:
        return self._feed(NoSource("nothing is open; o opens a model or a trace"), "")

    def opening(self) -> RunFeed:
        """What plays while nothing was chosen yet: a recording of a real model, again and again."""
        path = bundled_traces().get(FIRST) or next(iter(bundled_traces().values()), None)
        try:
            feed = self.empty() if path is None else self.trace(path)
        except SpecvizError:
            return self.empty()
        feed.play_again_and_again()
        return feed

    def trace(self, path: Path | str) -> RunFeed:
        """A recorded run, read as far as it goes. Raises TraceError."""
        feed = self._feed(recording(path), trace_name(path))
        feed.path = resolve(path)
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
        """A core with other models; everything else as on the command line. A recording plays while they load. Raises
        SpecvizError."""
        return self._core_feed(names, self._prelude())

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
        if choice.startswith(SAY):
            target, draft, message = choice.removeprefix(SAY).split(BETWEEN, 2)
            feed, first = self.model(ModelNames(target, draft)), Start(prompt=message)
            if target:
                feed.say(message, first)
            else:
                feed.start(first)
            return feed
        if choice.startswith(LESSON):
            return self.trace(all_bundled()[self.lesson(choice).trace])
        if choice.startswith(MODEL):
            return self.model(ModelNames(*choice.removeprefix(MODEL).split(BETWEEN)))
        return self.trace(choice)

    def lesson(self, choice: str) -> LessonScript:
        """The lesson of a choice. Raises SpecvizError."""
        return lesson_script(choice.removeprefix(LESSON))

    def summaries(self) -> dict[str, TraceSummary]:
        """What every recording in the list shows, by its path."""
        paths = [*bundled_traces().values(), *traces_in(Path.cwd())]
        read = {str(path): trace_summary(path) for path in paths}
        return {path: summary for path, summary in read.items() if summary is not None}

    def choices(
        self, models: Sequence[LocalModel] | None, shown: Mapping[str, TraceSummary] | None = None
    ) -> list[ListChoice]:
        """Models, then recordings, then lessons. `models` None: still looked for; `shown`: what recordings show."""
        lines = [ListChoice(DECODE, _DOORS[DECODE], heading=True)]
        if find_spec("torch") is None or find_spec("transformers") is None:
            lines.append(ListChoice("", NO_ENGINE, heading=True))
        elif models is None:
            lines.append(ListChoice("", "looking for models on this machine …", heading=True))
        else:
            lines += [_of(choice, models) for choice in target_choices(models)]
        lines.append(ListChoice(WATCH, _DOORS[WATCH], heading=True))
        summaries = shown or {}
        lines += [_recording(path, name, summaries, "") for name, path in bundled_traces().items()]
        lines += [_recording(path, trace_name(path), summaries, "in this folder") for path in traces_in(Path.cwd())]
        lines += [ListChoice(HAVE, _DOORS[HAVE], heading=True), *bring.choices()]
        return [*lines, *_lessons()]

    def words(self, choice: ListChoice, shown: Mapping[str, TraceSummary]) -> str:
        """The line that follows the cursor: what this choice is, and what enter does."""
        if choice.id.startswith(MODEL):
            target = choice.id.removeprefix(MODEL).partition(BETWEEN)[0]
            able = self.methods(target)
            return f"{choice.title}: {choice.note}" + (f" · {able}" if able else "") + " · enter loads it"
        if choice.id.startswith(LESSON):
            return f"{choice.title}: {choice.note} · enter begins; the screen itself says what to press"
        summary = shown.get(choice.id)
        if summary is None:
            return f"{choice.title} {choice.note}".strip()
        asked = f"“{summary.question}” · " if summary.question else ""
        size = f"{summary.n_rounds} rounds, {summary.n_tokens} tokens · " if summary.n_rounds else ""
        about = f"{summary.about.title}; {summary.about.words} · " if summary.about is not None else ""
        return f"{about}{asked}{summary.model} · {summary.how} · {summary.sampling} · {size}enter opens it"

    def _feed(self, source: Source, name: str, *, paced: bool = False, prelude: Player | None = None) -> RunFeed:
        return RunFeed(source, name, animate=self.animate, ascii=self.ascii, paced=paced, prelude=prelude)


def model_id(names: ModelNames) -> str:
    """The choice of a pair."""
    return MODEL + BETWEEN.join((names.target, names.draft))


def _recording(path: Path, name: str, shown: Mapping[str, TraceSummary], where: str) -> ListChoice:
    """A recording with what it shows: tokens a pass, method, what it is there for or its question."""
    summary = shown.get(str(path))
    if summary is None:
        return ListChoice(str(path), name, where or "a recording")
    shows = summary.about.title if summary.about is not None else f"“{summary.question}”" if summary.question else ""
    parts = (f"{summary.pace:<20}", f"{summary.how:<21}", where, shows)
    return ListChoice(str(path), name, "  ".join(part for part in parts if part.strip()))


def _lessons() -> list[ListChoice]:
    """Every lesson, with what one has done of it."""
    lines, progress = [ListChoice(LEARN, _DOORS[LEARN], heading=True)], kept_progress()
    for id, lesson in bundled_lessons().items():
        result = progress.get(id)
        mark = f"✓ {result.right}/{result.asked}  " if result is not None else ""
        lines.append(
            ListChoice(LESSON + id, f"{lesson.number} {lesson.title}", f"{mark}{lesson.minutes} min · {lesson.about}")
        )
    return lines


def _of(choice: ModelChoice, models: Sequence[LocalModel]) -> ListChoice:
    """A model that can be started, one that can be fetched, or one that says why it can be neither."""
    if choice.able:
        return ListChoice(model_id(ModelNames.proposed(choice.name, models)), choice.label, choice.what)
    if choice.command:
        return ListChoice(FETCH + choice.name, choice.label, f"enter fetches it: {choice.command}")
    return ListChoice(MODEL + choice.name, choice.label, choice.problem, able=False)


def fetching(name: str) -> tuple[str, ...]:
    """The command that fetches a known model."""
    return (sys.executable, "-m", "specviz", "models", "get", name)
