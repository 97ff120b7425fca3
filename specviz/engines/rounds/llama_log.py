"""llama.cpp's server log at debug verbosity: what was drafted, with q of the likeliest tokens, and what was kept.

The log is no interface and changes with versions; this reads that of October 2026 (build 10k, xllamacpp 2026.10). Lines
of several requests stand mixed; each names its slot. Texts are as the log prints them: half a character is replaced.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from specviz.engines.rounds.importing import Imported, Opened
from specviz.errors import TraceError
from specviz.events.round import Finish

LOADING = "llama_model_loader: loaded meta data"
_TOKEN = "next token:"  # of every token of a text
_TIME = re.compile(r"(\d+)\.(\d\d)\.(\d{3})\.(\d{3}) [DIWE] ")
_SLOT = re.compile(r"id +(\d+) \| task (-?\d+) \| (.*)", re.DOTALL)
_CANDIDATE = re.compile(
    r"seq_id (\d+), draft candidate +(\d+), pos +(\d+): +(\d+) \( *([\d.]+)\) '(.*)'\s*$", re.DOTALL
)
_DRAFT = re.compile(r"generate_draft: id=(\d+), #tokens=(\d+), #draft=(\d+)")
_ADDED = re.compile(r"add accepted tokens: sampled=(\d+), ids\.size=(\d+), n_draft=(\d+)")
_NEXT = re.compile(r"n_gen = (\d+), n_remaining = -?\d+, next token: *(\d+) '(.*)'\s*$", re.DOTALL)
_PROMPT = re.compile(r"new prompt, .*task\.n_tokens = (\d+)")
_TOTAL = re.compile(r"draft acceptance = [\d.]+ \( *(\d+) accepted / *(\d+) generated\)")
_POSITIONS = re.compile(r"acc per pos = \(([\d., ]*)\)")
_TEMPERATURE = re.compile(r"\btemp = ([\d.]+)")
_OPENED = re.compile(r"(?:draft candidate|next token:)[^']*'?")
_EXACT = 500  # rounds whose shares, printed with three digits, give their counts
_COIN = re.compile(r"synthetic (speculative )?acceptance( is enabled|: n_max)")
_LONGEST = 4096  # characters of a line that is waited for
_DRAWING = ("p/q", "block")  # rules whose drafts are drawn from q
_NOBODY = -1, "(not told)"  # a token that the log does not name
_REFUSED = (
    "drafts are drawn here, and the log names the likeliest tokens of each place: which one was drawn is known of the "
    "kept ones alone"
)
OTHER = "a log of another version than October 2026 (build 10k), or below debug verbosity (-lv 10)"
_UNNAMED = (
    "the log names no likeliest tokens of some drafts, as of a lookup's: which token was drafted is known of the kept "
    "ones alone"
)
_NOT_EXACT = (
    "tokens were kept that the draft did not think likeliest, so the rule is not exact match: import with --rule p/q"
)
_BUILD = re.compile(r"build_info: (\S+)|build: (\d+ \(\w+\))")
_TARGET, _DRAFT_MODEL = re.compile(r"loaded meta data .* from (\S+) \("), re.compile(r"loading draft model '([^']+)'")


def serves(text: str) -> bool:
    """Whether a request stands in these lines."""
    return re.search(r"slot +\S+: id +\d+ \| task", text) is not None


def recognised(text: str) -> bool:
    """Whether these lines are of such a log, stamped with times or not."""
    return serves(text) or LOADING in text


def is_verbose(text: str) -> bool:
    """Whether lines stand there that the program writes at debug verbosity alone, tokens or not."""
    return any(words in text for words in ("generate_draft:", "add accepted tokens", "draft candidate"))


def names_tokens(blocks: Iterable[str]) -> bool:
    """Whether a token of a request stands in the log: without one, reading it line by line brings nothing."""
    last = ""
    for block in blocks:
        if _TOKEN in block or _TOKEN in last[-len(_TOKEN) :] + block[: len(_TOKEN)]:
            return True
        last = block
    return False


def timed(line: str, now: int) -> tuple[int, str]:
    """The line's time in nanoseconds (`now` where it has none), and what stands behind its last stamp."""
    times = list(_TIME.finditer(line))
    if not times:
        return now, line
    minutes, seconds, ms, us = map(int, times[-1].groups())
    return ((minutes * 60 + seconds) * 1000 + ms) * 1_000_000 + us * 1000, line[times[-1].end() :]


@dataclass(slots=True)
class _Slot:
    """One request in the making."""

    task: int
    n_prompt: int = 1
    began: int = 0
    temperature: float | None = None
    rounds: list["_Round"] = field(default_factory=list)
    open: "_Round | None" = None
    totals: tuple[int, int] | None = None
    shares: list[float] = field(default_factory=list)  # of rounds that drafted, by the position they kept
    finish: Finish | None = None


@dataclass(slots=True)
class _Round:
    began: int
    n_draft: int = 0
    candidates: dict[int, list[tuple[int, float, str]]] = field(default_factory=dict)
    n_added: int | None = None  # tokens that the round brings
    tokens: list[tuple[int, str]] = field(default_factory=list)
    ended: int = 0

    @property
    def n_kept(self) -> int:
        """Drafted tokens that became text."""
        return min((self.n_added or 1) - 1, len(self.tokens))

    @property
    def rows(self) -> list[list[tuple[int, float, str]]]:
        """The likeliest tokens at every place of the draft; nothing where the log leaves one out."""
        named = [self.candidates[k] for k in range(self.n_draft) if k in self.candidates]
        return named if len(named) == self.n_draft else []

    @property
    def drawn(self) -> bool:
        """Whether a token was kept that is not the likeliest of its place: then drafts are drawn."""
        kept = self.tokens[: self.n_kept]
        return any(best[0][0] != token for best, (token, _) in zip(self.rows, kept, strict=False))


class LlamaLog:
    """Give it every line; a request is written when it is over, in the order in which requests end."""

    def __init__(self, open_writer: Opened) -> None:
        self._open_writer = open_writer
        self._slots: dict[int, _Slot] = {}
        self._candidates: dict[int, dict[int, list[tuple[int, float, str]]]] = {}
        self._now = 0
        self.version: str | None = None
        self._models: list[str] = []
        self._draft: str | None = None
        self._writer: Imported | None = None
        self._temperature: float | None = None
        self._first: float | None = None  # of the first request that is written
        self._coin = False  # keeps drafts by a coin
        self._drawn = False  # drafts are drawn from q
        self.unread = 0  # requests whose drafts were counted and not told

    def take(self, line: str) -> None:
        """One line, with anything before its time stamp left out."""
        self._now, line = timed(line, self._now)
        self._settings(line)
        if match := _CANDIDATE.search(line):
            slot, _, pos, token, q, text = match.groups()
            self._candidates.setdefault(int(slot), {}).setdefault(int(pos), []).append((int(token), float(q), text))
        elif match := _SLOT.search(line):
            self._of_slot(int(match[1]), int(match[2]), match[3])

    def _settings(self, line: str) -> None:
        if (match := _BUILD.search(line)) and self.version is None:
            self.version = match[1] or match[2]
        if match := _DRAFT_MODEL.search(line):
            self._draft = match[1]
        elif match := _TARGET.search(line):
            self._models.append(match[1])
        if match := _TEMPERATURE.search(line):
            self._temperature = float(match[1])
        self._coin = self._coin or _COIN.search(line) is not None

    def _of_slot(self, number: int, task: int, words: str) -> None:
        slot = self._slots.get(number)
        if match := _PROMPT.search(words):
            self._candidates.pop(number, None)
            self._slots[number] = _Slot(task, int(match[1]), self._now, self._temperature)
        elif slot is None or slot.task != task:
            return
        elif match := _DRAFT.search(words):
            slot.open = _Round(self._now, int(match[3]), self._candidates.pop(number, {}))
            slot.rounds.append(slot.open)
        elif match := _ADDED.search(words):
            if slot.open is not None:
                slot.open.n_added, slot.open.ended = int(match[2]), self._now
        elif match := _NEXT.search(words):
            self._token(slot, int(match[2]), match[3])
        elif match := _TOTAL.search(words):
            slot.totals = int(match[1]), int(match[2])
        elif match := _POSITIONS.search(words):
            slot.shares = [float(share) for share in match[1].split(",") if share.strip(" .")]
        elif "stopped by EOS" in words:
            slot.finish = "eos"
        elif "stopped by limit" in words:
            slot.finish = "length"
        elif "stopped by word" in words:
            slot.finish = "stop"
        elif "stop processing" in words:
            self._write(self._slots.pop(number))

    def _token(self, slot: _Slot, token: int, text: str) -> None:
        """A token of the text: of the round in hand, or one that was sampled without a draft."""
        now = slot.open
        if now is None or now.n_added is None or len(now.tokens) >= now.n_added:
            now = _Round(slot.rounds[-1].ended if slot.rounds else slot.began, n_added=1, ended=self._now)
            slot.rounds.append(now)
            slot.open = None
        now.tokens.append((token, text))

    def finish(self) -> None:
        """What is left when the log ends: requests that were not over."""
        for slot in self._slots.values():
            self._write(slot, cut=True)
        self._slots.clear()

    def _write(self, slot: _Slot, cut: bool = False) -> None:
        rounds = [round_ for round_ in slot.rounds if round_.tokens]
        drafted = sum(round_.n_draft for round_ in rounds)
        if slot.totals is not None and slot.totals[1] and not drafted:
            self.unread += 1
        if not rounds:
            return
        was_drawn, self._drawn = self._drawn, self._drawn or any(round_.drawn for round_ in rounds)
        if self._writer is None:
            self._first = slot.temperature
            self._writer = self._open_writer(self)
        out = self._writer
        self._drawn = self._drawn or out.trace.rule.name in _DRAWING
        if any(round_.n_draft and not round_.rows for round_ in rounds):
            out.trace.warn("drafts_unnamed", _UNNAMED)
        if self._drawn and not was_drawn:
            out.trace.warn("refused_unknown", _REFUSED)
            if out.trace.rule.name == "exact match":
                out.trace.warn("rule_violated", _NOT_EXACT)
        out.now = slot.began
        out.trace.request(n_prompt=slot.n_prompt)
        if slot.temperature is not None:
            out.trace.temperature(slot.temperature)
        for round_ in rounds:
            _write_round(out, round_, slot.finish if round_ is rounds[-1] else None, self._drawn)
        if cut:
            out.trace.warn("cut_short", "the log ends inside a request: its rounds so far are shown")
        elif slot.totals is not None:
            n = sum(round_.n_draft > 0 for round_ in rounds)
            by_position = [round(share * n) for share in slot.shares] if slot.shares and n <= _EXACT else None
            accepted, drafted = slot.totals
            out.trace.reported("llama.cpp", n_accepted=accepted, n_drafted=drafted, accepted_per_position=by_position)

    @property
    def header(self) -> dict[str, object]:
        """What the trace's header says."""
        first = self._models[0] if self._models else None  # also where it drafts for itself
        target = next((name for name in self._models if name != self._draft), first)
        rule, setting = "exact match", "server default"
        if self._coin:
            rule, setting = "coin", "synthetic acceptance"
        elif self._drawn:
            rule, setting = "p/q", "drafts are drawn, as the kept ones show"
        return {
            "engine": "llama.cpp",
            "version": self.version,
            "rule": rule,
            "setting": setting,
            "known": "decisions",
            "source": "debug log",
            "target": target,
            "draft": self._draft,
            "temperature": self._first,
        }


def _write_round(out: Imported, seen: _Round, finish: Finish | None, drawn: bool) -> None:
    out.now = seen.began
    out.trace.round(n_drafted=seen.n_draft)
    kept = seen.n_kept
    for k, best in enumerate(seen.rows or [[]] * seen.n_draft):
        if drawn or not best:
            token, text = seen.tokens[k] if k < kept else _NOBODY
        else:
            token, text = best[0][0], best[0][2]
        q = next((chance for one, chance, _ in best if one == token), None)
        out.trace.drafted(token, text, q=q, top=[(one, chance) for one, chance, _ in best])
    behind = (seen.n_added or 1) - 1 - kept  # the token that would have closed the round is counted by nobody
    out.now = max(seen.ended, seen.began)
    tokens, texts = [token for token, _ in seen.tokens], [text for _, text in seen.tokens]
    out.trace.committed(tokens, texts, n_accepted=kept, finish=finish)
    if behind > 0:
        out.trace.warn("behind_stop", f"the engine counts {behind} accepted tokens behind the end of the text")


def read(lines: Iterable[str], open_writer: Opened) -> LlamaLog:
    """All lines of a log. Raises TraceError where they have another form than those that are read."""
    log, torn = LlamaLog(open_writer), ""
    for line in lines:
        if torn and not _TIME.match(line):
            line = torn + line
        if _quoting(line) and len(line) < _LONGEST:
            torn = line  # the text of a token may hold a newline
            continue
        log.take(line)
        torn = ""
    log.finish()
    if log.unread:
        raise TraceError(f"drafts are counted in {log.unread} of its requests, and no line tells of them: {OTHER}")
    return log


def _quoting(line: str) -> bool:
    """Whether a line breaks off inside the text of a token."""
    opened = _OPENED.search(line)
    return opened is not None and not line.rstrip("\n").endswith("'", opened.end())
