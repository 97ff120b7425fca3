"""The events of a Chrome trace (what torch's profiler exports), one after the other out of a file of any size.

Such files reach hundreds of megabytes, in one line or in millions: a piece is read at a time, and an event is let go
before the next one is asked for.
"""

import json
import re
from collections.abc import Iterator
from typing import IO, Any

from specviz.errors import TraceError

_PIECE = 1 << 20  # characters
_LONGEST = 16 << 20  # characters of one event, and of what stands before the first
_LIST = re.compile(r'^\s*\[|"traceEvents"\s*:\s*\[')
_BETWEEN = re.compile(r"[\s,]*")


def recognised(opening: str) -> bool:
    """Whether a file that begins so is a Chrome trace: an object with `traceEvents`, or the bare list of its events."""
    start = opening.lstrip()[:1]
    return (start == "{" and '"traceEvents"' in opening) or (start == "[" and '"ph"' in opening)


class ChromeEvents:
    """Iterate over it once. `whole`, after that: whether the list came to its end; a file may be cut off."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file
        self._text, self._at = "", 0
        self.whole = False

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Objects alone. Raises TraceError for an event that is no JSON, or that is longer than any."""
        decoder = json.JSONDecoder()
        if not self._begin():
            return
        while True:
            between = _BETWEEN.match(self._text, self._at)
            self._at = between.end() if between is not None else self._at
            if self._text[self._at : self._at + 1] == "]":
                self.whole = True
                return
            try:
                found, self._at = decoder.raw_decode(self._text, self._at)
            except (ValueError, RecursionError):  # most likely it goes on in the next piece
                if not self._more():
                    return
                continue
            if isinstance(found, dict):
                yield found

    def _begin(self) -> bool:
        """Up to the first event."""
        while (start := _LIST.search(self._text)) is None:
            if not self._more():
                return False
        self._at = start.end()
        return True

    def _more(self) -> bool:
        if len(self._text) - self._at > _LONGEST:
            raise TraceError(f"what begins with {self._text[self._at : self._at + 40]!r} is no event of a trace")
        piece = self._file.read(_PIECE)
        self._text, self._at = self._text[self._at :] + piece, 0
        return bool(piece)
