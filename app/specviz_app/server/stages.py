"""`RunStore`: recordings as the stage plays them, opened once for all tabs; rounds are made when a page asks for them.

A page offers a trace and gets a key. With it and the token of the server its painter fetches the head and then rounds,
one or a few at a time: nobody holds a long run in finished form. Made in threads of the server, never on its loop.
"""

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from itertools import islice
from pathlib import Path

import msgspec
from msgspec import structs

from specviz.errors import SpecvizError
from specviz.events import Event, Header
from specviz.runlog.fold import Run
from specviz.trace import Trace
from specviz.view import Options
from specviz.view.play.build import FrameBuilder
from specviz.view.stage.document import further, head, one_round, wire
from specviz.view.stage.moments import OPTIONS
from specviz.view.stage.page import page
from specviz.view.stage.what_if import what_if_round
from specviz.whatif import Change
from specviz_app.server.sharing import Taken, prepared

MOST_ROUNDS = 8  # that one request may ask for
AT_A_TIME = 20_000  # records of a recording that are read for one request
_OPEN = 4  # recordings that stay open
_OFFERED = 256  # that are remembered
# How much of a draft a page draws, and whether nodes say where they came from.
VIEWS = {
    "": OPTIONS,
    "losers": Options(folding="losers"),
    "none": Options(folding="none"),
    "ranks": Options(shown=("ranks",)),
    "ranks-none": Options(folding="none", shown=("ranks",)),
}
Reading = Callable[[], Iterable[Event | None]]  # None: no more for now


def view_of(name: str) -> Options:
    """How rounds are drawn, by its name on the wire. Raises SpecvizError."""
    if name not in VIEWS:
        raise SpecvizError(f"no view '{name[:20]}' of a round; there are {', '.join(filter(None, VIEWS))}")
    return VIEWS[name]


def _read(path: Path) -> Iterable[Event | None]:
    """The events of a trace; None wherever no more has been recorded so far."""
    with Trace(path) as trace:
        while True:
            growing = trace.growing  # asked first: what is written before the recorder lets go must still be read
            yield from trace.read()
            if not growing:
                return
            yield None


@dataclass(frozen=True)
class _File:
    """What a recording was like when it was looked at. A recorder packs it at its end, into another file."""

    growing: bool
    header: Header | None
    state: os.stat_result

    @classmethod
    def at(cls, path: Path) -> "_File":
        """Raises TraceError."""
        with Trace(path) as trace:
            return cls(trace.growing, trace.header, trace.path.stat())  # in this order: what is finished does not grow

    @property
    def mark(self) -> tuple[int, int]:
        return self.state.st_size, self.state.st_mtime_ns

    def became(self, now: "_File") -> bool:
        """Whether that is the same recording, with more in it or not."""
        if not self.growing:
            return now.mark == self.mark
        same = now.state.st_ino == self.state.st_ino
        return now.header == self.header and (not same or now.state.st_size >= self.state.st_size)


class RecordedRun:
    """One recording, read as far as somebody asks for. A fold reads rounds back into memory, so one thread at a time
    asks.

    Whatever is asked raises SpecvizError for a trace that cannot be read.
    """

    def __init__(self, read: Reading, name: str) -> None:
        self._read_events, self._name = read, name
        self._lock = threading.Lock()
        self._begin()

    def _begin(self) -> None:
        self._builder = FrameBuilder(Run())  # it counts every round while that is in memory
        self._events: Iterator[Event | None] | None = None  # what was not read yet; None: nothing was
        self._whole, self._head = False, b""
        self._waits = False  # all that is there was read, and it is still recorded

    def _read(self, most: int | None = None) -> FrameBuilder:
        """Under the lock. The run as far as it was recorded, or so many records further than it was read."""
        if self._whole and not self._waits:
            return self._builder
        if self._events is None:
            self._events = iter(self._read_events())
        run = self._builder.run
        before = run.version
        try:
            self._waits = False
            for event in islice(self._events, most):
                if event is None:  # up to where the recorder has come
                    self._waits = True
                    break
                run.apply(event)
        except BaseException:
            self._begin()
            raise
        if run.version != before:
            self._head = b""
        self._whole = self._waits or most is None or run.version - before < most
        return self._builder

    def head(self) -> bytes:
        """The head as JSON. Of a long recording it is that of the part that was read, and says so (`more`)."""
        with self._lock:
            if self._events is None or self._waits:
                self._read(AT_A_TIME)
            while not self._builder.run.rounds and not self._whole:
                self._read(AT_A_TIME)
            if not self._head:
                first_part = structs.replace(head(self._builder, self._name), more=not self._whole)
                if not self._whole:
                    return msgspec.json.encode(first_part)
                self._head = msgspec.json.encode(first_part)
            return self._head

    def further(self, since: int) -> bytes:
        """A part more is read: the time line from a round on, all prompts, and whether there is still more, as JSON."""
        with self._lock:
            if self._events is None or self._waits or not self._whole:
                self._read(AT_A_TIME)
            return msgspec.json.encode(further(self._builder, since, not self._whole))

    def rounds(self, first: int, n: int, view: str = "") -> bytes:
        """Some rounds, as a JSON list. Raises SpecvizError for a round or a view that is not there."""
        with self._lock:
            if self._waits:
                self._read(AT_A_TIME)
            while len(self._builder.run.rounds) <= max(0, first) + MOST_ROUNDS and not self._whole:
                self._read(AT_A_TIME)
            builder = self._builder
            last = len(builder.run.rounds)
            if not 0 <= first < last:
                raise SpecvizError(f"no round {first} here; there are {last}, counted from 0")
            upto = min(last, first + max(1, min(n, MOST_ROUNDS)))
            options = view_of(view)
            return wire([one_round(builder, k, options) for k in range(first, upto)])

    def what_if(self, index: int, change: Change) -> bytes:
        """A round with something changed, as JSON. Raises SpecvizError for what cannot be asked of it."""
        with self._lock:
            return msgspec.json.encode(what_if_round(self._read(), index, change))

    def page(self) -> str:
        """The whole run as one HTML file."""
        with self._lock:
            return page(self._read(), self._name)

    def share(self, wanted: Taken) -> bytes:
        """A film or the tables of it. Raises SpecvizError; others are not held up while it is drawn."""
        with self._lock:
            make = prepared(self._read(), wanted)
        return make()


class RunStore:
    """The recordings that pages of this server show. May be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._offered: OrderedDict[str, tuple[Reading, str]] = OrderedDict()
        self._open: OrderedDict[str, RecordedRun] = OrderedDict()
        self._followed: dict[tuple[Path, str], tuple[str, _File]] = {}  # that were growing when they were offered first

    def offer(self, path: Path, name: str) -> str:
        """A key for a trace as it is now. One that is still recorded keeps its key, over its end as well; a file that
        has changed in another way gets a new one. Raises TraceError."""
        now = _File.at(path)
        words = f"{path.absolute()}\0{name}\0{now.mark}"
        key = blake2b(words.encode("utf-8", "surrogateescape"), digest_size=12).hexdigest()
        with self._lock:
            known, before = self._followed.pop((path, name), (key, None))
            goes_on = before is not None and before.became(now)
            key = known if goes_on else key
            if now.growing or goes_on:
                self._followed[path, name] = key, now
        return self._remember(key, partial(_read, path), name)

    def offer_events(self, read: Reading, name: str) -> str:
        """A key for a run that is over and lies in no file: `read` gives its events, or raises SpecvizError."""
        return self._remember(blake2b(f"past\0{name}".encode(), digest_size=12).hexdigest(), read, name)

    def _remember(self, key: str, read: Reading, name: str) -> str:
        with self._lock:
            self._offered[key] = (read, name)
            self._offered.move_to_end(key)
            while len(self._offered) > _OFFERED:
                self._offered.popitem(last=False)
        return key

    def run(self, key: str) -> RecordedRun:
        """The recording of a key, opened if it is not. Raises SpecvizError for one that no page offered."""
        with self._lock:
            if key not in self._offered:
                raise SpecvizError("this server does not show that run (it was started anew?); reload the page")
            if key not in self._open:
                self._open[key] = RecordedRun(*self._offered[key])
                while len(self._open) > _OPEN:
                    self._open.popitem(last=False)
            self._open.move_to_end(key)
            return self._open[key]
