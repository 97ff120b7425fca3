"""`LineBatch`: records to lines, a round at a time: one by one they take longer, and wake the writer for each."""

import threading
from collections.abc import Callable
from typing import Any

from specviz.events import Event, encode_lines

MOST_WAITING = 4096  # records inside a round; those of no round come by the thousand too (`exit_table`)


class LineBatch:
    """Takes records, from several threads; `write` gets the lines of a round, or of a record that is part of none."""

    def __init__(self, write: Callable[[bytes], Any]) -> None:
        self._write = write
        self._lock = threading.Lock()  # also keeps what is written in the order of the records
        self._waiting: list[Event] = []

    def take(self, event: Event) -> None:
        """One more record; with all that wait it is written at once, unless its round goes on."""
        with self._lock:
            self._waiting.append(event)
            if not event.inside_round or len(self._waiting) >= MOST_WAITING:
                self._send()

    def flush(self) -> None:
        """Write what waits."""
        with self._lock:
            if self._waiting:
                self._send()

    def _send(self) -> None:
        waiting, self._waiting = self._waiting, []  # first: an event that cannot be written must not block later ones
        self._write(encode_lines(waiting))
