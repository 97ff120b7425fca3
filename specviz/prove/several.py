"""Several candidates judged one after the other, with two published mistakes to switch on (controls only).

Written from verification.md 3.7 without the code of `multi_hsd`, so that with neither mistake it is a second opinion.
"""

from math import prod
from typing import Any

from specviz.probability.draft import ROOT, Draft
from specviz.probability.plan import Draw, Plan, State, Step, Test
from specviz.probability.rows import positive_part
from specviz.verifiers._candidates import CandidatePath, candidates, ordinals

History = tuple[tuple[int, int], ...]  # (candidate, length of the text after it) of all that were tried


class Several:
    """`from_ratio`: later candidates start with the ratio of the text kept so far in place of 1. `uncapped_last`."""

    def __init__(self, draft: Draft, rows: Any, *, from_ratio: bool = False, uncapped_last: bool = False) -> None:
        self.draft, self.rows = draft, rows
        self.from_ratio, self.uncapped_last = from_ratio, uncapped_last
        self.candidates: tuple[CandidatePath, ...] = candidates(draft)
        self.ordinals = ordinals(draft)

    def plan(self) -> Plan:
        """The plan of the rule."""
        return Plan(self.draft, self.next(()), self.open)

    def open(self, state: State) -> Step:
        kind, history, *place = state
        if kind == "close":
            node = self.node(history)
            whole = self.is_whole(history)
            stream, how = ("target", "bonus") if whole else ("residual", "recovered")
            return Draw(node, lambda: self.required(history), {}, stream, how)  # type: ignore[arg-type]
        b, t = place
        kept = _length(history)
        failed = ("scan", history, b, t - 1) if t - 1 > kept else self.next((*history, (b, kept)))
        node = self.candidates[b].nodes[t - 1]
        passed = self.next((*history, (b, t)))
        return Test(node, self.chance(history, b, t), passed, failed, 0, ordinal=self.ordinals[node])

    def next(self, history: History) -> State:
        """The next usable candidate from its leaf, or the end."""
        text = self.draft.path(self.node(history))
        if not self.is_whole(history):
            for b in range(history[-1][0] + 1 if history else 0, len(self.candidates)):
                if self.candidates[b].usable(text):
                    return ("scan", history, b, len(self.candidates[b].nodes))
        return ("close", history)

    def node(self, history: History) -> int:
        """A node that spells the text kept so far."""
        length = _length(history)
        return self.candidates[history[-1][0]].nodes[length - 1] if length else ROOT

    def is_whole(self, history: History) -> bool:
        """Whether the last candidate was kept to its leaf."""
        return bool(history) and history[-1][1] == len(self.candidates[history[-1][0]].nodes)

    def required(self, history: History) -> Any:
        """The row required next: the residual of the last stop, the target's when nothing failed."""
        if not history or self.is_whole(history):
            return self.rows[self.node(history) + 1]
        before, (b, length) = history[:-1], history[-1]
        row = self.residual(before, b, length)
        return row / row.sum() if row.sum() > 0 else self.row(before, b, length)

    def row(self, history: History, b: int, length: int) -> Any:
        """The row required behind `length` tokens of candidate b."""
        return self.required(history) if length == _length(history) else self.rows[self._at(b, length) + 1]

    def residual(self, history: History, b: int, length: int) -> Any:
        """`(c p - q)+` of the branch below `length` tokens of candidate b."""
        law = self.draft.law(self.candidates[b].nodes[length], len(self.rows[0]))
        return positive_part(self.ratio(history, b, length)[1] * self.row(history, b, length), law)

    def chance(self, history: History, b: int, length: int) -> Any:
        """The chance to keep `length` tokens of candidate b."""
        plain, capped = self.ratio(history, b, length)
        if length == len(self.candidates[b].nodes):
            return min(1, plain) if self.uncapped_last else capped
        if capped == 1:
            return 1
        mass = self.residual(history, b, length).sum()
        return mass / (mass + 1 - capped)

    def ratio(self, history: History, b: int, length: int) -> tuple[Any, Any]:
        """Joint ratio of the tokens of candidate b under test, uncapped (never with the start weight) and capped."""
        start = self.start(history) if history and self.from_ratio else 1
        plain, capped = 1, min(1, start)
        for t in range(_length(history), length):
            rho = self._over_draft(self.row(history, b, t), b, t)
            plain, capped = plain * rho, min(1, capped * rho)
        return plain, capped

    def start(self, history: History) -> Any:
        """The ratio of the text kept so far, by plain rows."""
        b = history[-1][0] if history else 0
        return prod(self._over_draft(self.rows[self._at(b, t) + 1], b, t) for t in range(_length(history)))

    def _over_draft(self, row: Any, b: int, t: int) -> Any:
        """What a row gives the token behind `t` tokens of candidate b, over what the draft gave it."""
        node = self.candidates[b].nodes[t]
        token = self.draft.tokens[node]
        return row[token] / self.draft.law(node, len(self.rows[0]))[token]

    def _at(self, b: int, length: int) -> int:
        return self.candidates[b].nodes[length - 1] if length else ROOT


def _length(history: History) -> int:
    return history[-1][1] if history else 0
