"""Totals that vLLM prints at the end: of its offline example (`num_drafts: 4816`, `acceptance at token 0: 0.72`) and of
`vllm bench serve` (`Drafts: 4816`, `Position 0: 72.00`)."""

import re

from specviz.engines.texts.history import CountHistory, CountWindow
from specviz.engines.texts.lines import LineKind
from specviz.engines.texts.numbers import count_after, number_after, unstamped

_AT = re.compile(r"(?:acceptance at token|Position) (\d{1,3}):\s*(\d+(?:\.\d+)?)")
_COUNTS = {  # what stands in front of a count in either
    "n_rounds": ("num_drafts:", "Drafts:"),
    "n_drafted": ("num_draft_tokens:", "Draft tokens:"),
    "n_accepted": ("num_accepted_tokens:", "Accepted tokens:"),
    "n_generated": ("total_num_output_tokens:", "Total generated tokens:"),
}
_SECONDS = "Benchmark duration (s):"
_SIGNS = ("num_drafts:", "num_draft_tokens:", "num_accepted_tokens:", "Draft tokens:", "Accepted tokens:")
_BESIDE = (
    "Drafts:",
    "total_num_output_tokens:",
    "Total generated tokens:",
    "acceptance at token ",
    "Position ",
    _SECONDS,
)
_MOST = 64  # summaries of one text


class VllmSummary:
    """One summary; a second one in the same text is another history."""

    def __init__(self) -> None:
        self._all: list[tuple[dict[str, int], dict[int, float], float | None]] = []

    def take(self, line: str) -> bool | None:
        """One line."""
        line = unstamped(line).strip()
        place = _AT.search(line)
        if place is not None and int(place[1]) < 256:
            share = float(place[2]) / (100 if "Position" in line else 1)
            if not self._all or share > 1:
                return False
            self._all[-1][1][int(place[1])] = share
            return True
        if _SECONDS in line:
            self._begin("seconds")
            counts, rates, _ = self._all[-1]
            self._all[-1] = counts, rates, number_after(line, _SECONDS)
            return True
        for name, words in _COUNTS.items():
            for word in words:
                if line.startswith(word) and (n := count_after(line, word)) is not None:
                    self._begin(name)
                    self._all[-1][0][name] = n
                    return True
        return False

    def _begin(self, name: str) -> None:
        """A summary begins, where there is none yet or this one has that number."""
        newest = self._all[-1] if self._all else None
        if newest is None or name in newest[0] or (name == "seconds" and newest[2] is not None):
            del self._all[_MOST:]  # what is beyond is begun anew again and again
            self._all.append(({}, {}, None))

    def histories(self) -> list[CountHistory]:
        """One a summary."""
        out = []
        for counts, rates, seconds in self._all:
            rounds = counts.get("n_rounds")
            if not rounds:
                continue
            history = CountHistory("vLLM", "over a benchmark")
            kept = [round(rates.get(k, 0.0) * rounds) for k in range(max(rates, default=-1) + 1)]
            history.began = 0.0 if seconds else None
            history.add(CountWindow(seconds, **counts, kept=kept))
            out.append(history)
        return out


KINDS = (LineKind("the totals that vLLM prints", _SIGNS, VllmSummary, _BESIDE),)
