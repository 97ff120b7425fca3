"""A server that a page watches: looked at by a thread of its own, so that no script of a page ever waits for it."""

import threading
import time
from contextlib import suppress

from specviz.engines.watch import ServerWatcher, WatchPicture
from specviz.engines.watch.history import packed_history
from specviz.errors import SpecvizError

_FORGOTTEN_S = 60.0  # nobody has asked for the picture so long: the tab is gone


class WatchedServer:
    """Looks every `every` seconds until it is closed, or until no page asks any more.

    `key`: a bearer token. Raises SpecvizError for what is no address; what goes wrong later stands in `problem`.
    """

    def __init__(self, url: str, key: str | None, every: float) -> None:
        self.url, self.every = url, every
        self._watcher = ServerWatcher(url, key)
        self._asked = time.monotonic()
        self._over = threading.Event()
        threading.Thread(target=self._run, name="watch", daemon=True).start()

    def _run(self) -> None:
        while not self._over.is_set():
            with suppress(SpecvizError):  # it stands in `problem`
                self._watcher.look()
            if time.monotonic() - self._asked > _FORGOTTEN_S:
                break
            self._over.wait(self.every)
        self._watcher.close()

    @property
    def picture(self) -> WatchPicture | None:
        """What was seen so far; None before the first look that succeeded."""
        self._asked = time.monotonic()
        return self._watcher.picture

    def history(self) -> bytes:
        """What was seen so far, at least one look, as a file that opens like any trace."""
        return packed_history(self._watcher.looks)

    @property
    def address(self) -> str:
        """Where its counters are."""
        return self._watcher.address

    @property
    def problem(self) -> str | None:
        """Why the last look failed."""
        return self._watcher.problem

    @property
    def over(self) -> bool:
        """Whether it was closed."""
        return self._over.is_set()

    def close(self) -> None:
        """No further look begins; what was seen stays."""
        self._over.set()
