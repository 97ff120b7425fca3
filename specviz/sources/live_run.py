"""`LiveRun`: the one controller between a source and a front-end, for the terminal and the browser alike.

It polls the source, folds every event into one `Player`, and remembers what a person asked of the core (a start, knobs,
a pause) until the core's own event confirms or refuses it. A front-end adds how that looks: it subclasses.

Knobs that are asked for while no run goes on, or that the one in hand has no more rounds for, wait in `edits.staged`: a
message takes them along (`TalkingRun.say`); a start says all of its knobs itself, so they leave the table.

A core that is `paced` runs one round at a time, the next when the last one has been seen; to the worker it is always
held, to the person only when they held it. A start that comes while a run goes on waits for the worker to say `idle`.

Not for several threads: who has them holds a lock.
"""

import contextlib
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from specviz.commands import Command, Pause, Resume, SetKnob, Start, StepRounds, Stop
from specviz.errors import SpecvizError
from specviz.events import Catalogue, Commit, End, Event, Header, Knob, Note, Refused, State
from specviz.knobs import KnobSpec
from specviz.runlog.spool import EventSpool
from specviz.sources.base import Source
from specviz.sources.big_trace import BigTrace
from specviz.sources.knob_edits import KnobEdits
from specviz.sources.worker import Worker
from specviz.trace import Recorder
from specviz.view import WATCHED, Feed, Pace, Player, Run
from specviz.view.frame.judgement import CountedRun

LOADING = "loading the models"
CUT_OFF = "cut off"
_REASON = "specviz: "  # begins the one line with which a core gives up
_REFUSALS = 3
_NOTICES = 16
_MOVES = (State, Header, Knob, Commit, End)


@dataclass(frozen=True, slots=True)
class Notice:
    """Something the person must be told once. `severe`: in a panel of its own, not in passing."""

    title: str
    message: str
    severe: bool = False


@dataclass(frozen=True, slots=True)
class IdleWords:
    """Texts shown while there is no run. `preparing` None: preparing counts as loading."""

    nothing: str
    ready: str
    preparing: str | None = None


class LiveRun:
    """A source, the player of its newest run, what was asked of its core. A recording is a source without a core."""

    def __init__(self, source: Source, words: IdleWords, *, animate: bool = True, paced: bool = False) -> None:
        self.words, self.animate, self.paced = words, animate, paced
        self.live_player = Player(animate=animate)
        self._set_pace(paced)
        self.edits = KnobEdits()
        self.redact = False  # recordings begun here hold no text
        self.auto: bool | None = None  # whether drafting may pause, as it was last said; of runs that leave it open
        self.started: Start | None = None  # the last start request of the user
        self.generation = 0  # counts runs
        self.refusals: list[str] = []  # of what was asked last, newest last
        self._notices: deque[Notice] = deque(maxlen=_NOTICES)
        self._events = EventSpool()  # events of the newest run, for viewers who join later
        self._recorder: Recorder | None = None
        self._recorders: list[Recorder] = []  # of every recording begun here
        self._ids = 0
        self.attach(source)

    def attach(self, source: Source) -> None:
        """Go on with another source; what was decoded before stays on screen until its first run begins."""
        self.source = source
        self.has_core = source.live or isinstance(source, Worker)  # also after it has gone
        self.catalogue: Catalogue | None = None
        self.failed: str | None = None  # nothing more can come, and why
        self.held = False  # a person paused the core
        self.silence: str | None = None
        self.loading: str | None = None  # the step that loading has come to
        self._unready = ""  # the end of no run: the models were not even loaded
        self._began = self._in_run = False  # this source began a run; it has not ended
        self._stopping = False
        self._rounds = Pace()
        self._begun = self._start_id = 0  # id of a start whose run has not come yet; of the last start
        self._queued: tuple[Start, bool | None] | None = None
        self._own: set[int] = set()  # ids of automatic commands; the core's answers to them are not shown
        self.opened_at: float | None = None  # seconds of the clock of `tick`
        self.now = self.heard_at = 0.0  # the last look; the last record, or the last command that one must follow

    # Events in -------------------------------------------------------------------------------------------------------

    def tick(self, now: float) -> bool:
        """Apply everything new, ask for the next round if one is due, move the player. Whether anything changed.

        `now`: seconds of any clock.
        """
        self.opened_at, self.now = now if self.opened_at is None else self.opened_at, now
        try:
            n_new = self.read()
        except SpecvizError as error:
            self._fail(str(error))
            return True
        if self.has_core and self.source.ended and not self.failed:
            self._fail(self._why_it_went())
            return True
        self.heard_at = now if n_new else self.heard_at
        before, self.silence = self.silence, self.source.silence
        if self.silence and not before:
            self._notices.append(Notice("No answer", self.silence))
        due = self.paced and self.running and not (self.held or self._stopping)
        if due and self._rounds.due(self.live_player):
            self.heard_at = now
            with contextlib.suppress(SpecvizError):  # it has just gone: the next look says so
                self._own.add(self.send(StepRounds()))
        return self.move(now) or bool(n_new) or self.silence != before

    def move(self, now: float) -> bool:
        """Move what is shown on if it is time. Whether it moved."""
        return self.live_player.tick(now)

    def read(self) -> int:
        """Apply everything new; how many events that were. Raises SpecvizError for a damaged trace."""
        events = [] if self.failed else self.source.poll()
        self.take(events)
        big = self.source.whole() if isinstance(self.source, BigTrace) else None
        if big is not None:
            self._adopt(*big)
        if self._in_run and not self.has_core and self.source.ended:
            self.take([End(reason=CUT_OFF, message="the recording has no end: what came before is shown")])
        return len(events) + (big is not None)

    def _adopt(self, run: Run, counted: CountedRun | None) -> None:
        """All rounds of a big recording, in place of its first ones."""
        if run.header is not None and not self._began:
            self._follow(run.header)
        self.live_player.adopt(run, counted)
        if run.end is not None:
            self._follow(run.end)

    @property
    def filling(self) -> float | None:
        """Share of a long recording that is indexed, 0..1; None where there is nothing to index."""
        return self.source.progress if isinstance(self.source, BigTrace) else None

    def take(self, events: list[Event]) -> None:
        """Apply events in order; the player gets them in one go."""
        shown: list[Event] = []
        for event in events:
            if isinstance(event, Catalogue):
                self.catalogue = event
                self.ready()
            elif isinstance(event, Refused):
                self._refused(event)
            elif isinstance(event, End) and self.catalogue is None and not self._in_run:
                self._unready = event.message or ""
            else:
                shown.append(event)
                if isinstance(event, _MOVES):
                    self._follow(event)
                if self.has_core and not isinstance(event, State):
                    self._events.append(event)
                    if self._recorder is not None:
                        self._recorder.write(event)
        self.live_player.extend(shown)

    def ready(self) -> None:
        """For a front-end: the catalogue has come."""

    def put_by(self, events: EventSpool) -> None:
        """For a front-end: another run begins; these are the events of the one before."""
        events.close()

    def _follow(self, event: Event) -> None:
        """What moves the run as a whole, `_MOVES`."""
        if isinstance(event, State):
            self.loading = event.message if event.state == "loading" else None
            if not self.paced:
                self.held = event.state == "paused"
            if event.state == "idle":
                self._start_queued()
            return
        if isinstance(event, Header):
            self.put_by(self._events)
            self.generation += 1
            self._events, self._recorder, self.refusals = EventSpool(), None, []
            self._leave_out(event.method, event.knob_specs)
            self.held = self._begun > 0 and self.started is not None and self.started.paused
            self._began = self._in_run = True
            self._begun, self._stopping, self._rounds = 0, False, Pace()
        if isinstance(event, Knob):
            self.edits.acknowledged(event.name)
        if isinstance(event, End):
            self._in_run = self.held = False
            self.edits.run_ended()
            if event.reason in ("error", "core_lost"):
                title = "The core was lost" if event.reason == "core_lost" else "The run failed"
                self._notices.append(Notice(title, event.message or event.reason, severe=True))

    def _leave_out(self, method: str, specs: Sequence[KnobSpec]) -> None:
        """Drop waiting knob changes that the method has no knob for, with a notice."""
        gone = self.edits.left_out([spec.name for spec in specs])
        if gone:
            self._notices.append(Notice("Left out", f"{method} has no {', '.join(gone)}"))

    def _refused(self, event: Refused) -> None:
        self.edits.refused(event.id)
        if event.id not in self._own:
            self.refusals = [*self.refusals[1 - _REFUSALS :], event.message]
            severe = event.id == self._start_id > 0
            self._notices.append(Notice("The core refused", event.message, severe))
        if self._begun and event.id == self._begun:  # no run comes of it, and no `idle` after one
            self._begun = 0
            self._start_queued()

    def _fail(self, why: str) -> None:
        self.failed = why
        if self.run.end is None:  # an end was already reported
            self._notices.append(Notice("Nothing more can come", why, severe=True))

    def _why_it_went(self) -> str:
        """In its own words when it left by itself, else how it ended."""
        own = self.tail[-1] if self.tail else ""
        if self.catalogue is None and not self._began:
            reason = "" if own.startswith(_REASON) else self._unready
        else:
            reason = (self.run.end.message or "") if self.run.end else ""
        return reason or own.removeprefix(_REASON) or "the core has ended"

    # What is so ------------------------------------------------------------------------------------------------------

    @property
    def run(self) -> Run:
        return self.live_player.run

    @property
    def live(self) -> bool:
        """Whether a core listens."""
        return self.has_core and self.failed is None

    @property
    def never_ready(self) -> bool:
        """Whether the core ended before it could do anything."""
        return self.has_core and self.failed is not None and self.catalogue is None

    @property
    def running(self) -> bool:
        """Whether a run is between its header and its end in a core that listens."""
        return self.live and self._in_run

    @property
    def has_run(self) -> bool:
        """Whether the core has decoded anything yet."""
        return len(self._events) > 0

    @property
    def preparing(self) -> bool:
        """Whether a start was handed over of which no run has come yet."""
        return self._begun > 0

    @property
    def last_start(self) -> Start | None:
        """The newest start request of the user, sent or waiting."""
        return self._queued[0] if self._queued else self.started

    @property
    def standing(self) -> dict[str, Any]:
        """The knobs that a person gave or moved, as they are now: what the program filled in for a method stays out."""
        last = self.last_start
        knobs = dict(last.knobs) if last is not None else {}
        moved = self.run.changes if last is self.started and not self.preparing else []
        return knobs | {change.name: change.new for change in moved if change.by != "specviz"}

    @property
    def tail(self) -> list[str]:
        """The last lines the core wrote on standard error."""
        return self.source.stderr_tail if isinstance(self.source, Worker) else []

    def take_notices(self) -> list[Notice]:
        """New notices for the user; each is returned once."""
        notices = list(self._notices)
        self._notices.clear()
        return notices

    def status(self) -> Feed:
        """The source's state as the view shows it."""
        if self.failed is not None:
            lost = self.has_core and (self.catalogue is not None or self._began)
            return Feed("core_lost" if lost else "error", self.failed)
        if not self.has_core:
            return Feed("open") if self.run.header is not None else Feed("idle", self.words.nothing)
        if self.silence:
            return Feed("silent", self.silence, steerable=True, held=self.held)
        preparing = self.words.preparing if self.preparing else self.words.ready
        if not self._began and (self.catalogue is None or preparing is None):
            message = self.loading or (self.tail[-1] if self.tail else LOADING)
            return Feed("loading", message, steerable=True)
        if self.run.header is None:
            return Feed("open", preparing or "", steerable=True)
        return Feed("open", steerable=True, held=self.held)

    # What a person asks ----------------------------------------------------------------------------------------------

    def send(self, command: Command) -> int:
        """Hand a command over; its id comes back in a refusal. Raises SpecvizError where no core listens."""
        self._ids += 1
        command.id = self._ids
        self.source.send(command)
        return self._ids

    def start(self, start: Start, paced: bool | None = None) -> None:
        """Decode another prompt; the run in hand is ended first. `paced`: None keeps the pace.

        Raises SpecvizError, also for a method that lacks a part here: the run in hand goes on.
        """
        why = self.catalogue.lacks(start.method, start.knobs) if self.catalogue else None
        if why is not None:
            raise SpecvizError(why)
        self.refusals = []
        self.edits.take()
        if self.running or self.preparing:
            self._queued = (start, paced)  # the core refuses a start while a run goes on
            self.stop()
        else:
            self._hand_over(start, paced)

    def _start_queued(self) -> None:
        queued, self._queued = self._queued, None
        if queued is not None:
            self._hand_over(*queued)

    def _hand_over(self, start: Start, paced: bool | None) -> None:
        if paced is not None:
            self._set_pace(paced)
        self.auto = self.auto if start.auto is None else start.auto
        sent = msgspec.structs.replace(start, paused=start.paused or self.paced, auto=self.auto)
        self._begun = self._start_id = self.send(sent)
        self.started = start

    def stop(self) -> None:
        """End the run; the models stay. One that ended by itself meanwhile is as good."""
        self._stopping = True
        self._own.add(self.send(Stop()))

    def hold(self, held: bool) -> None:
        """Pause the core before its next round, or let it go on. To the worker a paced core is held already."""
        if not (self.paced and self.running):
            self.send(Pause() if held else Resume())
        self.held = held and self.running

    def step(self, n: int = 1) -> None:
        """Let the core run so many rounds and hold."""
        self.send(StepRounds(n=n))
        self.held = self.running

    def _set_pace(self, paced: bool) -> None:
        self.paced = self.live_player.every = paced
        self.live_player.speed = WATCHED if paced else 1.0

    def switch_pace(self) -> bool:
        """From a round at a time to full speed, or back. Returns whether rounds wait for the eye."""
        paced = not self.paced
        if self.running and not self.held:
            self.send(Pause() if paced else Resume())
        self.paced = self.live_player.every = paced
        self._rounds = Pace()
        if self.live_player.following:
            self.live_player.live()
        return paced

    def set_knobs(self, values: Mapping[str, Any]) -> None:
        """Ask for knobs; each takes effect at the next round and is acknowledged by the core's own event. With no run
        going on they wait for the next one."""
        if not self.running:
            self.edits.wait(values)
            return
        for name, value in values.items():
            self.edits.was_sent(self.send(SetKnob(name=name, value=value)), name, value)

    # Notes and recording ---------------------------------------------------------------------------------------------

    def add_note(self, note: Note) -> None:
        """Add a front-end's own record to the run, and to the trace that is being recorded."""
        if isinstance(self.source, Worker) and self.running:
            self.source.note(note)
        else:
            self.take([note])

    @property
    def recording(self) -> Path | None:
        """The file that is being written."""
        if self._recorder is not None and not self._recorder.ended:
            return self._recorder.path
        return self.source.recording if isinstance(self.source, Worker) else None

    @property
    def recorded(self) -> list[Path]:
        """The files that were written, those of the command line first."""
        own = [recorder.path for recorder in self._recorders]
        return [*(self.source.recorded if isinstance(self.source, Worker) else []), *own]

    def record(self, folder: Path) -> Path | None:
        """Start a recording of this run from its beginning, or end the one that was started so. Raises SpecvizError."""
        if self._recorder is not None and not self._recorder.ended:
            self._recorder.close("stopped", "recording was switched off")
            self._recorder = None
            return None
        header = self.run.header
        if not self.running or header is None:
            raise SpecvizError("nothing is running: there is nothing to record")
        if self.recording is not None:
            raise SpecvizError(f"already recording to {self.recording}, as asked on the command line")
        recorder = Recorder(folder / f"{header.run}.sv.jsonl", redact=self.redact)
        if recorder.problem:
            raise SpecvizError(recorder.problem)
        for event in self._events.since(0):
            recorder.write(event)
        self._recorder = recorder
        self._recorders.append(recorder)
        return recorder.path

    def close(self) -> None:
        """Close the source and write the end record of a recording."""
        self.source.close()
        if self._recorder is not None:
            for event in self.source.poll():
                self._recorder.write(event)
            self._recorder.close("cancelled", "the screen was closed")
