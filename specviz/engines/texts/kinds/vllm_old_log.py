"""The log of vLLM before 0.8.3: `Speculative metrics: Draft acceptance rate: .., System efficiency: .., Number of
speculative tokens: 16, Number of accepted tokens: 0, Number of draft tokens tokens: 8800, Number of emitted tokens
tokens: 550`: totals since it began, one line a window; the first ones of the new engine tell a window's accepted and
drafted tokens alone.
"""

import re

from specviz.engines.texts.history import CountHistory, CountWindow
from specviz.engines.texts.lines import LineKind
from specviz.engines.texts.numbers import count_after, wall_of

_METRICS = "Speculative metrics:"
_WHOLE = re.compile(r"Number of emitted tokens(?: tokens)?: \d+\.")
_WINDOW = re.compile(r"rate: [\d.]+, Number of accepted tokens: (\d+), Number of draft tokens: (\d+),\s*$")
_EFFICIENCY = (
    "system efficiency there is (kept + 1) / (K + 1), the share of what a round could have written: no acceptance rate"
)


class VllmOldLog:
    """Its totals, taken apart into windows."""

    def __init__(self) -> None:
        self._history = CountHistory(
            "vLLM",
            "over the log",
        )
        self._before = (0, 0, 0)

    def take(self, line: str) -> bool | None:
        """One line."""
        window = _WINDOW.search(line)
        if window is not None:
            self._history.add(CountWindow(wall_of(line), n_drafted=int(window[2]), n_accepted=int(window[1])))
            return True
        if _WHOLE.search(line) is None:
            return None  # a terminal wrapped it
        accepted = count_after(line, "Number of accepted tokens:")
        drafted = _either(line, "Number of draft tokens")
        emitted = _either(line, "Number of emitted tokens")
        most = count_after(line, "Number of speculative tokens:")
        if accepted is None or drafted is None or emitted is None or not most:
            return False
        now = (accepted, drafted, emitted)
        before = self._before if all(a >= b for a, b in zip(now, self._before, strict=True)) else (0, 0, 0)
        self._before = now
        accepted, drafted, emitted = (a - b for a, b in zip(now, before, strict=True))
        totals = CountWindow(
            wall_of(line), n_rounds=drafted // most, n_drafted=drafted, n_accepted=accepted, n_generated=emitted
        )
        self._history.settings["num speculative tokens"] = str(most)
        self._history.notes[:] = [_EFFICIENCY]
        self._history.add(totals)
        return True

    def histories(self) -> list[CountHistory]:
        """One."""
        return [self._history]


def _either(line: str, words: str) -> int | None:
    """A count, as both generations of the line name it."""
    doubled = count_after(line, f"{words} tokens:")
    return count_after(line, f"{words}:") if doubled is None else doubled


KINDS = (LineKind("the Speculative metrics of vLLM before 0.8.3", (_METRICS,), VllmOldLog),)
