"""The debug log of llama.cpp's example program `llama-speculative`, which prints the number of every test.

Above temperature 0 a drafted token is the draft's likeliest one, yet tested as if it were drawn: u <= p/q. The log is
no interface; this reads that of the source in llama-cpp-python 0.3.36. The text of the run stands between the lines of
the log, without a line of its own: so patterns are searched, not matched.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from specviz.engines.rounds.importing import Imported, Opened
from specviz.engines.rounds.llama_log import timed
from specviz.errors import TraceError

_CANDIDATE = re.compile(
    r" - draft candidate +(\d+) for seq +(\d+), pos +(\d+): +(\d+) \( *([\d.]+)\) '(.*)'\s*$", re.DOTALL
)
_NUMBERS = re.compile(r"r = ([\d.]+), p_dft = ([\d.]+), p_tgt = ([\d.]+)\s*$")
_CLOSED = re.compile(r"the sampled target token \((\d+), '(.*)'\) did not match, or we ran out", re.DOTALL)
_MATCHED = re.compile(r"the sampled target token matches the (\d+)th drafted token of sequence \d+ \(")
_KEPT = re.compile(r"draft token (\d+) of sequence \d+ \(\d+, '.*'\) accepted\s*$", re.DOTALL)
_SPLIT = re.compile(r"splitting seq +\d+ into +\d+")
_PROMPT = re.compile(r"encoded +(\d+) tokens in")
_TOTAL = re.compile(r"n_(drafted|accept) += (\d+)\s*$")
_TEMPERATURE = re.compile(r"\btemp = ([\d.]+)")
_OPENED = re.compile(
    r"(draft candidate +\d+ for seq .*?|(?:of sequence \d+ |sampled target token )\(\d+, )'", re.DOTALL
)
_ENDED = re.compile(r"'\)? *(accepted|rejected|- accepted|did not match, or we ran out of drafted tokens)?\s*$")
_LONGEST = 4096  # characters of a line that is waited for
_DIGITS = 5e-7  # numbers are printed with six digits behind the point
_OURS = re.compile(r" - draft candidate +\d+ for seq|verifying sequence #\d+ at pos|sampling target: s_keep = ")


def recognised(text: str) -> bool:
    """Whether these lines are of such a log."""
    return _OURS.search(text) is not None


@dataclass(slots=True)
class _Drafted:
    top: list[tuple[int, float, str]]  # of the draft's row: id, probability, text; the first one was drafted
    u: float | None = None
    q: float | None = None
    p: float | None = None

    def put(self, out: Imported) -> None:
        token, rounded, text = self.top[0]
        q = rounded if self.q is None else self.q
        out.trace.drafted(token, text, q=q, p=self.p, u=self.u, top=[(one, chance) for one, chance, _ in self.top])


@dataclass(slots=True)
class _Round:
    began: int
    ended: int = 0
    drafted: list[_Drafted] = field(default_factory=list)
    n_kept: int = 0
    last: tuple[int, str] | None = None


class SpeculativeLog:
    """Give it every line; all is written at the end, when the length of the prompt is known. Raises TraceError."""

    def __init__(self) -> None:
        self.rounds: list[_Round] = []
        self.temperature: float | None = None
        self._now = 0
        self._open = _Round(0)
        self._n_prompt = 1
        self._totals: dict[str, int] = {}
        self._stochastic = False

    def take(self, line: str) -> None:
        """One line, joined where the text of a token broke it."""
        self._now, line = timed(line, self._now)
        if match := _CANDIDATE.search(line):
            self._candidate(int(match[3]), (int(match[4]), float(match[5]), match[6]))
        elif match := _NUMBERS.search(line):
            self._test(*map(float, match.groups()))
        elif match := _KEPT.search(line) or _MATCHED.search(line):
            self._open.n_kept = self._at(int(match[1])) + 1
        elif match := _CLOSED.search(line):
            self._open.last, self._open.ended = (int(match[1]), match[2]), self._now
            self.rounds.append(self._open)
            self._open = _Round(self._now)
        elif _SPLIT.search(line):
            raise TraceError("drafts of several sequences are not read: run llama-speculative with -np 1")
        else:
            self._around(line)

    def _around(self, line: str) -> None:
        if match := _PROMPT.search(line):
            self._n_prompt = int(match[1])
        elif match := _TOTAL.search(line):
            self._totals[match[1]] = int(match[2])
        elif match := _TEMPERATURE.search(line):
            self.temperature = float(match[1])

    def _candidate(self, position: int, one: tuple[int, float, str]) -> None:
        rows = self._open.drafted
        if position == len(rows):
            rows.append(_Drafted([]))
        rows[self._at(position)].top.append(one)

    def _test(self, u: float, q: float, p: float) -> None:
        """A test, of the first drafted token that none was made of yet."""
        self._stochastic = True
        tested = self._open.drafted[self._at(self._open.n_kept)]
        tested.u, tested.q, tested.p = None if _in_doubt(u, q, p) else u, q, p

    def _at(self, position: int) -> int:
        if not 0 <= position < len(self._open.drafted):
            raise TraceError(f"the log tests drafted token {position} of round {len(self.rounds)}, which it never drew")
        return position

    def write(self, open_writer: Opened) -> None:
        """The trace, where the log holds any round."""
        if not self.rounds:
            return
        out = open_writer(self)
        out.trace.request(n_prompt=self._n_prompt)
        for round_ in self.rounds:
            out.now = round_.began
            out.trace.round(n_drafted=len(round_.drafted))
            for drafted in round_.drafted:
                drafted.put(out)
            kept = [drafted.top[0] for drafted in round_.drafted[: round_.n_kept]]
            assert round_.last is not None
            out.now = max(round_.began, round_.ended)
            out.trace.committed(
                [*(token for token, _, _ in kept), round_.last[0]],
                [*(text for _, _, text in kept), round_.last[1]],
                n_accepted=round_.n_kept,
            )
        if "accept" in self._totals:
            n_drafted = self._totals.get("drafted")
            out.trace.reported("llama.cpp", n_accepted=self._totals["accept"], n_drafted=n_drafted)
        else:
            out.trace.warn("cut_short", "the log ends before its summary: the rounds before that are shown")

    @property
    def header(self) -> dict[str, object]:
        """What the trace's header says."""
        return {
            "engine": "llama.cpp speculative",
            "rule": "argmax p/q" if self._stochastic else "exact match",
            "setting": "temperature above 0" if self._stochastic else "temperature 0",
            "known": "probabilities" if self._stochastic else "decisions",
            "source": "debug log",
            "temperature": self.temperature if self._stochastic else 0.0,
        }


def _in_doubt(u: float, q: float, p: float) -> bool:
    """Whether rounding alone decides on which side of p/q the number lies: then it is as good as not known."""
    return q <= _DIGITS or abs(u - p / q) <= _DIGITS * (1 + (1 + p / q) / q)


def read(lines: Iterable[str], open_writer: Opened) -> None:
    """All lines of a log. Raises TraceError where they contradict each other."""
    log = SpeculativeLog()
    for line in _joined(lines):
        log.take(line)
    log.write(open_writer)


def _joined(lines: Iterable[str]) -> Iterator[str]:
    """Lines; those between which the text of a token has a newline are one."""
    torn = ""
    for line in lines:
        torn += line
        opened = _OPENED.search(torn)
        if opened is None or _ENDED.search(torn, opened.end()) or len(torn) >= _LONGEST:
            yield torn
            torn = ""
    if torn:
        yield torn
