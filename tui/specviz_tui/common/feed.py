"""Events from a source into a player: one code path for a file, a file that grows and a live worker.

Every event is applied, frames may be skipped. What a person asked of the core (knobs sent, a pause) is remembered here
until the core's own event confirms it.

A core that is `paced` runs one round at a time, the next when the last one has been seen: to the worker it is always
held. While it loads, a recording (`prelude`) may play in its place; it stays for as long as a person looks at a moment
of it, since a paced core waits."""

import contextlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from specviz.commands import Command, Pause, Resume, SetKnob, Start, StepRounds, Stop
from specviz.errors import SpecvizError
from specviz.events import At, Catalogue, End, Event, Header, Knob, Note, Refused, State
from specviz.sources import KnobDesk, Source, Worker
from specviz.sources.kept import Kept
from specviz.trace import Recorder
from specviz.view import WATCHED, Frame, Options, Pace, Player, Run
from specviz.view import Feed as FeedState
from specviz_tui.common import bookmarks

NOTHING = "nothing is open: press o"
IDLE = "press p to enter a prompt"
CUT_OFF = "cut off"
LOADING = "loading the models"
PRELUDE = "meanwhile a recording plays"
READY = "of a recording · the models are ready: End shows the live run"
EVERY_ROUND = "every round"
QUIET_S = 3  # seconds without a record of a run that goes on after which the screen counts them


@dataclass(frozen=True, slots=True)
class Said:
    """Something the person must be told. `severe`: in a panel of its own, not in passing."""

    title: str
    message: str
    severe: bool = False


class RunFeed:
    """The source, the player of its newest run, and what was asked of the core."""

    def __init__(
        self, source: Source, name: str, animate: bool = True, ascii: bool = False, *, paced: bool = False,
        prelude: Player | None = None,
    ) -> None:  # fmt: skip
        self.source, self.name = source, name
        self.has_core = source.live or isinstance(source, Worker)  # also after it has gone
        self.animate = animate
        self.paced = paced
        self._pace = Pace()
        self._live = self._fresh()
        self.prelude = prelude
        if prelude is not None:
            prelude.every = True
            prelude.first()
            prelude.play()
        self._opened: float | None = None  # when this was looked at first
        self._now = self._news = 0.0  # the last look, the last record or command that a record must follow
        self._silent: str | None = None
        self.options = Options(ascii=ascii)
        self.desk = KnobDesk()
        self.catalogue: Catalogue | None = None
        self.held = False
        self.failed: str | None = None  # nothing more can come, and why
        self.last_start: Start | None = None
        self.template: Start | None = None  # what the dialog proposes before anything has run
        self._awaiting = False  # a start was handed over, no run has come of it yet
        self._held_start = False  # that start was to be held
        self._next_start: Start | None = None  # waits for the end of the run in hand
        self._said: list[Said] = []
        self._events = Kept()  # of the newest live run, for a recording that begins in the middle
        self._recorder: Recorder | None = None
        self.redact = False  # recordings begun here hold no text
        self._ids = 0
        self._recalled: list[Note] | None = None  # bookmarks of earlier visits that wait for their rounds

    # Events in, frame out --------------------------------------------------------------------------------------------

    def read(self) -> int:
        """Apply everything new; how many events that were. Raises SpecvizError for a damaged trace."""
        events = [] if self.failed else self.source.poll()
        self._take(events)
        self._recall()
        run = self._live.run
        if not self.has_core and self.source.ended and run.header is not None and run.end is None:
            self._take([End(reason=CUT_OFF, message="the recording has no end: what came before is shown")])
        return len(events)

    def tick(self, now: float) -> bool:
        """Apply everything new and move the player on. Returns whether there is anything new to paint."""
        self._opened, self._now = now if self._opened is None else self._opened, now
        try:
            new = self.read()
        except SpecvizError as error:
            self._fail(str(error))
            return True
        if self.has_core and self.source.ended and not self.failed:
            self._fail(self._lost())
            return True
        self._news = now if new else self._news
        news = any((self._listen(), self._to_live_when_ready(), new))
        self._go_on()
        return self._playing(now) or news

    def _playing(self, now: float) -> bool:
        """Move what is shown; a recording that fills the time begins again at its end."""
        if self.prelude is not None and self.prelude.following:
            self.prelude.play()
        return self.player.tick(now)

    def _listen(self) -> bool:
        """Look whether the core answers; whether that is another than before."""
        before, self._silent = self._silent, getattr(self.source, "silence", None)
        if self._silent and not before:
            self._said.append(Said("No answer", self._silent))
        return self._silent != before

    def _go_on(self) -> None:
        """Ask a paced core for its next round when the last one was seen."""
        if self.paced and self.running and not self.held and self._pace.due(self._live):
            self._news = self._now
            with contextlib.suppress(SpecvizError):  # it has just gone: the next look says so
                self.send(StepRounds())

    def _to_live_when_ready(self) -> bool:
        """Leave the recording that filled the time, unless somebody looks at a moment of it. Whether it was left."""
        if self.prelude is None or not (self.prelude.playing or self.prelude.following):
            return False
        waits = self.catalogue is None or (self._awaiting and self._live.run.header is None)
        if waits and not self.failed:
            return False
        self.to_live()
        return True

    def to_live(self) -> None:
        """To the newest moment of the run itself; a recording that filled the time is put away."""
        if self.prelude is None:
            self._live.live()
        elif self.catalogue is not None or self.failed:
            self.prelude = None
            self.options = self.options.let_go()

    @property
    def player(self) -> Player:
        """What is on screen: the run, or the recording that plays while the models load."""
        return self.prelude or self._live

    @property
    def run(self) -> Run:
        """The newest run of the source, also while a recording is on screen."""
        return self._live.run

    def _fresh(self) -> Player:
        player = Player(animate=self.animate)
        player.every = self.paced
        player.speed = WATCHED if self.paced else 1.0
        return player

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
            if isinstance(event, Header):
                self._live.extend(batch)
                batch = []
                if self._live.run.header is not None:
                    self._begin_again()
                self._awaiting, self.held, self._pace = False, self._held_start, Pace()
            if isinstance(event, Catalogue):
                self.catalogue = event
            elif isinstance(event, Refused):
                self._refused(event)
            else:
                self._follow(event)
                batch.append(event)
        self._live.extend(batch)

    def _follow(self, event: Event) -> None:
        if isinstance(event, State):
            self.held = self.held if self.paced else event.state == "paused"
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
        speed, self._live = self._live.speed, self._fresh()
        self._live.speed = speed
        self.options = replace(self.options, selected=None)
        self.desk, self._events, self._recorder = KnobDesk(), Kept(), None

    def _ended(self, end: End) -> None:
        self.held = False
        self.desk = KnobDesk()
        start, self._next_start = self._next_start, None
        if start is not None and self.source.live:
            self._hand_over(start)
        if end.reason in ("error", "core_lost"):
            title = "The core was lost" if end.reason == "core_lost" else "The run failed"
            self._said.append(Said(title, end.message or end.reason, severe=True))

    def _refused(self, event: Refused) -> None:
        self.desk.refused(event.id)
        self._awaiting = False
        severe = self.last_start is not None and event.id == self.last_start.id
        self._said.append(Said("The core refused", event.message, severe))

    def _fail(self, why: str) -> None:
        self.failed = why
        if self._live.run.end is None:  # an end has been told already
            self._said.append(Said("Nothing more can come", why, severe=True))

    def _lost(self) -> str:
        """Why the core has gone: in its own words when it had some, else how it ended."""
        run, own = self._live.run, self.tail[-1] if self.tail else ""
        if run.header is None and own.startswith("specviz: "):
            return own.removeprefix("specviz: ")
        return (run.end and run.end.message) or own or "the core has ended"

    def _state(self) -> FeedState:
        if self.failed:
            began = self._live.run.header is not None
            return FeedState("core_lost" if self.has_core and began else "error", self.failed)
        if not self.has_core:
            return FeedState("open") if self._live.run.header is not None else FeedState("idle", NOTHING)
        if self._silent:
            return FeedState("silent", self._silent, steerable=True, held=self.held)
        steerable = self.prelude is None
        if self._live.run.header is None and (self.catalogue is None or self._awaiting):
            words, clock = self.tail[-1] if self.tail else LOADING, f"{self._now - (self._opened or 0):.0f} s"
            shown = f"{clock} · {PRELUDE}" if self.prelude else clock
            return FeedState("loading", words, shown, steerable)
        if self.prelude is not None:
            return FeedState("open", beside=READY)
        if self._live.run.header is None:
            return FeedState("idle", IDLE, steerable=True)
        return FeedState("open", beside=self._progress(), steerable=True, held=self.held)

    def _progress(self) -> str:
        """How a run that goes on is followed, or how long nothing came of it."""
        if not self.running or self.held or not self._live.following:
            return ""
        quiet = self._now - self._news
        if quiet >= QUIET_S and self._live.at_end:
            return f"waiting for the core, {quiet:.0f} s"
        return EVERY_ROUND if self.paced else ""

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
        run = self._live.run
        return self.live and run.header is not None and run.end is None

    def send(self, command: Command) -> int:
        """Hand a command over; its id comes back in a refusal. Raises SpecvizError."""
        self._ids += 1
        command.id = self._ids
        self.source.send(command)
        return self._ids

    def start(self, start: Start) -> None:
        """Decode another prompt; the run in hand is ended first, and told before.

        Raises SpecvizError, also for a method that lacks a part here: the run in hand goes on.
        """
        why = self.catalogue.lacks(start.method, start.knobs) if self.catalogue else None
        if why is not None:
            raise SpecvizError(why)
        self.last_start = start
        if self.running:
            self._next_start = start  # the core refuses a start while a run goes on
            self.send(Stop())
        else:
            self._hand_over(start)

    def _hand_over(self, start: Start) -> None:
        self._awaiting, self._held_start = True, start.paused
        held = msgspec.structs.replace(start, paused=start.paused or self.paced)
        self.send(held)
        start.id = held.id

    def hold(self) -> bool:
        """Hold the core before its next round, or let it go on. Returns whether it holds."""
        if not self.paced:  # to the worker a paced core is held already
            self.send(Resume() if self.held else Pause())
        self.held = not self.held
        return self.held

    @property
    def other_pace(self) -> str:
        """What `switch_pace` would bring; nothing where no core listens."""
        return "" if not self.live else "full speed" if self.paced else EVERY_ROUND

    def switch_pace(self) -> bool:
        """From a round at a time to full speed, or back. Returns whether rounds wait for the eye."""
        paced = not self.paced
        if self.running and not self.held:
            self.send(Pause() if paced else Resume())
        self.paced = self._live.every = paced
        self._pace = Pace()
        if self._live.following:
            self._live.live()
        return paced

    def step_core(self) -> None:
        """Let a held core run one round, and look at it."""
        self.send(StepRounds())
        self.to_live()

    def apply_knobs(self) -> int:
        """Send what is staged; returns how many."""
        staged = self.desk.take()
        for name, value in staged.items():
            self.desk.was_sent(self.send(SetKnob(name=name, value=value)), name, value)
        return len(staged)

    def note(self, text: str) -> None:
        """A bookmark at the round on screen, part of the trace that is being recorded. One set in a recording is kept
        beside it. Raises SpecvizError when that cannot be done; it is there until one leaves."""
        run, cursor = self.player.run, self.player.cursor  # perhaps of a recording that fills the time
        record = run.rounds[cursor.index]
        note = Note(text=text, at=At(r=record.r, node=self.options.selected), q=record.q, r=record.r, t=record.start.t)
        if self.prelude is not None:
            self.prelude.extend([note])
        elif isinstance(self.source, Worker) and self.running:
            self.source.note(note)
            return
        self._take([note])
        if self.keeps_notes and run.header is not None:
            bookmarks.keep(run.header, note)

    @property
    def keeps_notes(self) -> bool:
        """Whether bookmarks are kept though no trace takes them: those of a recording, to come back to."""
        return not self.has_core

    def _recall(self) -> None:
        """Put the bookmarks of earlier visits at their rounds; those of rounds still to come wait."""
        run = self.player.run
        if self._recalled is None and self.keeps_notes and run.header is not None:
            self._recalled = bookmarks.kept(run.header)
        if self._recalled:
            here = [note for note in self._recalled if run.find(note.q, note.at.r) is not None]
            self._recalled = [note for note in self._recalled if note not in here]
            self._take([*here])

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
        header = self._live.run.header
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
