"""`ServedRun`: the one worker of this server, shared by all its browser tabs.

A thread drains the worker into a player and moves it; nobody else touches that player without the lock. Browsers get
finished frames (`look`, `look_at`). A page that explores the run takes seconds to be drawn, which may not hold up the
others: it gets the events (`LiveSource`). Frames may be skipped, events never are. `Settings`: what the command line
decided.
"""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from specviz.commands import AnyCommand, Command, Pause, Resume, SetKnob, Start, StepRounds, Stop
from specviz.errors import MissingExtra, SpecvizError
from specviz.events import Event, Header, MethodInfo
from specviz.local_models.choices import EMBEDDED
from specviz.runlog.fold import Run
from specviz.runlog.spool import EventSpool
from specviz.sources import NoSource, Worker
from specviz.sources.conversation import ChatMessage
from specviz.sources.live_run import IdleWords, LiveRun
from specviz.sources.model_names import ModelNames
from specviz.sources.talking_run import ChatRun, proposed
from specviz.sources.two_settings import two_settings
from specviz.sources.worker import unused
from specviz.view import CLOSING, ROOT, Frame, Options
from specviz.view.frame.parts import KnobItem
from specviz.view.play.player import SPEEDS
from specviz.view.stage.now import next_knobs
from specviz_app.server.ab import ABTest
from specviz_app.server.past import ChatView, FinishedRun

TICK_S = 1 / 30
MOST = 20_000  # events a tab takes at a time
MOST_PAST = 24  # runs that are kept when others follow
MOST_STEPS = 1000  # rounds that one press may ask for
WORDS = IdleWords("the models are not loaded", "ready", "preparing the run; a method may measure its costs first")
_FIRST_STEP = "step 1 of 3, torch and the target"  # the worker's own words come after it
UPLOAD_MB = 64  # most of an uploaded file
INFLATED_MB = 512  # most of what a zipped upload may unpack to


@dataclass(frozen=True, slots=True)
class Settings:
    """`replay`: a trace to show. `argv`: words for the worker (models, device). `start`: what its first run decodes,
    or, without a prompt, what the form proposes. `live`: load the models at once. `command`: another worker, for tests.
    """

    replay: Path | None = None
    argv: tuple[str, ...] = ()
    start: Start | None = None
    live: bool = False
    record: Path | None = None
    redact: bool = False  # what is recorded holds no text
    command: tuple[str, ...] | None = None

    @property
    def models(self) -> ModelNames:
        """The models that the command line named."""
        return ModelNames.of(self.argv)


def lacking(settings: Settings) -> MissingExtra | None:
    """Why nothing can be decoded on this machine; None when it can."""
    if settings.command is not None or (find_spec("torch") and find_spec("transformers")):
        return None
    return MissingExtra("engine", "decoding uses torch and transformers, which are not installed; it")


class SetPace(Command, tag="pace", kw_only=True):
    """How fast the picture goes for all who follow: steps at so many times the usual speed; 0: as fast as the core."""

    speed: float


_asked: "msgspec.json.Decoder[AnyCommand | SetPace]" = msgspec.json.Decoder(AnyCommand | SetPace)


def decode_asked(line: bytes) -> AnyCommand | SetPace:
    """What a page asks. Raises msgspec.ValidationError/DecodeError."""
    return _asked.decode(line)


class ServedRun(ChatRun):
    """Not started until `load`. What is written here may be called from any thread; nothing waits for the worker.

    `past`: runs of this server that others followed, by the names under which they can be looked at.
    """

    def __init__(self, settings: Settings, animate: bool = True) -> None:
        self.settings, self.lock = settings, threading.RLock()
        self.version = 0  # grows whenever there is something new to show
        self.models = ModelNames()
        self.talk_paced = True  # answers at the pace of the eye
        self.past: dict[str, FinishedRun] = {}
        self.waits_since = time.monotonic()  # of what is awaited: models, a run, its first round
        self.trial: ABTest | None = None  # two settings of one prompt, the newest
        super().__init__(NoSource("no core is running: load the models first"), WORDS, animate=animate)
        self.auto = settings.start.auto if settings.start is not None else None

    def load(self, target: str = EMBEDDED, draft: str = EMBEDDED) -> None:
        """Start a worker with these models, in place of another. Raises SpecvizError when none can be started.

        A run in hand ends; what was decoded and said stays.
        """
        with self.lock:
            models = ModelNames(target, draft).said_plainly
            if self.loaded and self.models == models:
                return
            if problem := lacking(self.settings):
                raise problem
            record = self.settings.record
            if record is not None and self.has_core:
                record = unused(record)  # that of the core before stays
            worker = Worker(
                models.among(self.settings.argv), record, command=self.settings.command, redact=self.settings.redact
            )
            self.models, self.refusals, self.waits_since = models, [], time.monotonic()
            before = self.go_on_with(LiveRun(worker, WORDS))
            self.version += 1
            threading.Thread(target=before.close, name="specviz-leaving", daemon=True).start()
            threading.Thread(target=self._drain, args=(worker,), name="specviz-core", daemon=True).start()

    @property
    def loaded(self) -> bool:
        """Whether a worker was started and has not failed."""
        return self.live

    def _drain(self, worker: Worker) -> None:
        while worker is self.source and self.failed is None:
            try:
                with self.lock:
                    self.version += self.tick(time.monotonic())
            except Exception as error:  # whatever it was, the page must say so rather than stand still
                self.failed = f"{type(error).__name__}: {error}"
                self.version += 1
                worker.close()
            time.sleep(TICK_S)

    def ready(self) -> None:
        """The prompt of the command line, once the models are there; a message that waited is said by what can run."""
        start, waiting = self.settings.start, self.talk.waiting
        if waiting is not None and self.catalogue is not None:
            able = proposed(self.catalogue, waiting.method)
            if able != waiting.method:
                known = {spec.name for spec in self._method(able).knobs}
                kept = {name: value for name, value in waiting.knobs.items() if name in known}
                waiting.method, waiting.verifier, waiting.knobs = able, None, kept
        elif start is not None and start.prompt and not self.has_run:
            if start.chat or (start.chat is None and self.talks):
                self.say(start.prompt, start)
            else:
                self.start(start, paced=True)

    def put_by(self, events: EventSpool) -> None:
        """Keep a run that another one follows; the oldest of many go."""
        header = self.run.header
        if header is None or any(past.run == header.run for past in self.past.values()):
            events.close()
            return
        self.past[self._own_name(header)] = FinishedRun(header.run, events)
        self._let_go()

    def keep(self, name: str) -> str:
        """Keep the newest run, which is over, under a name of its own. Raises SpecvizError where there is none."""
        with self.lock:
            header = self.run.header
            if header is None:
                raise SpecvizError("nothing was decoded: there is nothing to keep")
            events = EventSpool()
            for event in self._events.since(0):
                events.append(event)
            self.past[name] = FinishedRun(header.run, events)
            self._let_go()
            self.version += 1
            return name

    def try_both(self) -> ABTest:
        """A/B: the newest run's prompt with what it began with and with what its knobs are now; the run in hand ends.

        Raises SpecvizError where nothing was moved, or such a trial goes on.
        """
        with self.lock:
            if self.trial is not None and self.trial.running:
                raise SpecvizError("one A/B goes on already: it can be cancelled")
            asked = two_settings(self)
            if asked is None:
                raise SpecvizError("no knob stands otherwise than the run began: move one first")
            number = self.trial.number + 1 if self.trial is not None else 1
            self.trial = ABTest(self, asked, number)
            self.version += 1
            return self.trial

    def _let_go(self) -> None:
        """The oldest of many runs go."""
        while len(self.past) > MOST_PAST:
            self.past.pop(next(iter(self.past))).events.close()

    def _own_name(self, header: Header) -> str:
        """What the newest run is called once another one follows it."""
        return f"run {self.generation}, {header.method}"

    def name_of(self, run: str) -> str | None:
        """The name of a run that others followed, or are about to, by its id."""
        with self.lock:
            header = self.run.header
            kept = next((name for name, past in self.past.items() if past.run == run), None)
            newest = header is not None and header.run == run
            return self._own_name(header) if kept is None and newest and header is not None else kept

    def events_of(self, name: str) -> list[Event]:
        """Everything of a run that others followed. Raises SpecvizError when it is gone."""
        with self.lock:
            if name not in self.past:
                raise SpecvizError(f"'{name}' is gone: the {MOST_PAST} newest runs are kept")
            return list(self.past[name].events.since(0))

    def _hand_over(self, start: Start, paced: bool | None) -> None:
        self.waits_since = time.monotonic()
        super()._hand_over(start, self.talk_paced if paced is None else paced)

    @property
    def awaited(self) -> str:
        """What goes on before there is a round to see, in words; "" where nothing does."""
        if not self.live or self.silence:
            return ""
        if self.catalogue is None:
            return f"Loading {self.models.target or 'the models'}: {self.loading or _FIRST_STEP}"
        if self.preparing:
            method = self.started.method if self.started is not None else "the method"
            return f"Preparing the run: {method} may measure its costs first"
        first = self.running and (not self.run.rounds or self.live_player.bare(self.live_player.cursor.index))
        return "The run has begun; its first round is on its way" if first and not self.held else ""

    # The conversation ------------------------------------------------------------------------------------------------

    def ask(self, message: str, like: Start, paced: bool) -> None:
        """Send a message; an answer in hand is ended and stays said. Raises SpecvizError."""
        with self.lock:
            self.talk_paced = paced
            busy = self.running or self.preparing
            self.talk.waiting, self.talk.unsent = None, ""  # of two messages that wait the newer one counts
            self.say(message, like)
            if busy:
                self.stop()
            self.version += 1

    def begin_anew(self) -> None:
        """Forget what was said."""
        with self.lock:
            self.new_conversation()
            self.version += 1

    def dialogue(self) -> "ChatView":
        """The conversation as a page lays it out now."""
        with self.lock:
            talk, header = self.talk, self.run.header
            asked, waiting = talk.asked, talk.waiting
            spoken, lost = tuple(talk.spoken), self.failed is not None
            if asked is not None:
                below = waiting.prompt if waiting is not None else ""
                return ChatView((*spoken, ChatMessage("user", asked.prompt)), below, not talk.run, True, lost)
            if waiting is not None:
                return ChatView((*spoken, ChatMessage("user", waiting.prompt)), "", True, True, lost)
            newest = bool(spoken) and header is not None and spoken[-1].run == header.run
            return ChatView(spoken[:-1] if newest else spoken, "", False, newest, lost)

    # Commands --------------------------------------------------------------------------------------------------------

    def start(self, start: Start, paced: bool | None = False) -> None:
        """Decode a prompt; a run in hand ends first. `paced`: a round at a time, as fast as it can be watched."""
        with self.lock:
            super().start(start, paced)

    def command(self, command: Command) -> None:
        """What a person pressed while a run goes on. Raises SpecvizError for what cannot be asked here."""
        if isinstance(command, Start):
            raise SpecvizError("a run is started from the page, where its method and knobs are chosen")
        if isinstance(command, StepRounds) and not 1 <= command.n <= MOST_STEPS:
            raise SpecvizError(f"step takes 1 to {MOST_STEPS:,} rounds, not {command.n:,}; 'resume' goes on to the end")
        with self.lock:
            self.refusals = []  # they were about what was asked before
            if isinstance(command, SetPace):
                self._watch(command.speed)
            elif isinstance(command, SetKnob):
                self.set_knobs({command.name: command.value})
            elif isinstance(command, Pause | Resume):
                self.hold(isinstance(command, Pause))
                if not self.paced:
                    self.live_player.live()
                elif self.held:
                    self.live_player.pause()  # the picture waits as well
                else:
                    self.live_player.following = True
            elif isinstance(command, StepRounds):
                self.live_player.live()
                self.step(command.n)
            elif isinstance(command, Stop):
                self.live_player.live()
                self.paced = self.live_player.every = False  # the picture goes to the end
                self.stop()
            else:
                self.send(command)
            self.version += 1

    def _watch(self, speed: float) -> None:
        if speed and speed not in SPEEDS:
            raise SpecvizError(f"no speed {speed:g}; there are 0, {', '.join(f'{known:g}' for known in SPEEDS)}")
        if bool(speed) != self.paced:
            self.switch_pace()
        if speed:
            self.live_player.speed = speed

    def set_knobs(self, values: Mapping[str, Any]) -> None:
        """Ask for knobs; each takes effect at the next round and is acknowledged by the core's own event."""
        with self.lock:
            self.refusals = []
            if not self.running:
                values = self._checked(values)
            super().set_knobs(values)
            self.version += 1

    def _checked(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Values for a run that has not begun. Raises SpecvizError for a knob that no method has, or a bad value."""
        if self.catalogue is None:
            raise SpecvizError("load the models first: their methods say which knobs there are")
        methods = self.catalogue.methods
        specs = {spec.name: spec for info in methods for spec in info.knobs}
        if unknown := [name for name in values if name not in specs]:
            raise SpecvizError(f"no method that is loaded has a knob '{unknown[0][:20]}'")
        return {name: specs[name].check(value) for name, value in values.items()}

    def next_knobs(self, method: str) -> tuple[KnobItem, ...]:
        """The knobs of a next run by this method: as they stand, and as they were chosen since. Raises SpecvizError."""
        with self.lock:
            info = self._method(method)
            return next_knobs(info.knobs, self._stands(method), self.edits.staged)

    def with_knobs(self, start: Start) -> Start:
        """A start with the knobs that the stage shows for it; what the start says itself comes first."""
        with self.lock:
            known = {spec.name for spec in self._method(start.method).knobs}
            shown = {**self._stands(start.method), **start.knobs, **self.edits.staged}
            return msgspec.structs.replace(start, knobs={name: shown[name] for name in shown if name in known})

    def _method(self, name: str) -> MethodInfo:
        matching = [info for info in self.catalogue.methods if info.name == name] if self.catalogue is not None else []
        if not matching:
            raise SpecvizError(f"no method '{name[:20]}' is loaded")
        return matching[0]

    def _stands(self, method: str) -> dict[str, Any]:
        """What a person gave or moved for this method: in the newest run, else on the command line."""
        last, first = self.last_start, self.settings.start
        if last is not None and last.method == method:
            return self.standing
        return dict(first.knobs) if first is not None and first.method == method else {}

    # What is shown ---------------------------------------------------------------------------------------------------

    def look(self, show: Callable[[Frame, "ServedRun"], Any]) -> Any:
        """`show` of the newest frame, under the lock."""
        with self.lock:
            return show(self.live_player.frame(Options(sent=self.edits.sent), self.status()), self)

    def since(self, generation: int, n: int) -> tuple[int, list[Event]]:
        """The newest run's number, and its events from the n-th on, of another run than that asked about from the
        first on; at most `MOST` at a time."""
        with self.lock:
            return self.generation, list(islice(self._events.since(n if generation == self.generation else 0), MOST))

    def asked(self) -> tuple[str, dict[str, Any]]:
        """The method of the newest run, and every knob somebody asked for: at its start, or since, and acknowledged."""
        with self.lock:
            start = self.started
            if start is None or not self.has_run:
                return "", {}
            return start.method, {**start.knobs, **{change.name: change.new for change in self.run.changes}}


class LiveSource:
    """A page's own view of the live run, as a `Source`: every event once, from the header of the newest run on."""

    live, ended, silence = True, False, None  # it may always go on with another run

    def __init__(self, core: ServedRun) -> None:
        self._core, self._generation, self._n = core, 0, 0

    def poll(self) -> list[Event]:
        """What is new since the last call; the core is asked in parts, so that it is held up by none for long."""
        new_events: list[Event] = []
        while True:
            generation, events = self._core.since(self._generation, self._n)
            self._n = len(events) + (self._n if generation == self._generation else 0)
            self._generation = generation
            new_events += events
            if len(events) < MOST:
                return new_events

    def send(self, command: Command) -> None:
        self._core.command(command)

    def close(self) -> None:
        """The core stays for the other tabs."""


NODE_NAMES = {"root": ROOT, "closing": CLOSING}


def place_name(run: Run, index: int, node: int | None) -> str:
    """A moment as it stands in the address: `r37`, `r37/n14`, `q1/r3/closing`."""
    q, r = run.rounds.place(index)
    query = f"q{q}/" if len(run.queries) > 1 else ""
    named = {where: name for name, where in NODE_NAMES.items()}
    return f"{query}r{r}" + ("" if node is None else f"/{named.get(node, f'n{node}')}")
