"""Looks at one server again and again, and keeps what was seen."""

import threading
import time
from pathlib import Path

from specviz.engines.watch.counters import read_counters
from specviz.engines.watch.exposition import read_samples
from specviz.engines.watch.fetch import fetch, metrics_address
from specviz.engines.watch.history import begin_history
from specviz.engines.watch.picture import WatchPicture, picture_of
from specviz.errors import SpecvizError
from specviz.events import Counted
from specviz.trace import Recorder

MOST_LOOKS = 3600  # kept in memory; beyond that every second one of the older half goes, the history keeps all


class ServerWatcher:
    """One server. `look` may run on a thread of its own while others read the picture.

    `key`: a bearer token. `history`: the trace that every look is written to. Raises SpecvizError for a bad address.
    """

    def __init__(self, url: str, key: str | None = None, history: Path | None = None) -> None:
        self.address = metrics_address(url)
        self.problem: str | None = None  # why the last look failed
        self._key, self._history = key, history
        self._recorder: Recorder | None = None
        self._looks: list[Counted] = []
        self._lock = threading.Lock()

    def look(self) -> Counted:
        """One look. Raises SpecvizError, which stands in `problem` until one succeeds; what was seen stays."""
        try:
            text = fetch(self.address, self._key)
            seen = read_counters(read_samples(text, self.address), time.time(), self.address)
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

    def _keep(self, seen: Counted) -> None:
        self._looks.append(seen)
        if len(self._looks) > MOST_LOOKS:
            half = MOST_LOOKS // 2
            self._looks = [*self._looks[:half:2], *self._looks[half:]]
        if self._recorder is not None:
            self._recorder.write(seen)
        elif self._history is not None:
            self._recorder = begin_history(self._history, seen)

    @property
    def picture(self) -> WatchPicture | None:
        """What was seen so far; None before the first look."""
        with self._lock:
            looks = list(self._looks)
        return picture_of(looks) if looks else None

    @property
    def kept_in(self) -> Path | None:
        """The file with the history, if there is one."""
        return self._recorder.path if self._recorder is not None else None

    def close(self) -> None:
        """Ends the history."""
        if self._recorder is not None:
            self._recorder.close("stopped")
