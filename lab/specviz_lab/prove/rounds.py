"""Decoding on table models: a block (draft, production plan, walk, the carried rounds behind it), block after block.

A few lines stand in for the session; the verifier is the one of production, the draws are the enumerating ones. Between
rounds everything is merged that can never differ again, which keeps three of them cheap; rounds that look back only so
far (`memory`) are enumerated once for all texts that end alike.
"""

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np

from specviz.probability.draft import Carry, Draft
from specviz.probability.plan import Outcome, Plan
from specviz.probability.table_models import Problem, Table
from specviz_lab.prove.enumerate import BranchKeys, EnumeratedPath, Known, Law, staged

R = TypeVar("R", bound=Hashable)
MakePlan = Callable[[Draft, Any], Plan]
Begun = tuple[Draft, Plan]
MakeDraft = Callable[[Any, tuple[int, ...]], Draft]  # keys, text


@dataclass(frozen=True, slots=True)
class PlayedBlock:
    """What a round and its carried rounds brought."""

    tokens: tuple[int, ...]
    n_accepted: int
    n_calls: int  # of the target


@dataclass(frozen=True, slots=True)
class Blocks:
    """Plays blocks of one draft layout under one rule."""

    problem: Problem
    draft: MakeDraft
    plan: MakePlan
    carried: dict[tuple[tuple[int, ...], Carry], Plan] = field(default_factory=dict)

    def begin(self, keys: Any, text: tuple[int, ...]) -> Begun:
        """The draft of a block's first round, with its plan."""
        draft = self.draft(keys, text)
        return draft, self.plan(draft, target_rows(self.problem.p, text, draft))

    def play(self, keys: Any, text: tuple[int, ...], begun: Begun) -> PlayedBlock:
        """The block that starts after `text`; `keys` are those of its first round."""
        draft, plan = begun
        outcome = plan.walk(keys, len(text))
        tokens, n_accepted, calls, carry = emitted(draft, outcome), len(outcome.accepted), 1, outcome.carry
        while carry is not None:
            here, keys = (*text, *tokens), keys.following()
            rest = self._carried(here, carry)
            outcome = rest.walk(keys, len(here))
            tokens, calls, carry = (*tokens, *emitted(rest.draft, outcome)), calls + 1, outcome.carry
        return PlayedBlock(tokens, n_accepted, calls)

    def _carried(self, text: tuple[int, ...], carry: Carry) -> Plan:
        """The plan of a carried round; many ways lead to the same one, and plans have no state."""
        if (text, carry) not in self.carried:
            # Past a token that is impossible under the draft law there is no draft law, and none is needed.
            law = None if carry.log_ratio == math.inf else np.stack([self.problem.q.row(text)])
            empty = Draft(law_rows=law, carry=carry)
            self.carried[text, carry] = self.plan(empty, target_rows(self.problem.p, text, empty))
        return self.carried[text, carry]


def target_rows(table: Table, text: tuple[int, ...], draft: Draft) -> Any:
    """`[n_fed + 1, V]`: the target's row after the root and after every fed node."""
    return np.stack([table.row(text), *(table.row((*text, *draft.path(i))) for i in range(draft.n_fed))])


def emitted(draft: Draft, outcome: Outcome) -> tuple[int, ...]:
    """The tokens a round commits."""
    closing = () if outcome.closing is None else (outcome.closing,)
    return (*(draft.tokens[i] for i in outcome.accepted), *closing)


@dataclass
class RoundPlayer(Generic[R]):
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
        earlier = self.seen[key]
        if not back or not any(learnt for _, learnt in earlier):
            return earlier
        return {(result, _moved(learnt, back)): share for (result, learnt), share in earlier.items()}

    def _enumerate(self, text: tuple[int, ...], known: Known, round_: int) -> dict[tuple[R, Known], Any]:
        out: dict[tuple[R, Known], Any] = {}
        key_round = round_ if self.keyed else 0

        def draft(branch: EnumeratedPath) -> Any:
            return self.draft(branch.keys(key_round, self.way), text)

        def play(branch: EnumeratedPath, drafted: Any) -> R:
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
