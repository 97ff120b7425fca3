"""The log of llama.cpp's server as it is by default: `draft acceptance = 0.684 ( 128 accepted / 187 generated)` behind
every request (`draft acceptance rate =` in older builds), and `statistics draft-mtp: #calls(b,g,a) = .., #gen drafts =
281, .., #gen tokens = 560, #acc tokens = 461, ..` since it began, one line a drafter. At higher verbosity every round
is told: `accepted 3/16 draft tokens`.
"""

import re

from specviz.engines.texts.history import CountHistory, CountPart, CountWindow
from specviz.engines.texts.lines import LineKind
from specviz.engines.texts.numbers import shares, wall_of

_KEPT = re.compile(r"draft acceptance(?: rate)? = [\d.]+ \(\s*(\d+) accepted /\s*(\d+) generated\)")
_ROUND = re.compile(r"\baccepted\s+(\d{1,4})/\s*(\d{1,4}) draft tokens")
_STATISTICS = re.compile(r"statistics\s+([\w-]{1,40}):\s*#calls(?:\(b,g,a\))?\s*=\s*([\d ]+),(.*)")
_VALUE = re.compile(r"#(gen drafts|acc drafts|gen tokens|acc tokens)\s*=\s*(\d+)")
_RATES = re.compile(r"(?:#acc rate/pos|acceptance rate per position) = \(([^)]*)\)")
_EVAL = re.compile(r"^\s*(?:.*\|)?\s*eval time =\s*[\d.]+ ms /\s*(\d+) tokens")
_MODEL = re.compile(r"loading (draft )?model '([^']{1,400})'")
_CACHE = re.compile(r"\bK \((\w{1,10})\):.*\bV \((\w{1,10})\):")
_TASK = re.compile(r"\btask (\d+) \|")


class LlamaServerLog:
    """Requests one by one, or the totals by drafter where the log has them."""

    def __init__(self) -> None:
        self._history = CountHistory("llama.cpp", "over the log", parts_of="drafter")
        self._n_tokens: int | None = None  # of the request that is being told
        self._totals: dict[str, tuple[int, int, int, int, list[float]]] = {}
        self._requests: list[CountWindow] = []
        self._caches: list[str] = []
        self._rounds: list[tuple[int, int]] = []  # accepted and drafted
        self._n_answers = 0

    def take(self, line: str) -> bool | None:
        """One line."""
        kept, statistics = _KEPT.search(line), _STATISTICS.search(line)
        if kept is not None:
            self._request(line, int(kept[1]), int(kept[2]))
            return True
        if statistics is not None:
            return self._statistic(statistics)
        if (told := _ROUND.search(line)) is not None:
            self._rounds.append((int(told[1]), int(told[2])))
            return True
        if (tokens := _EVAL.search(line)) is not None and "prompt eval" not in line:
            self._n_tokens = int(tokens[1])
            self._n_answers += 1
        elif (model := _MODEL.search(line)) is not None:
            name = model[2].rpartition("/")[2]
            if model[1]:
                self._history.settings["draft model"] = name
            elif name not in self._history.models:
                self._history.models.append(name)
        elif (cache := _CACHE.search(line)) is not None:
            self._caches.append(f"K {cache[1]}, V {cache[2]}")
            self._history.settings["K/V caches"] = " and ".join(dict.fromkeys(self._caches))
        return False

    def _request(self, line: str, accepted: int, drafted: int) -> None:
        """Every round writes what it accepts and one token more."""
        rates = _RATES.search(line)
        rounds = None if self._n_tokens is None else max(0, self._n_tokens - accepted)
        by_position = shares(rates[1]) if rates is not None and rounds else []
        kept = [round(rate * (rounds or 0)) for rate in by_position]
        window = CountWindow(wall_of(line), rounds, drafted, accepted, self._n_tokens, kept)
        self._requests.append(window)
        self._n_tokens = None

    def _statistic(self, match: re.Match[str]) -> bool:
        name, calls, rest = match[1], match[2].split(), match[3]
        values = {key: int(n) for key, n in _VALUE.findall(rest)}
        if "gen tokens" not in values or "acc tokens" not in values:
            return False
        rates = _RATES.search(rest)
        n_calls = int(calls[1] if len(calls) > 1 else calls[0]) if calls else 0
        told = values.get("gen drafts", 0), values["gen tokens"], values["acc tokens"], n_calls
        self._totals[name] = (*told, shares(rates[1]) if rates is not None else [])
        return True

    def histories(self) -> list[CountHistory]:
        """One: by drafter where totals were told, else by request."""
        if self._totals and any(total[0] for total in self._totals.values()):
            self._by_drafter()
        else:
            for window in self._requests or self._from_rounds():
                self._history.add(window)
        if 0 < len(self._requests) < self._n_answers:
            without = self._n_answers - len(self._requests)
            self._history.notes.append(f"in {without} of {self._n_answers} answers nothing was drafted")
        return [self._history]

    def _from_rounds(self) -> list[CountWindow]:
        """One window over all rounds; builds before 2026 logged 0 drafted tokens for every one of them."""
        if not self._rounds:
            return []
        accepted, drafted = (sum(counts) for counts in zip(*self._rounds, strict=True))
        kept = [sum(n > k for n, _ in self._rounds) for k in range(min(256, max(n for n, _ in self._rounds)))]
        whole = all(n <= most for n, most in self._rounds)
        if not whole:
            self._history.notes.append("this build logs no drafted tokens: rounds say more accepted than drafted")
        return [CountWindow(None, len(self._rounds), drafted if whole else None, accepted, None, kept)]

    def _by_drafter(self) -> None:
        wall = self._requests[-1].wall if self._requests else None
        generated = sum(window.n_generated or 0 for window in self._requests)
        for name, (rounds, drafted, accepted, n_calls, rates) in self._totals.items():
            kept = [round(rate * rounds) for rate in rates]
            self._history.add(CountWindow(wall, rounds, drafted, accepted, None, kept), name)
            self._history.parts[name] = CountPart(rounds, accepted, drafted, n_calls)
            self._history.settings.setdefault("drafters", "")
        self._history.settings["drafters"] = ", ".join(self._totals)
        if generated and len(self._requests) == 1:
            self._history.windows[-1].n_generated = generated


KINDS = (
    LineKind(
        "the log of llama.cpp's server",
        (
            "draft acceptance",
            "statistics ",
            " draft tokens",
            "eval time =",
            "loading model '",
            "loading draft model '",
            "K (",
        ),
        LlamaServerLog,
    ),
)
