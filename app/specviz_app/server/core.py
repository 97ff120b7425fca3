"""`Core`: the one worker of this server, shared by all its browser tabs.

A thread drains the worker into a player and moves it; nobody else touches that player without the lock. Browsers get
finished frames (`payload`), pages get the events (`Tap`) and fold a run of their own. Frames may be skipped, events
never are.
"""

import threading
import time
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from itertools import islice
from typing import Any

import msgspec

from specviz.commands import Command, Pause, Resume, SetKnob, Start, StepRounds, Stop
from specviz.errors import MissingExtra, SpecvizError
from specviz.events import Catalogue, End, Event, Header, Knob, Refused, State
from specviz.sources import KnobDesk, Worker
from specviz.sources.kept import Kept
from specviz.sources.worker import unused
from specviz.view import WATCHED, Feed, Frame, Options, Pace, Player
from specviz_app.server.settings import Settings

TICK_S = 1 / 30
MOST = 20_000  # events a tab takes at a time
LOADING = "loading the models"
PREPARING = "preparing the run; a method may measure its costs first"
_REASON = "specviz: "  # begins the one line with which a core gives up
MOST_STEPS = 1000  # rounds that one press may ask for


class Core:
    """Not started until `load`. Every method may be called from any thread and none waits for the worker."""

    def __init__(self, settings: Settings, animate: bool = True) -> None:
        self.settings, self.animate = settings, animate
        self.catalogue: Catalogue | None = None
        self.failed: str | None = None
        self.version = 0  # grows whenever there is something new to show
        self.generation = 0  # counts runs
        self.refusals: list[str] = []
        self._lock = threading.RLock()
        self._worker: Worker | None = None
        self._player = Player(animate=animate)
        self._events = Kept()  # of the newest run
        self._desk = KnobDesk()
        self.target = ""  # the model that was asked for; empty: the embedded one
        self._unready = ""  # how a core ended before it could run anything
        self._held = False
        self._silence: str | None = None  # what to say of a core that lives and does not answer
        self._paced = False  # the run goes at the pace of the eye
        self._rounds = Pace()
        self._by_hand = False  # .. but a person has paused it
        self._started: Start | None = None  # what the run in hand was asked to be
        self._begun = 0  # id of a start whose run has not come yet
        self._own: set[int] = set()  # ids of commands nobody pressed; what the core says to them is not told
        self._next: Start | None = None  # waits for the run in hand to end
        self._ids = 0

    # The worker ------------------------------------------------------------------------------------------------------

    def load(self, target: str = "", draft: str = "") -> None:
        """Start a worker, in place of one that has ended. Raises SpecvizError when none can be started."""
        with self._lock:
            if self._worker is not None and self.failed is None:
                return
            if self.settings.command is None and not (find_spec("torch") and find_spec("transformers")):
                raise MissingExtra("engine", "decoding uses torch and transformers, which are not installed; it")
            argv = _argv(self.settings.argv, target=target, draft=draft)
            self.target = argv[argv.index("--target") + 1] if "--target" in argv else ""
            record = self.settings.record
            if record is not None and self._worker is not None:
                record = unused(record)  # that of the core before stays
            self._worker = Worker(argv, record, command=self.settings.command, redact=self.settings.redact)
            self.catalogue, self.failed, self._held, self._silence = None, None, False, None
            self._unready = ""
            self.version += 1
            thread = threading.Thread(target=self._drain, args=(self._worker,), name="specviz-core", daemon=True)
            thread.start()

    @property
    def loaded(self) -> bool:
        """Whether a worker was started and has not failed."""
        return self._worker is not None and self.failed is None

    @property
    def running(self) -> bool:
        """Whether a run is between its header and its end."""
        run = self._player.run
        return self.loaded and run.header is not None and run.end is None

    @property
    def has_run(self) -> bool:
        """Whether anything was decoded yet."""
        return len(self._events) > 0

    def close(self) -> None:
        """End the worker."""
        worker = self._worker
        if worker is not None:
            worker.close()

    def _drain(self, worker: Worker) -> None:
        while worker is self._worker and self.failed is None:
            try:
                with self._lock:
                    self._turn(worker)
            except Exception as error:  # whatever it was, the page must say so rather than stand still
                self.failed = f"{type(error).__name__}: {error}"
                self.version += 1
                worker.close()
            time.sleep(TICK_S)

    def _turn(self, worker: Worker) -> None:
        ended = worker.ended  # asked first: what came before the end is still polled
        events = worker.poll()
        self._take(events)
        self._pace()
        silence, self._silence = self._silence, worker.silence
        if self._player.tick(time.monotonic()) or events or silence != self._silence:
            self.version += 1
        if ended:
            self._fail(worker)

    def _take(self, events: list[Event]) -> None:
        for event in events:
            if isinstance(event, Catalogue):
                self.catalogue = event
                self._begin()
            elif isinstance(event, Refused):
                self._desk.refused(event.id)
                self._begun = 0 if event.id == self._begun else self._begun
                if event.id not in self._own:
                    self.refusals = [*self.refusals[-2:], event.message]
            elif isinstance(event, State):
                self._held = event.state == "paused"
                self._player.extend([event])
                if event.state == "idle" and self._next is not None:
                    self._start_next()
            elif isinstance(event, End) and self.catalogue is None:
                self._unready = event.message or ""  # the end of no run: the models were not even loaded
            else:
                self._follow(event)

    def _follow(self, event: Event) -> None:
        if isinstance(event, Header):
            self._begun = 0
            self.generation, self._events, self._desk, self.refusals = self.generation + 1, Kept(), KnobDesk(), []
        if isinstance(event, Knob):
            self._desk.acknowledged(event.name)
        self._events.append(event)
        self._player.extend([event])

    def _begin(self) -> None:
        """The prompt of the command line, once the models are there."""
        start = self.settings.start
        if start is not None and start.prompt and not self.has_run:
            self.start(start, paced=True)

    def _pace(self) -> None:
        """Held for the eye: ask for the next round, once, when the last one has been shown to its end."""
        if self._paced and not self._by_hand and self.running and self._rounds.due(self._player):
            self._own.add(self.send(StepRounds()))

    def _fail(self, worker: Worker) -> None:
        said = worker.stderr_tail[-1] if worker.stderr_tail else ""
        end = self._player.run.end
        told = end.message if end and self.catalogue is not None else self._unready
        if self.catalogue is None and said.startswith(_REASON):
            told = ""  # it left by itself, and said why
        self.failed = told or said.removeprefix(_REASON) or "the core has ended"
        self.version += 1

    # Commands --------------------------------------------------------------------------------------------------------

    def send(self, command: Command) -> int:
        """Hand a command over; its id comes back in a refusal. Raises SpecvizError when there is no worker."""
        with self._lock:
            if self._worker is None:
                raise SpecvizError("no core is running: load the models first")
            self._ids += 1
            command.id = self._ids
            self._worker.send(command)
            return self._ids

    def start(self, start: Start, paced: bool = False) -> None:
        """Decode a prompt; a run in hand ends first. `paced`: a round at a time, as fast as it can be watched.

        Raises SpecvizError for a method that lacks a part here: the run in hand goes on.
        """
        why = self.catalogue.lacks(start.method, start.knobs) if self.catalogue else None
        if why is not None:
            raise SpecvizError(why)
        with self._lock:
            self._paced, self._by_hand, self._rounds = paced, start.paused, Pace()
            self.refusals = []
            self._next = msgspec.structs.replace(start, paused=start.paused or paced)
            if self.running or self._begun:
                self._own.add(self.send(Stop()))  # the worker takes the next one when it says that it is idle
            else:
                self._start_next()

    def _start_next(self) -> None:
        start, self._next = self._next, None
        if start is not None:
            self._started = start
            self._player.following, self._player.speed = True, WATCHED if self._paced else 1.0
            self._player.every = self._paced
            self._begun = self.send(start)

    def command(self, command: Command) -> None:
        """What a person pressed while a run goes on. Raises SpecvizError for what cannot be asked here."""
        if isinstance(command, Start):
            raise SpecvizError("a run is started from the page, where its method and knobs are chosen")
        if isinstance(command, StepRounds) and not 1 <= command.n <= MOST_STEPS:
            raise SpecvizError(f"step takes 1 to {MOST_STEPS:,} rounds, not {command.n:,}; 'resume' goes on to the end")
        with self._lock:
            self.refusals = []  # they were about what was asked before
            if isinstance(command, SetKnob):
                self._desk.was_sent(self.send(command), command.name, command.value)
                self.version += 1
                return
            self._by_hand = isinstance(command, Pause | StepRounds)
            if self._paced and isinstance(command, Pause):
                self._player.pause()  # the picture waits as well
            elif self._paced and isinstance(command, Resume):
                self._player.following, self._rounds = True, Pace()
                return  # the picture goes on, and the next round is asked for when it is due
            else:
                self._player.live()
            if isinstance(command, Stop):
                self._paced = self._player.every = False  # no round is asked for any more
            number = self.send(command)
            if isinstance(command, Stop):
                self._own.add(number)  # a run that ended by itself meanwhile is as good

    def set_knobs(self, values: Mapping[str, Any]) -> None:
        """Ask for knobs; each takes effect at the next round and is acknowledged by the core's own event."""
        for name, value in values.items():
            self.command(SetKnob(name=name, value=value))

    # What is shown ---------------------------------------------------------------------------------------------------

    def look(self, show: Callable[[Frame, "Core"], Any]) -> Any:
        """`show` of the newest frame, under the lock."""
        with self._lock:
            return show(self._player.frame(Options(sent=self._desk.sent), self._state()), self)

    def since(self, generation: int, n: int) -> tuple[int, list[Event]]:
        """The newest run's number, and its events from the n-th on, of another run than that asked about from the
        first on; at most `MOST` at a time."""
        with self._lock:
            return self.generation, list(islice(self._events.since(n if generation == self.generation else 0), MOST))

    @property
    def changes(self) -> list[Knob]:
        """Knob changes that the core acknowledged."""
        return self._player.run.changes

    def asked(self) -> tuple[str, dict[str, Any]]:
        """The method of the newest run, and every knob somebody asked for: at its start, or since, and acknowledged."""
        with self._lock:
            start = self._started
            if start is None or not self.has_run:
                return "", {}
            return start.method, {**start.knobs, **{change.name: change.new for change in self.changes}}

    @property
    def paced(self) -> bool:
        """Whether rounds wait for the eye."""
        return self._paced

    def _state(self) -> Feed:
        if self.failed is not None:
            return Feed("core_lost" if self.has_run and self.catalogue else "error", self.failed)
        if self._worker is None:
            return Feed("idle", "the models are not loaded")
        if self._silence is not None:
            return Feed("silent", self._silence, steerable=True)
        if self.catalogue is None:
            tail = self._worker.stderr_tail
            return Feed("loading", tail[-1] if tail else LOADING, steerable=True)
        detail = PREPARING if self._begun else "" if self.has_run else "ready"
        return Feed("open", detail, steerable=True, held=self._held and (self._by_hand or not self._paced))


class Tap:
    """A page's own view of the live run, as a `Source`: every event once, from the header of the newest run on."""

    live = True

    def __init__(self, core: Core) -> None:
        self._core, self._generation, self._n, self._took = core, 0, 0, 0

    @property
    def ended(self) -> bool:
        """A live source may always go on with another run."""
        return False

    @property
    def more(self) -> bool:
        """Whether the last call took as much as one may, so that there is probably more."""
        return self._took == MOST

    def poll(self) -> list[Event]:
        """What is new since the last call, or the first `MOST` of it."""
        generation, events = self._core.since(self._generation, self._n)
        self._n = len(events) + (self._n if generation == self._generation else 0)
        self._generation, self._took = generation, len(events)
        return events

    def send(self, command: Command) -> None:
        """Hand a command to the core."""
        self._core.command(command)

    def close(self) -> None:
        """The core stays for the other tabs."""


def _argv(argv: tuple[str, ...], **models: str) -> list[str]:
    """The words of the command line with other models in them."""
    words = list(argv)
    for name, value in models.items():
        flag = f"--{name}"
        if flag in words:
            place = words.index(flag)
            del words[place : place + 2]
        if value:
            words += [flag, value]
    return words
