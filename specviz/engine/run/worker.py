"""The core in a process of its own: commands in on stdin, the trace's own lines out on stdout, narration on stderr.

First lines: the steps of loading, then the catalogue. Models are loaded once and stay; runs follow one another. A
thread reads commands, another writes lines from an unbounded queue, so decoding never waits for a reader.
From the catalogue on a third says `beat` every second: a reader takes silence for a core that hangs, and a
write into a pipe that nobody reads tells this side that the front-end has gone. Then the worker leaves, as it does
when its input ends.
"""

import contextlib
import gc
import os
import queue
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import BinaryIO, NoReturn

import click

from specviz.commands import (
    BEAT_S,
    MAX_LINE,
    Command,
    Pause,
    Resume,
    SetKnob,
    Shutdown,
    Start,
    StepRounds,
    Stop,
    decode_command,
)
from specviz.engine.model.cache import KVCache
from specviz.engine.run.local import LocalRun, Pair, load_pair, usual_auto
from specviz.engine.run.prepare import wants_chat
from specviz.errors import SpecvizError
from specviz.events import Beat, Catalogue, Event, MethodInfo, Refused, State, VerifierInfo
from specviz.events.batch import LineBatch
from specviz.lean import lean_start
from specviz.local_models.shipped import usual_draft
from specviz.methods import all_methods
from specviz.methods.common.missing import missing
from specviz.verifiers import all_verifiers

_ID = re.compile(rb'"id"\s*:\s*(\d{1,18})\b')
_HEAD = 400  # bytes of a line that cannot be read in which its id is looked for


class PipeWriter:
    """Lines to a stream from a thread of its own, those of a round together.

    `on_broken`: called once, from that thread, when no one reads.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._queue: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._batch = LineBatch(self._queue.put)
        self._stream = stream
        self.on_broken: Callable[[], None] = lambda: None
        self._thread = threading.Thread(target=self._write, name="writer", daemon=True)
        self._thread.start()

    def emit(self, event: Event) -> None:
        self._batch.take(event)

    def beat(self) -> None:
        """Queue a sign of life, unless lines wait already: a reader that stalls gets one, not thousands."""
        if self._queue.empty():
            self.emit(Beat())

    def _write(self) -> None:
        while (line := self._queue.get()) is not None:
            lines = [line]
            while not self._queue.empty():  # one system call for what piled up
                more = self._queue.get()
                if more is None:
                    self._queue.put(None)
                    break
                lines.append(more)
            try:
                self._stream.write(b"".join(lines))
                self._stream.flush()
            except OSError:
                self.on_broken()
                return

    def close(self) -> None:
        """Write what is queued, then stop."""
        self._batch.flush()
        self._queue.put(None)
        self._thread.join(timeout=10)


class WorkerLoop:
    """The command loop. Between rounds it looks at what was asked for."""

    def __init__(self, pair: Pair, emit: Callable[[Event], None]) -> None:
        self.pair, self.emit = pair, emit
        self.commands: queue.SimpleQueue[Command | None] = queue.SimpleQueue()
        self.run: LocalRun | None = None
        self._cache: KVCache | None = None  # the target's after the last run, for a conversation that goes on
        self.holding = False
        self.steps = 0
        self.closing = False
        self.greeted = threading.Event()  # the first line is out

    def catalogue(self) -> Catalogue:
        """What this worker can run, and of the other methods what they lack here."""
        methods = [
            MethodInfo(
                name=m.name,
                help=m.help,
                needs_draft=m.needs_draft,
                verifiers=list(m.verifiers),
                default_verifier=m.default_verifier,
                knobs=list(m.table.specs),
                traits=m.traits,
                missing=missing(m, self.pair),
            )
            for m in all_methods().values()
        ]
        verifiers = [
            VerifierInfo(name=v.name, lossless=v.lossless, keeps_tokens=v.keeps_tokens, help=v.help, traits=v.traits)
            for v in all_verifiers().values()
        ]
        chat = bool(getattr(self.pair.target.tokenizer, "chat_template", None))
        talks = wants_chat(self.pair.target, None)
        return Catalogue(methods=methods, verifiers=verifiers, models=self.pair.infos, chat=chat, talks=talks)

    def serve(self) -> None:
        """Carry out commands until shutdown, the end of stdin, or until the reader has gone."""
        self.emit(self.catalogue())
        self.emit(State(state="idle"))
        self.greeted.set()
        while not self.closing:
            command = self.commands.get()
            if isinstance(command, Start):
                self._start(command)
            else:
                self._obey(command)

    def _start(self, start: Start) -> None:
        try:
            self.run = LocalRun(self.pair, usual_auto(self.pair, start), self.emit, cache=self._cache)
        except SpecvizError as error:
            return self._refuse(start, str(error))
        except Exception as error:  # an unforeseen request must not end the process that holds the models
            return self._refuse(start, f"cannot start: {_named(error)}")
        self.holding, self.steps = start.paused, 0
        self.emit(State(state="paused" if start.paused else "running"))
        try:
            self._decode(self.run)
        except Exception as error:  # already in the trace as `end`, reason error
            print(f"specviz worker: {_named(error)}", file=sys.stderr)
        finally:
            self._cache = self.run.session.cache
            self.run = None
            self.emit(State(state="idle"))
            gc.collect()  # looks are seldom, and a run leaves some hundred objects behind that hold each other

    def _decode(self, run: LocalRun) -> None:
        run.begin()
        rounds = run.rounds()
        while not self.closing:
            self._wait(run)
            if next(rounds, None) is None:
                return
            self.steps = max(0, self.steps - 1)
        run.stop()
        next(rounds, None)

    def _wait(self, run: LocalRun) -> None:
        """Take all waiting commands; while holding, wait for the next one."""
        while True:
            paused = self.holding and not self.steps and not self.closing and not run.stopping
            try:
                command = self.commands.get(block=paused)
            except queue.Empty:
                return
            self._obey(command)

    def _obey(self, command: Command | None) -> None:
        """Carry out a command that does not begin a run, or refuse it; None: stdin has ended."""
        run = self.run
        if command is None or isinstance(command, Shutdown):
            self.closing = True
            if run:
                run.stop()
        elif isinstance(command, Start):
            self._refuse(command, "a run is going on: stop it first")
        elif run is None:
            self._refuse(command, "nothing is running: start a run first")
        elif isinstance(command, SetKnob):
            try:
                run.set_knob(command.name, command.value, command.by)
            except SpecvizError as error:
                self._refuse(command, str(error))
            except Exception as error:  # an unforeseen value must not end the run
                self._refuse(command, f"cannot set '{command.name}': {_named(error)}")
        elif isinstance(command, Pause | Resume):
            self.holding, self.steps = isinstance(command, Pause), 0
            self.emit(State(state="paused" if self.holding else "running"))
        elif isinstance(command, StepRounds):
            self.holding, self.steps = True, self.steps + max(1, command.n)
            self.emit(State(state="paused"))
        elif isinstance(command, Stop):
            run.stop()

    def interrupt(self) -> None:
        """For a signal handler: finish the round in hand, end the run as cancelled, then the worker. Twice: at once."""
        if self.closing:
            raise KeyboardInterrupt
        self.leave()

    def leave(self) -> None:
        """Finish the round in hand, end the run as cancelled, then the worker. From any thread, and a handler."""
        self.closing = True
        run = self.run
        if run:
            run.stop("cancelled")
        self.commands.put(None)  # wakes a worker that waits

    def _refuse(self, command: Command, why: str) -> None:
        self.emit(Refused(id=command.id, message=why))


def lines(fd: int) -> Iterator[bytes]:
    """Lines of a file descriptor; not through `sys.stdin`, whose lock a thread would hold when the interpreter ends.

    Of a line longer than `MAX_LINE` only so many bytes and one come, the rest is passed over: work and memory stay
    linear in what was sent, and bounded.
    """
    parts: list[bytes] = []
    room = MAX_LINE + 1
    while chunk := os.read(fd, 1 << 16):
        *whole, rest = chunk.split(b"\n")
        for piece in whole:
            yield b"".join((*parts, piece[:room]))
            parts, room = [], MAX_LINE + 1
        if kept := rest[:room]:
            parts.append(kept)
            room -= len(kept)
    yield b"".join(parts)


def read_commands(fd: int, worker: WorkerLoop) -> None:
    """Queue commands until the stream ends; a bad line is refused, not fatal; the end is queued as None."""
    try:
        for line in lines(fd):
            if line.strip():
                _take(line, worker)
    finally:
        worker.commands.put(None)


def _take(line: bytes, worker: WorkerLoop) -> None:
    """Queue the command of a line, or refuse it in one line."""
    try:
        if len(line) > MAX_LINE:
            raise ValueError(f"the line is longer than {MAX_LINE >> 20} MiB")
        worker.commands.put(decode_command(line))
    except Exception as error:  # whatever is wrong with a line, the next one is heard
        worker.emit(Refused(id=_id_of(line), message=f"bad command: {_fault(error)}"))


def _fault(error: Exception) -> str:
    """What is wrong with a line, in words."""
    if isinstance(error, RecursionError):
        return "nested too deeply"
    return "out of memory" if isinstance(error, MemoryError) else " ".join(str(error).split())


def _named(error: Exception) -> str:
    """An unexpected error in one line, its kind and its message; a MemoryError brings no message."""
    if isinstance(error, MemoryError):
        return "out of memory"
    return " ".join(f"{type(error).__name__}: {error}".split())


def _id_of(line: bytes) -> int | None:
    """The id of a line that may not be readable as a whole."""
    match = _ID.search(line[:_HEAD])
    return int(match[1]) if match else None


def _beat(writer: PipeWriter, greeted: threading.Event) -> None:
    """Signs of life for as long as the process lives, never before the first line."""
    greeted.wait()
    while True:
        time.sleep(BEAT_S)
        writer.beat()


@click.command()
@click.option("--target")
@click.option("--draft")
@click.option("--device")
@click.option("--dtype")
@click.option("--threads", type=int)
@click.option("--no-draft", is_flag=True, help="load the target only")
def main(
    target: str | None,
    draft: str | None,
    device: str | None,
    dtype: str | None,
    threads: int | None,
    no_draft: bool,
) -> None:
    """Serve commands on stdin."""
    out, sys.stdout = sys.stdout.buffer, sys.stderr  # a library that prints must not break the wire
    writer = PipeWriter(out)
    try:
        needs_draft = not no_draft and (target is None or (draft or usual_draft(target)) is not None)
        with lean_start(device):
            step = partial(_step, writer)
            pair = load_pair(target, draft, needs_draft, device, dtype, threads, on_loaded=step)
        pair.runtime.begin()
    except SpecvizError as error:
        _give_up(writer, str(error), error.exit_code)
    except MemoryError:
        _give_up(writer, "out of memory while loading the models", 1)
    worker = WorkerLoop(pair, writer.emit)
    writer.on_broken = worker.leave
    for name, work in (("commands", lambda: read_commands(0, worker)), ("beat", lambda: _beat(writer, worker.greeted))):
        threading.Thread(target=work, name=name, daemon=True).start()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: worker.interrupt())
    with contextlib.suppress(KeyboardInterrupt):
        worker.serve()
    writer.close()


_STEPS = {"target": "2 of 3, the draft model", "draft": "3 of 3, how they compute here"}  # behind what is loaded


def _step(writer: PipeWriter, done: str) -> None:
    """Tell whoever waits what is loaded next."""
    writer.emit(State(state="loading", message=f"step {_STEPS[done]}"))


def _give_up(writer: PipeWriter, why: str, code: int) -> NoReturn:
    print(f"specviz: {why}", file=sys.stderr)
    writer.close()
    sys.exit(code)


if __name__ == "__main__":
    main()
