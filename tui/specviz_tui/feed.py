"""Events from a source into a player: one code path for a file, a file that grows and a live worker.

Every event is applied, frames may be skipped. What a person asked of the core (knobs sent, a pause) is remembered here
until the core's own event confirms it."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from specviz.errors import SpecvizError
from specviz.events import At, Catalogue, End, Event, Header, Knob, Note, Refused, State
from specviz.sources import KnobDesk, Source, Worker
from specviz.sources.kept import Kept
from specviz.trace import Recorder
from specviz.view import Feed as FeedState
from specviz.view import Frame, Options, Player
from specviz.wire import Command, Pause, Resume, SetKnob, Start, StepRounds, Stop

NOTHING = "nothing is open: press o"
IDLE = "press p to enter a prompt"
CUT_OFF = "cut off"
LOADING = "loading the models"


@dataclass(frozen=True, slots=True)
class Said:
    """Something the person must be told. `severe`: in a panel of its own, not in passing."""

    title: str
    message: str
    severe: bool = False


class RunFeed:
    """The source, the player of its newest run, and what was asked of the core."""

    def __init__(self, source: Source, name: str, animate: bool = True, ascii: bool = False) -> None:
        self.source, self.name = source, name
        self.has_core = source.live or isinstance(source, Worker)  # also after it has gone
        self.animate = animate
        self.player = Player(animate=animate)
        self.options = Options(ascii=ascii)
        self.desk = KnobDesk()
        self.catalogue: Catalogue | None = None
        self.held = False
        self.failed: str | None = None  # nothing more can come, and why
        self.last_start: Start | None = None
        self.template: Start | None = None  # what the dialog proposes before anything has run
        self._next_start: Start | None = None  # waits for the end of the run in hand
        self._said: list[Said] = []
        self._events = Kept()  # of the newest live run, for a recording that begins in the middle
        self._recorder: Recorder | None = None
        self.redact = False  # recordings begun here hold no text
        self._ids = 0

    # Events in, frame out --------------------------------------------------------------------------------------------

    def read(self) -> int:
        """Apply everything new; how many events that were. Raises SpecvizError for a damaged trace."""
        events = [] if self.failed else self.source.poll()
        self._take(events)
        run = self.player.run
        if not self.has_core and self.source.ended and run.header is not None and run.end is None:
            self._take([End(reason=CUT_OFF, message="the recording has no end: what came before is shown")])
        return len(events)

    def tick(self, now: float) -> bool:
        """Apply everything new and move the player on. Returns whether there is anything new to paint."""
        try:
            new = self.read()
        except SpecvizError as error:
            self._fail(str(error))
            return True
        if self.has_core and self.source.ended and not self.failed:
            self._fail(self._lost())
            return True
        return self.player.tick(now) or bool(new)

    def frame(self) -> Frame:
        """What to paint now."""
        options = replace(self.options, staged=self.desk.staged, sent=self.desk.sent)
        return self.player.frame(options, self._state())

    def said(self) -> list[Said]:
        """What must be told, once."""
        said, self._said = self._said, []
        return said

    def _take(self, events: list[Event]) -> None:
        """Apply events in order, in one go but for the beginning of another run."""
        batch: list[Event] = []
        for event in events:
            if isinstance(event, Header) and (batch or self.player.run.header is not None):
                self.player.extend(batch)
                batch = []
                if self.player.run.header is not None:
                    self._begin_again()
            if isinstance(event, Catalogue):
                self.catalogue = event
            elif isinstance(event, Refused):
                self._refused(event)
            else:
                self._follow(event)
                batch.append(event)
        self.player.extend(batch)

    def _follow(self, event: Event) -> None:
        if isinstance(event, State):
            self.held = event.state == "paused"
        elif self.has_core:
            self._events.append(event)
            if self._recorder is not None:
                self._recorder.write(event)
        if isinstance(event, Knob):
            self.desk.acknowledged(event.name)
        if isinstance(event, End):
            self._ended(event)

    def _begin_again(self) -> None:
        """A new run of the same worker: another player at the same speed, nothing selected."""
        speed, self.player = self.player.speed, Player(animate=self.animate)
        self.player.speed = speed
        self.options = replace(self.options, selected=None)
        self.desk, self._events, self._recorder = KnobDesk(), Kept(), None

    def _ended(self, end: End) -> None:
        self.held = False
        self.desk = KnobDesk()
        start, self._next_start = self._next_start, None
        if start is not None and self.source.live:
            self.send(start)
        if end.reason in ("error", "core_lost"):
            title = "The core was lost" if end.reason == "core_lost" else "The run failed"
            self._said.append(Said(title, end.message or end.reason, severe=True))

    def _refused(self, event: Refused) -> None:
        self.desk.refused(event.id)
        severe = self.last_start is not None and event.id == self.last_start.id
        self._said.append(Said("The core refused", event.message, severe))

    def _fail(self, why: str) -> None:
        self.failed = why
        if self.player.run.end is None:  # an end has been told already
            self._said.append(Said("Nothing more can come", why, severe=True))

    def _lost(self) -> str:
        end = self.player.run.end
        words = self.tail[-1].removeprefix("specviz: ") if self.tail else "the core has ended"
        return (end.message or words) if end is not None and self.player.run.header is not None else words

    def _state(self) -> FeedState:
        if self.failed:
            began = self.player.run.header is not None
            return FeedState("core_lost" if self.has_core and began else "error", self.failed)
        if not self.has_core:
            return FeedState("open") if self.player.run.header is not None else FeedState("idle", NOTHING)
        if self.catalogue is None:
            return FeedState("loading", self.tail[-1] if self.tail else LOADING, steerable=True)
        if self.player.run.header is None:
            return FeedState("idle", IDLE, steerable=True)
        return FeedState("open", steerable=True, held=self.held)

    @property
    def tail(self) -> list[str]:
        """The last lines the core wrote on standard error."""
        return self.source.stderr_tail if isinstance(self.source, Worker) else []

    # What a person asks ----------------------------------------------------------------------------------------------

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
        """Whether a run is going on in the core."""
        run = self.player.run
        return self.live and run.header is not None and run.end is None

    def send(self, command: Command) -> int:
        """Hand a command over; its id comes back in a refusal. Raises SpecvizError."""
        self._ids += 1
        command.id = self._ids
        self.source.send(command)
        return self._ids

    def start(self, start: Start) -> None:
        """Decode another prompt; the run in hand is ended first, and told before. Raises SpecvizError."""
        self.last_start = start
        if self.running:
            self._next_start = start  # the core refuses a start while a run goes on
            self.send(Stop())
        else:
            self.send(start)

    def hold(self) -> bool:
        """Hold the core before its next round, or let it go on. Returns whether it holds."""
        self.send(Resume() if self.held else Pause())
        self.held = not self.held
        return self.held

    def step_core(self) -> None:
        """Let a held core run one round, and look at it."""
        self.send(StepRounds())
        self.player.live()

    def apply_knobs(self) -> int:
        """Send what is staged; returns how many."""
        staged = self.desk.take()
        for name, value in staged.items():
            self.desk.was_sent(self.send(SetKnob(name=name, value=value)), name, value)
        return len(staged)

    def note(self, text: str) -> None:
        """A bookmark at the round on screen; part of the recording when there is one."""
        run, cursor = self.player.run, self.player.cursor
        record = run.rounds[cursor.index]
        note = Note(text=text, at=At(r=record.r, node=self.options.selected), q=record.q, r=record.r, t=record.start.t)
        if isinstance(self.source, Worker) and self.running:
            self.source.note(note)
        else:
            self._take([note])

    # Recording -------------------------------------------------------------------------------------------------------

    @property
    def recording(self) -> Path | None:
        """The file that is being written."""
        if self._recorder is not None and not self._recorder.ended:
            return self._recorder.path
        return self.source.recording if isinstance(self.source, Worker) else None

    def record(self, folder: Path) -> Path | None:
        """Start a recording of this run from its beginning, or end the one that was started so. Raises SpecvizError."""
        if self._recorder is not None and not self._recorder.ended:
            self._recorder.close("stopped", "recording was switched off")
            self._recorder = None
            return None
        header = self.player.run.header
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
        return recorder.path

    def close(self) -> None:
        """Let go of the source; a recording gets its end."""
        self.source.close()
        for event in self.source.poll() if self.has_core else []:
            if self._recorder is not None:
                self._recorder.write(event)
        if self._recorder is not None:
            self._recorder.close("cancelled", "the screen was closed")


def node_record(frame: Frame) -> dict[str, Any] | None:
    """The recorded node under the cursor, as plain values."""
    return frame.why.record if frame.why is not None else None
