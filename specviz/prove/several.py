"""Several candidates judged one after the other, with two published mistakes to switch on (controls only).

Written from verification.md 3.7 without the code of `multi_hsd`, so that with neither mistake it is a second opinion.

Rounds one after the other under the enumerating draws: the law of the first tokens of a text.

Between rounds everything is merged that can never differ again, which keeps three of them cheap; rounds that look back
only so far (`memory`) are enumerated once for all texts that end alike.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from specviz.probability.draft import ROOT, Draft
from specviz.probability.plan import Draw, Plan, State, Step, Test
from specviz.probability.rows import positive_part
from specviz.prove.enumerate import Branch, BranchKeys, Known, Law, staged
from specviz.verifiers._candidates import Candidate, candidates, ordinals

History = tuple[tuple[int, int], ...]  # (candidate, length of the text after it) of all that were tried


class Several:
    """`from_ratio`: later candidates start with the ratio of the text kept so far in place of 1. `uncapped_last`."""

    def __init__(self, draft: Draft, rows: Any, *, from_ratio: bool = False, uncapped_last: bool = False) -> None:
        self.draft, self.rows = draft, rows
        self.from_ratio, self.uncapped_last = from_ratio, uncapped_last
        self.candidates: tuple[Candidate, ...] = candidates(draft)
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
            node = self.candidates[b].nodes[t]
            token = self.draft.tokens[node]
            rho = self.row(history, b, t)[token] / self.draft.law(node, len(self.rows[0]))[token]
            plain, capped = plain * rho, min(1, capped * rho)
        return plain, capped

    def start(self, history: History) -> Any:
        """The ratio of the text kept so far, by plain rows."""
        out: Any = 1
        for t in range(_length(history)):
            node = self.candidates[history[-1][0]].nodes[t]
            token = self.draft.tokens[node]
            out = (
                out * self.rows[self._at(history[-1][0], t) + 1][token] / self.draft.law(node, len(self.rows[0]))[token]
            )
        return out

    def _at(self, b: int, length: int) -> int:
        return self.candidates[b].nodes[length - 1] if length else ROOT


def _length(history: History) -> int:
    return history[-1][1] if history else 0


R = TypeVar("R", bound=Hashable)
Play = Callable[[Any, tuple[int, ...], int], tuple[int, ...]]


def chained(
    play: Play,
    length: int,
    *,
    keyed: bool = True,
    stop: frozenset[int] = frozenset(),
    way: str = "cdf",
    memory: int | None = None,
) -> Law:
    """The law of the first `length` tokens (cut after a stop token) over as many rounds as they take.

    `play(keys, text, round)` returns the tokens a round emits. `keyed=False` leaves the round out of every key.
    `memory`: see `Rounds`.
    """

    def prepare(keys: BranchKeys, text: tuple[int, ...]) -> None:
        """Nothing is split off."""

    def run(keys: BranchKeys, text: tuple[int, ...], round_: int, prepared: Any) -> tuple[int, ...]:
        return play(keys, text, round_)

    return Rounds(prepare, run, lambda emitted: emitted, keyed=keyed, way=way, memory=memory).law(length, stop)


@dataclass
class Rounds(Generic[R]):
    """Rounds one after the other.

    `draft(keys, text)` is the first part of a round, `play(keys, text, round, drafted)` gives what it brought and
    `tokens` the tokens in it.

    Between rounds, uniforms of the round just over and of committed positions are forgotten: no later draw has their
    key (asked for all the same, they would raise). `memory`: a round depends on the last so many tokens alone (None: on
    all), and on neither its number nor its place; then one enumeration serves all texts that end alike.
    """

    draft: Callable[[BranchKeys, tuple[int, ...]], Any]
    play: Callable[[BranchKeys, tuple[int, ...], int, Any], R]
    tokens: Callable[[R], tuple[int, ...]]
    keyed: bool = True
    way: str = "cdf"
    memory: int | None = None
    seen: dict[tuple[tuple[int, ...], Known], dict[tuple[R, Known], Any]] = field(default_factory=dict)

    def first(self) -> dict[R, Any]:
        """The law of what the first round brings."""
        out: dict[R, Any] = {}
        for (result, _), prob in self._after((), frozenset(), 1).items():
            out[result] = out.get(result, 0) + prob
        return out

    def law(self, length: int, stop: frozenset[int] = frozenset()) -> Law:
        """The law of the first `length` tokens, cut after a stop token."""
        states: dict[tuple[tuple[int, ...], Known], Any] = {((), frozenset()): 1}
        law: Law = {}
        round_ = 0
        while states:
            round_ += 1
            after: dict[tuple[tuple[int, ...], Known], Any] = {}
            for (text, known), prob in states.items():
                for (result, learnt), share in self._after(text, known, round_).items():
                    longer, over = _cut((*text, *self.tokens(result)), length, stop)
                    if over:
                        law[longer] = law.get(longer, 0) + prob * share
                    else:
                        after[longer, learnt] = after.get((longer, learnt), 0) + prob * share
            states = after
        return law

    def _after(self, text: tuple[int, ...], known: Known, round_: int) -> dict[tuple[R, Known], Any]:
        """What a round after `text` brings, with what it learnt of uniforms that may be asked for again."""
        if self.memory is None and text:
            return self._enumerate(text, known, round_)
        seen = text if self.memory is None else text[max(0, len(text) - self.memory) :]
        back = len(text) - len(seen)
        key = (seen, _moved(known, -back))
        if key not in self.seen:
            self.seen[key] = self._enumerate(*key, 1)
        found = self.seen[key]
        if not back or not any(learnt for _, learnt in found):
            return found
        return {(result, _moved(learnt, back)): share for (result, learnt), share in found.items()}

    def _enumerate(self, text: tuple[int, ...], known: Known, round_: int) -> dict[tuple[R, Known], Any]:
        out: dict[tuple[R, Known], Any] = {}
        key_round = round_ if self.keyed else 0

        def draft(branch: Branch) -> Any:
            return self.draft(branch.keys(key_round, self.way), text)

        def play(branch: Branch, drafted: Any) -> R:
            return self.play(branch.keys(key_round, self.way), text, round_, drafted)

        for result, branch, prob in staged(draft, play, known, len(text)):
            emitted = self.tokens(result)
            assert emitted, f"round {round_} emitted nothing after {text}"
            end = len(text) + len(emitted)
            learnt = frozenset((k, v) for k, v in branch.known.items() if k[1] == 0 and k[2] >= end)
            out[result, learnt] = out.get((result, learnt), 0) + prob
        return out


def _moved(known: Known, by: int) -> Known:
    """The same knowledge about positions `by` further on."""
    return frozenset(((stream, round_, pos + by, index), part) for (stream, round_, pos, index), part in known)


def _cut(text: tuple[int, ...], length: int, stop: frozenset[int]) -> tuple[tuple[int, ...], bool]:
    for i, token in enumerate(text[:length]):
        if token in stop:
            return text[: i + 1], True
    return text[:length], len(text) >= length
