"""The table of llama.cpp's benchmark of speculation: `code_python  pred= 192 draft= 207 acc= 139 rate=0.671
tok/s=94.7`, a line a kind of prompt."""

import re

from specviz.engines.texts.history import CountHistory, CountWindow
from specviz.engines.texts.lines import LineKind
from specviz.engines.texts.numbers import unstamped

_ROW = re.compile(
    r"^\s*([\w.-]{1,60})\s+pred=\s*(\d+)\s+draft=\s*(\d+)\s+acc=\s*(\d+)(?:\s+rate=\s*[\d.]+)?(?:\s+tok/s=\s*([\d.]+))?"
)


class LlamaBenchTable:
    """Rows of one table."""

    def __init__(self) -> None:
        self._history = CountHistory("llama.cpp", "over a benchmark", parts_of="prompts")
        self._seconds = 0.0

    def take(self, line: str) -> bool | None:
        """One line."""
        row = _ROW.match(unstamped(line))
        if row is None:
            return False
        n, drafted, accepted = (int(row[k]) for k in (2, 3, 4))
        speed = float(row[5]) if row[5] else 0.0
        self._seconds += n / speed if speed else 0.0
        window = CountWindow(None, max(0, n - accepted - 1), drafted, accepted, n)
        window.wall = self._seconds if speed else None
        self._history.add(window, row[1])
        return True

    def histories(self) -> list[CountHistory]:
        """One."""
        self._history.began = 0.0 if self._seconds else None
        return [self._history]


KINDS = (LineKind("the table of llama.cpp's benchmark", (" pred=",), LlamaBenchTable),)
