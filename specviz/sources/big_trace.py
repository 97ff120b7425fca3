"""`BigTrace`: a recording too long to be read before its first round is shown.

With an index (`specviz.trace.index`) the run is available at once, and rounds are read on demand. Without one the first
rounds are shown while a child process reads the recording and writes the index; then the whole run replaces them. Where
no index can be written the rest is read in this process, a little at a time.
"""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from specviz.commands import Command
from specviz.events import Event
from specviz.runlog.fold import Run
from specviz.sources.base import Source, TraceFile, unchangeable
from specviz.trace import Trace, resolve
from specviz.trace.index import index_path
from specviz.trace.indexing import Counting, indexed, write_index

if TYPE_CHECKING:
    from specviz.view.frame.judgement import CountedRun

BIG, BIG_PACKED = 16 << 20, 2 << 20  # bytes of a file from which on it is big: about half a second of reading
_FIRST_S = 0.25  # of reading before the first picture
_SLICE_S = 0.02  # of reading at a time, after it
_CHECK = 64  # records between two looks at the clock


def recording(path: Path | str) -> Source:
    """The source of a recording, by its size. One that still grows is followed. Raises TraceError."""
    resolved = resolve(path)
    try:
        size = resolved.stat().st_size
    except OSError:
        size = 0  # opening it says why
    if size < (BIG_PACKED if resolved.suffix == ".gz" else BIG):
        return TraceFile(resolved)
    source = BigTrace(resolved)
    if source.trace.growing:
        source.close()
        return TraceFile(resolved)
    return source


class BigTrace:
    """A finished recording. `whole()` gives the run of all rounds once it is there; until then `poll()` gives the first
    rounds, and `progress` says how far the index is.

    `index`: where it is kept; None: the usual place, or where that cannot be written, a temporary one.
    """

    live, silence = False, None

    def __init__(self, path: Path, index: Path | None = None) -> None:
        self.trace = Trace(path)  # raises TraceError before anything is begun
        self.ended = False
        self._events = self.trace.read()
        self._begun = False  # the first rounds were read
        self._own: tempfile.TemporaryDirectory[str] | None = None
        self._index = index or self._place(path)
        self._maker: Maker | None = None
        self._found = indexed(path, self._index)
        self._told = False
        if self._found is None:
            self._maker = Maker(path, self._index)

    def _place(self, path: Path) -> Path:
        place = index_path(path)
        with contextlib.suppress(OSError):
            place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if os.access(place.parent, os.W_OK):
            return place
        self._own = tempfile.TemporaryDirectory(prefix="specviz-")
        return Path(self._own.name) / place.name

    @property
    def progress(self) -> float | None:
        """Share of the recording that is indexed, 0..1; None once every round can be shown."""
        if self._found is not None or self.ended:
            return None
        return self._maker.progress if self._maker is not None else self.trace.share

    def whole(self) -> "tuple[Run, CountedRun | None] | None":
        """The run of all rounds, once; None before it is there, and ever after."""
        if self._found is None and self._maker is not None and self._maker.ended:
            self._found, self._maker = indexed(self.trace.path, self._index), None
        if self._found is None or self._told:
            return None
        from specviz.view.judge.kept import read_counted  # numpy: only where there are metrics

        self._told = self.ended = True
        return self._found.run, read_counted(self._found.counted)

    def poll(self) -> list[Event]:
        """The first rounds; where no index can be made, then all others bit by bit. Raises TraceError."""
        if self._found is not None or (self._begun and self._maker is not None):
            return []
        until = time.monotonic() + (_SLICE_S if self._begun else _FIRST_S)
        self._begun = True
        events: list[Event] = []
        for event in self._events:
            events.append(event)
            if len(events) % _CHECK == 0 and time.monotonic() > until:
                return events
        self.ended = True
        return events

    def send(self, command: Command) -> None:
        raise unchangeable(self.trace.path, command)

    def close(self) -> None:
        """Close the files; an unfinished index is discarded."""
        if self._maker is not None:
            self._maker.close()
        if self._found is not None:
            self._found.close()
        self.trace.close()
        if self._own is not None:
            self._own.cleanup()


class Maker:
    """Makes an index in a process of its own, so that the screen never waits for it."""

    def __init__(self, trace: Path, into: Path) -> None:
        self._done = 0.0
        argv = [sys.executable, "-m", "specviz.sources.big_trace", str(trace), str(into)]
        try:
            self._process: subprocess.Popen[str] | None = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            )
        except OSError:
            self._process = None
            return
        threading.Thread(target=self._listen, args=(self._process,), daemon=True).start()

    def _listen(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None
        with process.stdout as lines:
            for line in lines:
                self._done = float(line)

    @property
    def progress(self) -> float:
        return self._done

    @property
    def ended(self) -> bool:
        """Whether it has come to its end, well or not."""
        return self._process is None or self._process.poll() is not None

    def close(self) -> None:
        """End it; what it has made so far goes."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait()


def main(path: str, into: str) -> None:
    """Make the index of a trace; writes how far it has come, 0 to 1, a line each."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # leaves nothing half made
    if sys.platform != "win32":
        os.nice(5)
    from specviz.view.play.build import FrameBuilder

    trace = Path(path)
    size = _plain_size(trace)

    builders: list[FrameBuilder] = []  # counts what leaves memory, as on a screen
    counting = Counting(lambda run: builders.append(FrameBuilder(run)), lambda run: builders[0].counted())
    write_index(trace, Path(into), counting, lambda n_bytes: print(min(1.0, n_bytes / size), flush=True))


def _plain_size(trace: Path) -> int:
    """Bytes of plain text; of a zipped file as it says itself, which is enough for words on progress."""
    size = trace.stat().st_size
    with trace.open("rb") as file:
        if file.read(2) != b"\x1f\x8b":
            return max(size, 1)
        file.seek(-4, os.SEEK_END)
        return max(int.from_bytes(file.read(4), "little"), 1)


if __name__ == "__main__":
    main(*sys.argv[1:3])
