"""Looks at one server again and again, and keeps what was seen."""

import threading
import time
from itertools import pairwise
from pathlib import Path

from specviz.engines.asking import signed_in
from specviz.engines.watch.counters import read_counters
from specviz.engines.watch.exposition import read_samples
from specviz.engines.watch.fetch import NoCounters, fetch, metrics_address
from specviz.engines.watch.history import begin_history
from specviz.engines.watch.picture import WatchPicture, began_again, picture_of
from specviz.engines.watch.slots import SlotReader
from specviz.errors import SpecvizError
from specviz.events import Counted
from specviz.trace import Recorder

MOST_LOOKS = 3600  # kept in memory; the history keeps all


def thinned(looks: list[Counted]) -> list[Counted]:
    """Without every second look of the older half, and with the same sums: where the server began again the looks on
    either side stay, for what was counted up to there is told by them alone. A server that begins again at every look
    loses some of that in place of all memory.
    """
    half = len(looks) // 2
    again = [began_again(before, after) for before, after in pairwise(looks)]
    edges = {k + side for k, anew in enumerate(again) if anew for side in (0, 1)}
    kept = [look for k, look in enumerate(looks[:half]) if k % 2 == 0 or k in edges]
    return [*(kept if len(kept) < half else kept[::2]), *looks[half:]]


class ServerWatcher:
    """One server. `look` may run on a thread of its own while others read the picture.

    `key`: a bearer token. `history`: the trace that every look is written to. Raises SpecvizError for a bad address.
    """

    def __init__(self, url: str, key: str | None = None, history: Path | None = None) -> None:
        self.address = metrics_address(url)
        self.problem: str | None = None  # why the last look failed
        self._key, self._history = signed_in(url, key), history
        self._recorder: Recorder | None = None
        self._looks: list[Counted] = []
        self._lock = threading.Lock()
        self._slots: SlotReader | None = None  # where the server has no counters

    def look(self) -> Counted:
        """One look. Raises SpecvizError, which stands in `problem` until one succeeds; what was seen stays."""
        try:
            seen = self._read()
            if self._looks and seen.engine != self._looks[-1].engine:
                raise SpecvizError(
                    f"{self.address} is {seen.engine} now and was {self._looks[-1].engine}: watch it anew"
                )
        except SpecvizError as error:
            self.problem = str(error)
            raise
        seen.t = time.monotonic_ns()
        with self._lock:
            self._keep(seen)
        self.problem = None
        return seen

    def _read(self) -> Counted:
        if self._slots is not None:
            return self._slots.read(fetch(self._slots.address, self._key), time.time())
        try:
            text = fetch(self.address, self._key)
        except NoCounters:
            slots = SlotReader(self.address.removesuffix("metrics") + "slots")
            try:
                seen = slots.read(fetch(slots.address, self._key), time.time())
            except SpecvizError:
                seen = None
            if seen is None:
                raise
            self._slots, self.address = slots, slots.address
            return seen
        return read_counters(read_samples(text, self.address), time.time(), self.address)

    def _keep(self, seen: Counted) -> None:
        self._looks.append(seen)
        if len(self._looks) > MOST_LOOKS:
            self._looks = thinned(self._looks)
        if self._recorder is not None:
            self._recorder.write(seen)
        elif self._history is not None:
            self._recorder = begin_history(self._history, seen)

    @property
    def looks(self) -> list[Counted]:
        """What is in memory, oldest first."""
        with self._lock:
            return list(self._looks)

    @property
    def picture(self) -> WatchPicture | None:
        """What was seen so far; None before the first look."""
        looks = self.looks
        return picture_of(looks) if looks else None

    @property
    def kept_in(self) -> Path | None:
        """The file with the history, if there is one."""
        return self._recorder.path if self._recorder is not None else None

    def close(self) -> None:
        """Ends the history."""
        if self._recorder is not None:
            self._recorder.close("stopped")
