"""Rounds out of the streamed answer of llama.cpp's server (`timings_per_token`, `return_tokens`).

Every chunk brings a token and the counters so far, drafted and accepted, of all rounds up to the one that the token
belongs to; so where they change, another round began, and where the time does and the round has all of its tokens.
The server holds back text that ends within a character, and with it the tokens' chunks: rounds in between are not seen,
only their sums.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from specviz.engines.asking import as_count
from specviz.events.round import Finish
from specviz.trace import Writer
from specviz.trace.writer import LONGEST

_FINISH: dict[str, Finish] = {"eos": "eos", "limit": "length", "word": "stop"}
_LONGEST_MS = 1e9  # 11 days


def prompt_length(timings: Mapping[str, Any]) -> int:
    """Tokens of the prompt, those that the server had kept of it included. Raises ValueError."""
    return as_count(timings.get("prompt_n", 1), LONGEST) + as_count(timings.get("cache_n", 0), LONGEST)


@dataclass(slots=True)
class _Seen:
    """A round that a chunk told of. `at`: milliseconds of the server's clock when it ended; `ms`: that it took."""

    at: float
    ms: float
    drafted: int
    accepted: int


class LlamaStream:
    """Give it every chunk of one answer."""

    def __init__(self, trace: Writer) -> None:
        self._trace = trace
        self._tokens: list[tuple[int, str]] = []  # not written yet
        self._rounds: list[_Seen] = []  # not written yet
        self._at: float | None = None
        self._drafted = self._accepted = self._predicted = 0
        self._begun = self.done = False
        self.n_rounds = 0

    def take(self, chunk: Mapping[str, Any]) -> str:
        """One chunk of `/completion`; its text."""
        timings = chunk.get("timings")
        text = str(chunk.get("content", ""))
        if isinstance(timings, Mapping):
            self._count(timings, chunk.get("tokens"), text)
        if chunk.get("stop") is True:
            self._write(_FINISH.get(str(chunk.get("stop_type"))))
            totals = timings if isinstance(timings, Mapping) else {}
            if isinstance(totals.get("draft_n"), int):
                self._trace.reported(
                    "llama.cpp",
                    n_drafted=as_count(totals["draft_n"]),
                    n_accepted=as_count(totals["draft_n_accepted"]),
                    n_emitted=self._predicted,
                )
            self.done = True
        return text

    def end(self) -> None:
        """The answer is over: all was written with its last chunk."""

    def cut(self) -> None:
        """The answer ended without its last chunk: what was told so far stays."""
        self._write(None, cut=True)
        self._trace.warn("cut_short", "the answer ended before its end: its rounds so far are shown")

    def _count(self, timings: Mapping[str, Any], tokens: Any, text: str) -> None:
        if not self._begun:
            self._trace.request(n_prompt=prompt_length(timings))
            self._begun = True
        predicted = as_count(timings.get("predicted_n", 0), LONGEST)
        new, ids = predicted - self._predicted, tokens if isinstance(tokens, list) else []
        if new < 0:
            self._trace.warn(
                "counters_fell", f"the server's count of tokens fell from {self._predicted} to {predicted}"
            )
        if new <= 0:
            return
        self._predicted = predicted
        at = min(max(0.0, float(timings.get("predicted_ms", 0.0))), _LONGEST_MS)
        drafted, accepted = as_count(timings.get("draft_n", 0)), as_count(timings.get("draft_n_accepted", 0))
        if drafted < self._drafted or accepted < self._accepted:
            fell = f"from {self._drafted} and {self._accepted} to {drafted} and {accepted}"
            self._trace.warn("counters_fell", f"the server's counts of drafted and accepted tokens fell {fell}")
        waiting = sum(round_.accepted + 1 for round_ in self._rounds) - len(self._tokens)
        if drafted != self._drafted or (at != self._at and new > waiting):
            self._settle()
            self._rounds.append(
                _Seen(
                    at,
                    0.0 if self._at is None else at - self._at,
                    max(0, drafted - self._drafted),
                    max(0, accepted - self._accepted),
                )
            )
        self._at, self._drafted, self._accepted = at, drafted, accepted
        shown = [(as_count(token, least=-1), "") for token in ids][-new:]
        shown = [(-1, "")] * (new - len(shown)) + shown
        shown[-1] = (shown[-1][0], text)
        self._tokens += shown

    def _settle(self) -> None:
        """Write what came to its end before the round that begins: every round brings what it keeps and one more."""
        if self._rounds and len(self._tokens) - sum(round_.accepted for round_ in self._rounds) >= len(self._rounds):
            self._write(None)

    def _write(self, finish: Finish | None, cut: bool = False) -> None:
        hidden = len(self._tokens) - sum(round_.accepted + 1 for round_ in self._rounds)
        rounds = self._with_hidden(hidden) if hidden > 0 and self._rounds else self._rounds
        for k, round_ in enumerate(rounds):
            last = k + 1 == len(rounds)
            count = len(self._tokens) if last else min(round_.accepted + 1, len(self._tokens))
            new, self._tokens = self._tokens[:count], self._tokens[count:]
            if not new:
                break
            kept = min(round_.accepted, len(new))
            self._trace.round(n_drafted=round_.drafted)
            self._trace.committed(
                [token for token, _ in new],
                [text for _, text in new],
                n_accepted=kept,
                finish=finish if last else None,
                took_ns=round(1e6 * max(0.0, round_.ms)),
            )
            if kept < round_.accepted and not cut:
                behind = round_.accepted - kept
                self._trace.warn(
                    "behind_stop", f"the server counts {behind} accepted tokens behind the end of the text"
                )
            self.n_rounds += 1
        self._tokens, self._rounds = [], []

    def _with_hidden(self, hidden: int) -> list[_Seen]:
        """Rounds that no chunk told of, put before the one whose counters grew most."""
        most = max(self._rounds, key=lambda seen: seen.drafted)
        place, n = self._rounds.index(most), hidden + 1
        shares = [most.drafted // n + (k < most.drafted % n) for k in range(n)]
        kept, rounds = most.accepted, []
        for share in reversed(shares):
            rounds.append(_Seen(most.at, most.ms / n, share, min(kept, share)))
            kept -= rounds[-1].accepted
        self._trace.warn(
            "rounds_merged",
            f"{n} rounds came in one piece, as half characters are held back: which of them kept what is a guess",
        )
        return [*self._rounds[:place], *reversed(rounds), *self._rounds[place + 1 :]]
