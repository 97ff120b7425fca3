"""The table of `llama-spec-bench` (ik_llama.cpp): `| code | mtp | 5 | 5 | 37.4/1.5 | 92.2%/1.8% | 3.76/0.06 |`, means
by task and stage with their spread over the runs."""

import re
from statistics import fmean

from specviz.engines.texts.history import CountHistory, CountWindow
from specviz.engines.texts.lines import LineKind

_NUMBER = r"(\d{1,9}(?:\.\d{1,9})?)"
_ROW = re.compile(
    r"([\w.-]{1,60})\s*\|\s*([\w.-]{1,60})\s*\|\s*(\d{1,6})\s*\|\s*\d{1,6}\s*\|"
    rf"\s*{_NUMBER}/[\d.]+\s*\|\s*{_NUMBER}%/[\d.]+%\s*\|\s*{_NUMBER}/[\d.]+\s*\|"
)
_MOST = 256
_BARS = 6  # between and behind the cells of a row, without its first one


class LlamaSpecBench:
    """Rows of one table."""

    def __init__(self) -> None:
        self._rows: list[tuple[float, float]] = []  # tokens a round, and kept of drafted
        self._notes: list[str] = []

    def take(self, line: str) -> bool | None:
        """One line."""
        row = _ROW.search(line) if line.count("|") >= _BARS else None
        if row is None or float(row[6]) < 1 or float(row[5]) > 100 or len(self._rows) >= _MOST:
            return False
        self._rows.append((float(row[6]), float(row[5]) / 100))
        self._notes.append(f"{row[1]}, {row[2]}: {row[6]} tokens a round, {row[5]}% kept, {row[4]} tok/s")
        return True

    def histories(self) -> list[CountHistory]:
        """One over all tasks, whose means count alike."""
        length, rate = (fmean(values) for values in zip(*self._rows, strict=True))
        history = CountHistory("llama.cpp", f"mean of {len(self._rows)} tasks", notes=self._notes)
        history.add(CountWindow(length=length, rate=rate))
        return [history]


KINDS = (LineKind("the table of llama-spec-bench", (), LlamaSpecBench, ("%/",)),)
