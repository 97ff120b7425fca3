"""The log of llama.cpp's server as it is by default: `draft acceptance = 0.684 ( 128 accepted / 187 generated)` behind
every request (`draft acceptance rate =` in older builds), and `statistics draft-mtp: #calls(b,g,a) = .., #gen drafts =
281, .., #gen tokens = 560, #acc tokens = 461, ..` since it began, one line a drafter. At higher verbosity every round
is told: `accepted 3/16 draft tokens`.
"""

import re
from collections import Counter

from specviz.engines.texts.history import MOST_PARTS, CountHistory, CountPart, CountWindow
from specviz.engines.texts.lines import LineKind
from specviz.engines.texts.numbers import shares, unstamped, wall_of
from specviz.engines.texts.values import kept_of

_KEPT = re.compile(r"draft acceptance(?: rate)? = [\d.]+ \(\s*(\d+) accepted /\s*(\d+) generated\)")
_ROUND = re.compile(r"\baccepted\s+(\d{1,4})/\s*(\d{1,4}) draft tokens")
_STATISTICS = re.compile(r"statistics\s+([\w-]{1,40}):\s*#calls(?:\(b,g,a\))?\s*=\s*([\d ]+),(.*)")
_VALUE = re.compile(r"#(gen drafts|acc drafts|gen tokens|acc tokens)\s*=\s*(\d+)")
_RATES = re.compile(r"(?:#acc rate/pos|acceptance rate per position) = \(([^)]*)\)")
_EVAL = re.compile(r"\s*(?:.*\|)?\s*eval time =\s*[\d.]+ ms /\s*(\d+) tokens")
_MEAN = re.compile(r"mean (?:acceptance length|len) =\s{0,8}(\d{1,4}\.\d{1,4})")
_ROUNDED = 0.005  # by so much a mean of two digits may be off
_MODEL = re.compile(r"loading (draft )?model '([^']{1,400})'")
_CACHE = re.compile(r"\bK \((\w{1,10})\):.*\bV \((\w{1,10})\):")
_MOST_MODELS = 8


class LlamaServerLog:
    """Requests one by one, or the totals by drafter where the log has them."""

    def __init__(self) -> None:
        self._history = CountHistory("llama.cpp", "over the log", parts_of="drafter")
        self._n_tokens: int | None = None  # of the request that is being told
        self._totals: dict[str, tuple[int, int, int, int, str]] = {}  # rounds, drafted, accepted, calls, rates
        self._n_requests = self._n_answers = 0
        self._caches: dict[str, None] = {}
        self._rounds = _RoundsTold()

    def take(self, line: str) -> bool | None:
        """One line."""
        if "draft acceptance" in line and (kept := _KEPT.search(line)) is not None:
            self._request(line, int(kept[1]), int(kept[2]))
            return True
        if "statistics " in line and (statistics := _STATISTICS.search(line)) is not None:
            return self._statistic(statistics)
        if " draft tokens" in line and (match := _ROUND.search(line)) is not None:
            self._rounds.add(int(match[1]), int(match[2]))
            return True
        if "eval time =" in line:
            if "prompt eval" not in line and (tokens := _EVAL.match(unstamped(line))) is not None:
                self._n_tokens = int(tokens[1])
                self._n_answers += 1
        elif (model := _MODEL.search(line)) is not None:
            name = model[2].rpartition("/")[2]
            if model[1]:
                self._history.settings["draft model"] = name
            elif name not in self._history.models and len(self._history.models) < _MOST_MODELS:
                self._history.models.append(name)
        elif len(self._caches) < _MOST_MODELS and (cache := _CACHE.search(line)) is not None:
            self._caches[f"K {cache[1]}, V {cache[2]}"] = None
            self._history.settings["K/V caches"] = " and ".join(self._caches)
        return False

    def _request(self, line: str, accepted: int, drafted: int) -> None:
        """The pass over the prompt writes the first token, every round what it accepts and one more."""
        rates = _RATES.search(line)
        rounds = None if self._n_tokens is None else max(0, self._n_tokens - accepted - 1)
        by_position = shares(rates[1]) if rates is not None and rounds else []
        n = _drafting(rounds or 0, accepted, _MEAN.search(line))
        kept = [round(rate * n) for rate in by_position]
        self._history.add(CountWindow(wall_of(line), rounds, drafted, accepted, self._n_tokens, kept))
        self._n_requests += 1
        self._n_tokens = None

    def _statistic(self, match: re.Match[str]) -> bool:
        name, calls, rest = match[1], match[2].split(), match[3]
        values = {key: int(n) for key, n in _VALUE.findall(rest)}
        if "gen tokens" not in values or "acc tokens" not in values:
            return False
        if name not in self._totals and len(self._totals) >= MOST_PARTS:
            return False
        rates = _RATES.search(rest)
        n_calls = int(calls[1] if len(calls) > 1 else calls[0]) if calls else 0
        counts = values.get("gen drafts", 0), values["gen tokens"], values["acc tokens"], n_calls
        self._totals[name] = (*counts, rates[1] if rates is not None else "")
        return True

    def histories(self) -> list[CountHistory]:
        """One: by drafter where totals were told, else by request."""
        if self._totals and any(total[0] for total in self._totals.values()):
            self._by_drafter()
        elif not self._n_requests and self._rounds.n:
            if not self._rounds.whole:
                self._history.notes.append("this build logs no drafted tokens: rounds say more accepted than drafted")
            self._history.add(self._rounds.window())
        if 0 < self._n_requests < self._n_answers:
            without = self._n_answers - self._n_requests
            self._history.notes.append(f"in {without} of {self._n_answers} answers nothing was drafted")
        return [self._history]

    def _by_drafter(self) -> None:
        """The totals take the place of what the requests add up to."""
        requests = self._history.windows
        wall = requests[-1].wall if requests else None
        generated = sum(window.n_generated or 0 for window in requests)
        self._history.windows, self._history.per_part = [], []
        for name, (rounds, drafted, accepted, n_calls, rates) in self._totals.items():
            kept = [round(rate * rounds) for rate in shares(rates)]
            self._history.add(CountWindow(wall, rounds, drafted, accepted, None, kept), name)
            self._history.parts[name] = CountPart(rounds, accepted, drafted, n_calls)
            self._history.settings.setdefault("drafters", "")
        self._history.settings["drafters"] = ", ".join(self._totals)
        if generated and self._n_requests == 1:
            self._history.windows[-1].n_generated = generated


def _drafting(rounds: int, accepted: int, mean: re.Match[str] | None) -> int:
    """Rounds that drafted, which shares are of: fewer than all where the mean of those that did says so."""
    length = float(mean[1]) if mean is not None else 1.0
    if length <= 1:
        return rounds
    drafting = accepted / (length - 1)
    unsure = 0.5 + drafting * _ROUNDED / (length - 1)
    return rounds if abs(drafting - rounds) <= unsure else min(rounds, round(drafting))


class _RoundsTold:
    """Rounds that a verbose log tells one by one, added up. `whole`: whether what was drafted is told; builds before
    2026 logged 0 drafted tokens for every one of them."""

    def __init__(self) -> None:
        self.n = self._drafted = 0
        self._by_accepted: Counter[int] = Counter()
        self.whole = True

    def add(self, accepted: int, drafted: int) -> None:
        """One more."""
        self.n, self._drafted = self.n + 1, self._drafted + drafted
        self._by_accepted[accepted] += 1
        self.whole = self.whole and accepted <= drafted

    def window(self) -> CountWindow:
        """All of them."""
        by_accepted = self._by_accepted
        accepted = sum(k * n for k, n in by_accepted.items())
        kept = kept_of([by_accepted[k] for k in range(min(256, max(by_accepted)) + 1)])
        return CountWindow(None, self.n, self._drafted if self.whole else None, accepted, None, kept)


KINDS = (
    LineKind(
        "the log of llama.cpp's server",
        ("draft acceptance", "statistics "),
        LlamaServerLog,
        (" draft tokens", "eval time =", "loading model '", "loading draft model '", "K ("),
    ),
)
