"""What AIPerf prints of speculation at the end of a run: a table with `Acceptance Length (ratio)`, and below it the
steps by how many drafted tokens they kept. Means over the steps of all requests where it has them, else over requests.
"""

import re

from specviz.engines.texts.history import CountHistory, CountWindow
from specviz.engines.texts.lines import LineKind

_ROW = re.compile(r"[│|]\s*([A-Z][\w -]{2,40}?)\s*(?:\((?:ratio|%)\))?\s*[│|]\s*(\d{1,6}\.\d+)\s*[│|]")
_LENGTH, _RATE = "Acceptance Length", "Draft Acceptance Rate"
_MOST = 64  # tables of one text
_STEPS = "Accepted drafts per step (% of steps):"
_STEP = re.compile(r"(\d{1,3}): (\d{1,3})%")


class AiperfTable:
    """One table; a second one of a text is another history."""

    def __init__(self) -> None:
        self._tables: list[dict[str, float]] = []
        self._steps: list[str] = []

    def take(self, line: str) -> bool | None:
        """One line."""
        if _STEPS in line and self._tables:
            parts = [f"{share} % {n}" for n, share in _STEP.findall(line.partition(_STEPS)[2])[:64]]
            self._steps[-1] = f"steps by kept tokens: {', '.join(parts)}" if parts else ""
            return bool(parts)
        row = _ROW.search(line) if _LENGTH in line or _RATE in line else None
        if row is None or len(self._tables) > _MOST:
            return False
        if not self._tables or row[1] in self._tables[-1]:
            self._tables.append({})
            self._steps.append("")
        self._tables[-1][row[1]] = float(row[2])
        return True

    def histories(self) -> list[CountHistory]:
        """One a table."""
        out = []
        for table, steps in zip(self._tables, self._steps, strict=True):
            pooled = "Token-Weighted Acceptance Length" in table
            length = table.get("Token-Weighted Acceptance Length", table.get("Acceptance Length", 0.0))
            rate = table.get("Overall Draft Acceptance Rate", table.get("Draft Acceptance Rate", -1.0)) / 100
            if length < 1:
                continue
            history = CountHistory("AIPerf", "over its requests", notes=[steps] if steps else [])
            if pooled and "Acceptance Length" in table:
                history.notes.append(f"the mean of its requests is {table['Acceptance Length']:.2f}")
            history.add(CountWindow(length=length, rate=rate if 0 <= rate <= 1 else None))
            out.append(history)
        return out


KINDS = (LineKind("the table of AIPerf", (_LENGTH, _RATE, _STEPS), AiperfTable),)
