"""`Sink`: a thread that turns what hooks hand over into a trace file, request after request."""

import os
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.util import Finalize
from pathlib import Path
from typing import Protocol

from specviz_recorder.lines import TraceLines
from specviz_recorder.records import RunCard, ServedRequest, ServedRound
from specviz_recorder.switch import Switch, tell

_MOST_WAITING = 20_000  # steps of the engine, before the disk counts as too slow
_IDLE_S = 2.0


class Step(Protocol):
    """A step of the engine: its rounds, once the numbers have arrived. Asked on the writer's thread."""

    def rounds(self) -> list[ServedRound]: ...


@dataclass(slots=True)
class _Log:
    """A request: what is not written yet, and all tokens so far."""

    request: ServedRequest
    tokens: list[int]
    waiting: list[ServedRound] = field(default_factory=list)
    n_new: int = 0
    done: bool = False  # the engine has let go of it
    ended: bool = False  # its text has ended


class Sink:
    """Writes one file. The rounds of a request stand together in it: of requests that are decoded at once, one is
    written as it goes, the others when it has ended, or when the engine pauses.

    The file is made with the first round; one that is there is not touched: the next free name is taken.
    """

    def __init__(self, path: Path, card: Callable[[], RunCard], switch: Switch) -> None:
        self.path: Path | None = None  # once there is something in it
        self._wanted, self._card, self._switch = path, card, switch
        self._queue: queue.Queue[Callable[[], None] | None] = queue.Queue(_MOST_WAITING)
        self._logs: dict[str, _Log] = {}
        self._live: _Log | None = None  # whose rounds stand at the end of the file
        self._lines: TraceLines | None = None
        self._fd: int | None = None
        self._thread: threading.Thread | None = None

    # What hooks call -------------------------------------------------------------------------------------------------

    def begin(self, request: ServedRequest) -> None:
        """The engine takes on a request; one that it knows already goes on."""
        self._put(lambda: self._begin(request))

    def step(self, step: Step) -> None:
        """The engine has decoded a step."""
        self._put(lambda: self._take(step.rounds()))

    def finish(self, ids: list[str]) -> None:
        """The engine lets go of requests."""
        self._put(lambda: self._finish(ids))

    def close(self) -> None:
        """Write what is there, and the end. Again: does nothing."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._queue.put(None)
            thread.join(timeout=10)

    def _put(self, task: Callable[[], None]) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="specviz-recorder", daemon=True)
            self._thread.start()
            Finalize(self, self.close, exitpriority=100)  # atexit is not asked in an engine's workers
        try:
            self._queue.put_nowait(task)
        except queue.Full:
            self._switch.off(f"{_MOST_WAITING:,} steps wait to be written, the disk is too slow")

    # On the thread ---------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        writes = True
        while True:
            try:
                task = self._queue.get(timeout=_IDLE_S)
            except queue.Empty:
                task = self._pause
            if task is None:
                break
            writes = writes and self._did(task)
        if writes:
            self._did(self._end)

    def _did(self, task: Callable[[], None]) -> bool:
        """Whether it could be done. Also behind a hook that failed: what was handed over before stays."""
        try:
            task()
        except Exception as error:  # whatever it is, it must not reach the engine
            self._switch.off(f"{type(error).__name__}: {error}")
            return False
        return True

    def _begin(self, request: ServedRequest) -> None:
        log = self._logs.setdefault(request.id, _Log(request, [*request.prompt] or [-1]))
        log.done = False  # the engine may take one back that it had let go of

    def _finish(self, ids: list[str]) -> None:
        for name in ids:
            if name in self._logs:
                self._logs[name].done = True
        self._write()

    def _take(self, rounds: list[ServedRound]) -> None:
        for served in rounds:
            self._begin(ServedRequest(served.request, []))
            self._logs[served.request].waiting.append(served)
        self._write()

    def _write(self) -> None:
        """All of the request that is written now; when it is done, of the next one."""
        while True:
            if self._live is None:
                self._live = next((log for log in self._logs.values() if log.waiting), None)
                if self._live is not None:
                    self._begun(self._live)
            if self._live is None:
                break
            self._rounds(self._live)
            if not self._live.done:
                break
            del self._logs[self._live.request.id]
            self._live = None
        self._logs = {name: log for name, log in self._logs.items() if log.waiting or not log.done}
        self._flush()

    def _pause(self) -> None:
        """Nothing has come for a while: what others wait with is written. One that goes on after all begins again
        there, behind the text that it has."""
        for log in [log for log in self._logs.values() if log.waiting]:
            if log is not self._live:
                self._live = log
                self._begun(log)
            self._rounds(log)
        self._flush()

    def _begun(self, log: _Log) -> None:
        lines = self._opened(log)
        lines.request(log.tokens, log.request.temperature, log.waiting[0].t)

    def _rounds(self, log: _Log) -> None:
        assert self._lines is not None
        for served in log.waiting:
            if served.root is not None and served.root != log.tokens[-1] and not log.ended:  # drawn without a draft
                self._round(log, ServedRound(served.request, served.t, tokens=[served.root]))
            if not log.ended:
                self._round(log, served)
        log.waiting.clear()

    def _round(self, log: _Log, done: ServedRound) -> None:
        assert self._lines is not None
        finish = _cut(done, log)
        self._lines.round(done, log.tokens[-1], finish)
        log.tokens += done.tokens
        log.n_new += len(done.tokens)
        log.ended = finish is not None

    # The file --------------------------------------------------------------------------------------------------------

    def _opened(self, log: _Log) -> TraceLines:
        if self._lines is None:
            card = self._card()
            self.path, self._fd = _new_file(self._wanted)
            self._lines = TraceLines(card, log.request.temperature, log.waiting[0].t)
            tell(f"{card.engine} {card.version}, rule {card.rule}: recording to {self.path}")
        return self._lines

    def _flush(self) -> None:
        if self._lines is not None and self._fd is not None:
            rest = memoryview(self._lines.taken())
            while rest:
                rest = rest[os.write(self._fd, rest) :]

    def _end(self) -> None:
        self._pause()
        if self._lines is not None and self._fd is not None:
            self._lines.end()
            self._flush()
            os.close(self._fd)
            self._fd = None


def _cut(done: ServedRound, log: _Log) -> str | None:
    """Leave out what lies behind the end of the text, which the engine leaves out as well; why it ended, if it did."""
    most, stops = log.request.most, log.request.stops
    for index, token in enumerate(done.tokens):
        finish = "eos" if token in stops else "length" if most is not None and log.n_new + index + 1 >= most else None
        if finish is not None:
            del done.tokens[index + 1 :]
            del done.path[index + 1 :]
            return finish
    return None


def _new_file(wanted: Path) -> tuple[Path, int]:
    """Makes a file that its owner alone can read, under the first free name: run.sv.jsonl, run-2.sv.jsonl, …"""
    stem = wanted.name.removesuffix(".sv.jsonl")
    wanted.parent.mkdir(parents=True, exist_ok=True)
    number = 1
    while True:
        path = wanted.with_name(f"{stem}{f'-{number}' if number > 1 else ''}.sv.jsonl")
        try:
            return path, os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        except FileExistsError:
            number += 1
