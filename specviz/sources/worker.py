"""`Worker`: the core in a process of its own, as a source.

The worker writes its catalogue, then whole runs (`header` .. `end`); commands go the other way. The recorder sits
here, in the thread that drains the pipe: a screen that stalls loses nothing, and when the core dies the trace still
gets its `end`, with the reason `core_lost`. A second run is recorded beside the first, as `NAME-2`. A core that lives
and does not answer (stopped, or hung) may come back: it is not ended, but `silence` says so.
"""

import queue
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from specviz.commands import BEAT_S, MAX_LINE, Command, Shutdown, encode_command
from specviz.errors import SpecvizError, TraceError
from specviz.events import WIRE_RECORDS, Beat, Catalogue, End, Event, Header, Warn, decode
from specviz.sources.pipe import Pipe, death
from specviz.trace import Recorder, plain_path
from specviz.trace.recorder import existing, refuse_foreign

_BAD = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
SILENT_S = 4 * BEAT_S  # without a sign of life: the core hangs
_TOLD = 3  # so many lines that are no records are reported, the rest only counted


class Worker:
    """Starts `python -m specviz.engine.run ARGV` (or `command`).

    `record`: where the first run goes; `redact` leaves all text out of it. Raises SpecvizError when the process cannot
    be started or `record` names something that is no trace.
    """

    def __init__(
        self,
        argv: Sequence[str] = (),
        record: Path | str | None = None,
        *,
        redact: bool = False,
        command: Sequence[str] | None = None,
    ) -> None:
        self.catalogue: Catalogue | None = None
        self.recorded: list[Path] = []
        self.problem: str | None = None
        self.n_bad_lines = 0
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._gone = False
        self._closing = False
        self._heard = time.monotonic()  # when the last line came
        self._beats = False  # whether this core gives signs of life
        self._last = Event()
        self._n_own = 0  # records that this side put into the run
        self._in_run = False
        self._lock = threading.RLock()  # the draining thread, and a front-end that adds a note
        self._redact = redact
        self._recorder: Recorder | None = None
        self._next = None if record is None else plain_path(record)
        if self._next is not None:
            refuse_foreign(self._next)
        full = list(command) if command is not None else [sys.executable, "-m", "specviz.engine.run", *argv]
        try:
            self._pipe = Pipe(full, self._line, self._closed)
        except OSError as error:
            raise SpecvizError(f"cannot start the core ({full[0]}): {error.strerror or error}") from None
        self._pipe.start()

    @property
    def live(self) -> bool:
        """Whether commands can be sent."""
        return not (self._gone or self._closing)

    @property
    def ended(self) -> bool:
        """Whether the process has gone and everything it said was polled."""
        return self._gone and self._events.empty()

    @property
    def running(self) -> bool:
        """Whether a run is between its header and its end."""
        return self._in_run

    @property
    def recording(self) -> Path | None:
        """The file that is being written now."""
        recorder = self._recorder
        return recorder.path if recorder is not None and self._in_run else None

    @property
    def stderr_tail(self) -> list[str]:
        """The last lines the worker wrote on standard error."""
        return list(self._pipe.tail)

    @property
    def silence(self) -> str | None:
        """What to say of a core that lives and does not answer; None for one that does, and for one that has gone."""
        if not self.live:
            return None
        if self._pipe.stopped:
            return f"the core is stopped by a signal; kill -CONT {self.pid} lets it go on"
        quiet = time.monotonic() - self._heard
        if not self._beats or quiet < SILENT_S:
            return None
        return f"the core has not answered for {quiet:.0f} s"

    @property
    def pid(self) -> int:
        return self._pipe.pid

    def poll(self) -> list[Event]:
        """Everything new since the last call."""
        return [self._events.get_nowait() for _ in range(self._events.qsize())]

    def send(self, command: Command) -> None:
        """Hands a command over. Raises SpecvizError when the worker has gone, or the command is too long to take."""
        if not self.live:
            raise SpecvizError(
                f"cannot '{command.__struct_config__.tag}': the core has ended{self._last_words()}; start again"
            )
        line = encode_command(command)
        if len(line) > MAX_LINE:
            raise SpecvizError(
                f"cannot '{command.__struct_config__.tag}': the command has {len(line) / 2**20:.1f} MiB, "
                f"the core takes {MAX_LINE >> 20}; shorten the prompt"
            )
        self._pipe.send(line)

    def note(self, event: Event) -> None:
        """Adds a front-end's own record (a note, a finding) to the stream and to the recording."""
        self._add(event)

    def close(self, grace: float = 2.0) -> None:
        """Asks the worker to leave, and ends it when it does not within `grace` seconds; one that does not answer now
        is not waited for. The recording is finished."""
        if self._closing:
            return
        grace = grace if self.silence is None else 0.1
        self._closing = True
        if not self._gone:
            self._pipe.send(encode_command(Shutdown()))
        self._pipe.close(grace)

    def _line(self, line: bytes) -> None:
        """One line of the wire, in the draining thread."""
        self._heard = time.monotonic()
        try:
            event = decode(line)
        except _BAD:
            self._bad_line(line)
            return
        if isinstance(event, Beat):
            self._beats = True
        if event is None or isinstance(event, Beat):
            return
        if isinstance(event, Catalogue):
            self.catalogue = event
        with self._lock:
            if isinstance(event, Header):
                self._n_own = 0
            if not isinstance(event, WIRE_RECORDS):
                event.i += self._n_own
            self._deliver(event)

    def _bad_line(self, line: bytes) -> None:
        self.n_bad_lines += 1
        if self.n_bad_lines <= _TOLD:
            shown = ascii(line[:80].decode(errors="replace").strip())
            self._add(Warn(code="bad_line", message=f"the core wrote a line that is no record: {shown}"))

    def _add(self, event: Event) -> None:
        """A record of this side, at the place the stream has reached; the core's later ones count on from it."""
        with self._lock:
            last, t = self._last, event.t or time.monotonic_ns()
            self._deliver(msgspec.structs.replace(event, i=last.i + 1, t=t, q=last.q, r=last.r))
            self._n_own += 1

    def _deliver(self, event: Event) -> None:
        with self._lock:
            self._events.put(event)
            if isinstance(event, WIRE_RECORDS):
                return
            self._last = event
            if isinstance(event, Header):
                if self._recorder is not None:
                    self._recorder.close("error", "the core began another run before this one had ended")
                self._in_run, self._recorder = True, self._open_recorder()
            if self._recorder is not None:
                self._recorder.write(event)
            if isinstance(event, End):
                self._end_run()

    def _open_recorder(self) -> Recorder | None:
        if self._next is None:
            return None
        path, self._next = self._next, unused(_following(self._next))
        try:
            return Recorder(path, on_problem=self._tell, redact=self._redact)
        except TraceError as error:
            self._tell(Warn(code="disk_full", message=f"not recording: {error}"))
            return None

    def _end_run(self) -> None:
        self._in_run = False
        if self._recorder is not None and existing(self._recorder.path) is not None:
            self.recorded.append(self._recorder.path)
        self._recorder = None

    def _tell(self, warn: Warn) -> None:
        self.problem = warn.message
        self._events.put(warn)

    def _closed(self, code: int) -> None:
        """The pipe has ended: a run without its `end` gets one here."""
        if self._in_run or (not self._closing and (code != 0 or self._pipe.fault)):
            reason = "cancelled" if self._closing else "core_lost"
            words = (
                "the core was ended by the front-end"
                if self._closing
                else f"the core was lost: {self._pipe.fault or death(code)}{self._last_words()}"
            )
            self._add(End(reason=reason, message=words))
        self._gone = True

    def _last_words(self) -> str:
        return f": {self._pipe.tail[-1]}" if self._pipe.tail else ""


def unused(path: Path) -> Path:
    """The path, or the next number of it under which there is no trace: nobody said that one may go."""
    path = plain_path(path)
    while existing(path) is not None:
        path = _following(path)
    return path


def _following(path: Path) -> Path:
    """`run.sv.jsonl` -> `run-2.sv.jsonl` -> `run-3.sv.jsonl`."""
    name = path.name.removesuffix(".jsonl").removesuffix(".sv")
    rest = path.name[len(name) :]
    stem, _, number = name.rpartition("-")
    count = int(number) + 1 if stem and number.isdigit() else 2
    return path.with_name(f"{stem if count > 2 else name}-{count}{rest}")
