"""The core in a process of its own: commands in on stdin, the trace's own lines out on stdout, narration on stderr.

First line: the catalogue. Models are loaded once and stay; runs follow one another. A thread reads commands, another
writes lines from an unbounded queue, so decoding never waits for a reader (contract.md 4, Wire).
"""

import contextlib
import os
import queue
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

import click
import msgspec

from specviz.engine.local import LocalRun, Pair, load_pair
from specviz.engine.missing import missing
from specviz.errors import SpecvizError
from specviz.events import Catalogue, Event, MethodInfo, Refused, State, VerifierInfo, encode
from specviz.methods import all_methods
from specviz.verifiers import all_verifiers
from specviz.wire import (
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


class Writer:
    """Lines to a stream from a thread of its own."""

    def __init__(self, stream: BinaryIO) -> None:
        self._queue: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._stream = stream
        self.broken = False
        self._thread = threading.Thread(target=self._write, name="writer", daemon=True)
        self._thread.start()

    def emit(self, event: Event) -> None:
        """Queue one event."""
        self._queue.put(encode(event) + b"\n")

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
                self.broken = True
                return

    def close(self) -> None:
        """Write what is queued, then stop."""
        self._queue.put(None)
        self._thread.join(timeout=10)


class Worker:
    """The command loop. Between rounds it looks at what was asked for."""

    def __init__(self, pair: Pair, emit: Callable[[Event], None], gone: Callable[[], bool] = lambda: False) -> None:
        self.pair, self.emit, self.gone = pair, emit, gone
        self.commands: queue.SimpleQueue[Command | None] = queue.SimpleQueue()
        self.run: LocalRun | None = None
        self.holding = False
        self.steps = 0
        self.closing = False

    def catalogue(self) -> Catalogue:
        """What this worker can run, and of the other methods what they lack here."""
        methods = [
            MethodInfo(
                name=m.name, help=m.help, needs_draft=m.needs_draft, verifiers=list(m.verifiers),
                default_verifier=m.default_verifier, knobs=list(m.table.specs), missing=missing(m, self.pair),
            )
            for m in all_methods().values()
        ]  # fmt: skip
        verifiers = [
            VerifierInfo(name=v.name, lossless=v.lossless, keeps_tokens=v.keeps_tokens, help=v.help)
            for v in all_verifiers().values()
        ]
        return Catalogue(methods=methods, verifiers=verifiers, models=self.pair.infos)

    def serve(self) -> None:
        """Carry out commands until shutdown or the end of stdin."""
        self.emit(self.catalogue())
        self.emit(State(state="idle"))
        while not self.closing:
            command = self.commands.get()
            if isinstance(command, Start):
                self._start(command)
            else:
                self._obey(command)

    def _start(self, start: Start) -> None:
        try:
            self.run = LocalRun(self.pair, start, self.emit)
        except SpecvizError as error:
            self.emit(Refused(id=start.id, message=str(error)))
            return
        except Exception as error:  # a request nobody thought of must not take the loaded models along
            self.emit(Refused(id=start.id, message=f"cannot start: {type(error).__name__}: {error}"))
            return
        self.holding, self.steps = start.paused, 0
        self.emit(State(state="paused" if start.paused else "running"))
        try:
            self._decode(self.run)
        except Exception as error:  # already in the trace as `end`, reason error
            print(f"specviz worker: {type(error).__name__}: {error}", file=sys.stderr)
        finally:
            self.run = None
            self.emit(State(state="idle"))

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
            if self.gone():
                raise BrokenPipeError
            held = self.holding and not self.steps and not self.closing and not run.stopping
            try:
                command = self.commands.get(block=held)
            except queue.Empty:
                return
            self._obey(command)

    def _obey(self, command: Command | None) -> None:
        if command is None or isinstance(command, Shutdown):
            self.closing = True
            if self.run:
                self.run.stop()
        elif isinstance(command, Start):
            self._refuse(command, "a run is going on: stop it first")
        elif self.run is None:
            self._refuse(command, "nothing is running: start a run first")
        else:
            self._control(self.run, command)

    def _control(self, run: LocalRun, command: Command) -> None:
        if isinstance(command, SetKnob):
            try:
                run.set_knob(command.name, command.value, command.by)
            except SpecvizError as error:
                self._refuse(command, str(error))
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
        self.closing = True
        if self.run:
            self.run.stop("cancelled")
        self.commands.put(None)  # wakes a worker that waits; putting is safe in a handler

    def _refuse(self, command: Command, why: str) -> None:
        self.emit(Refused(id=command.id, message=why))


def lines(fd: int) -> Iterator[bytes]:
    """Lines of a file descriptor; not through `sys.stdin`, whose lock a thread would hold when the interpreter ends."""
    rest = b""
    while chunk := os.read(fd, 1 << 16):
        *whole, rest = (rest + chunk).split(b"\n")
        yield from whole
    yield rest


def read_commands(fd: int, worker: Worker) -> None:
    """Queue commands until the stream ends; a bad line is refused, not fatal."""
    for line in lines(fd):
        if not line.strip():
            continue
        try:
            worker.commands.put(decode_command(line))
        except (msgspec.ValidationError, msgspec.DecodeError) as error:
            worker.emit(Refused(id=_id_of(line), message=f"bad command: {error}"))
    worker.commands.put(None)


def _id_of(line: bytes) -> Any:
    try:
        found = msgspec.json.decode(line)
    except msgspec.DecodeError:
        return None
    return found.get("id") if isinstance(found, dict) else None


@click.command()
@click.option("--target")
@click.option("--draft")
@click.option("--device")
@click.option("--dtype")
@click.option("--threads", type=int)
@click.option("--draft-device", help="where the draft model runs")
@click.option("--no-draft", is_flag=True, help="load the target only")
def main(
    target: str | None, draft: str | None, device: str | None, dtype: str | None, threads: int | None,
    draft_device: str | None, no_draft: bool,
) -> None:  # fmt: skip
    """Serve commands on stdin."""
    out, sys.stdout = sys.stdout.buffer, sys.stderr  # a library that prints must not break the wire
    writer = Writer(out)
    try:
        needs_draft = not no_draft and (draft is not None or target is None)
        pair = load_pair(target, draft, needs_draft, device, dtype, threads, draft_device)
    except SpecvizError as error:
        print(f"specviz: {error}", file=sys.stderr)
        writer.close()
        sys.exit(error.exit_code)
    worker = Worker(pair, writer.emit, lambda: writer.broken)
    threading.Thread(target=read_commands, args=(0, worker), name="commands", daemon=True).start()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: worker.interrupt())
    with contextlib.suppress(KeyboardInterrupt):
        worker.serve()
    writer.close()


if __name__ == "__main__":
    main()
