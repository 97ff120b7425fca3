"""The log of vLLM before 0.8: `Speculative metrics: Draft acceptance rate: .., System efficiency: .., Number of
speculative tokens: 16, Number of accepted tokens: 0, Number of draft tokens tokens: 8800, Number of emitted tokens
tokens: 550`: totals since it began, one line a window."""

import re

from specviz.engines.texts.history import CountHistory, CountWindow
from specviz.engines.texts.lines import LineKind
from specviz.engines.texts.numbers import count_after, wall_of

_METRICS = "Speculative metrics:"
_WHOLE = re.compile(r"Number of emitted tokens tokens: \d+\.")
_EFFICIENCY = (
    "system efficiency there is (kept + 1) / (K + 1), the share of what a round could have written: no acceptance rate"
)


class VllmOldLog:
    """Its totals, taken apart into windows."""

    def __init__(self) -> None:
        self._history = CountHistory("vLLM", "over the log", notes=[_EFFICIENCY])
        self._before = (0, 0, 0)

    def take(self, line: str) -> bool | None:
        """One line."""
        if _WHOLE.search(line) is None:
            return None  # a terminal wrapped it
        accepted = count_after(line, "Number of accepted tokens:")
        drafted = count_after(line, "Number of draft tokens tokens:")
        emitted = count_after(line, "Number of emitted tokens tokens:")
        most = count_after(line, "Number of speculative tokens:")
        if accepted is None or drafted is None or emitted is None or not most:
            return False
        now = (accepted, drafted, emitted)
        before = self._before if all(a >= b for a, b in zip(now, self._before, strict=True)) else (0, 0, 0)
        self._before = now
        accepted, drafted, emitted = (a - b for a, b in zip(now, before, strict=True))
        window = CountWindow(
            wall_of(line), n_rounds=drafted // most, n_drafted=drafted, n_accepted=accepted, n_generated=emitted
        )
        self._history.settings["num speculative tokens"] = str(most)
        self._history.add(window)
        return True

    def histories(self) -> list[CountHistory]:
        """One."""
        return [self._history]


KINDS = (LineKind("the Speculative metrics of vLLM before 0.8", (_METRICS,), VllmOldLog),)
