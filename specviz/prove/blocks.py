"""One block of decoding on table models: draft, production plan, walk, and the carried rounds that may follow.

A few lines stand in for the session; the verifier is the one of production.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from specviz.probability.draft import Carry, Draft
from specviz.probability.plan import Outcome, Plan
from specviz.probability.table_models import Problem, Table

MakePlan = Callable[[Draft, Any], Plan]
Begun = tuple[Draft, Plan]
MakeDraft = Callable[[Any, tuple[int, ...]], Draft]  # keys, text


@dataclass(frozen=True, slots=True)
class Block:
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

    def play(self, keys: Any, text: tuple[int, ...], begun: Begun) -> Block:
        """The block that starts after `text`; `keys` are those of its first round."""
        draft, plan = begun
        outcome = plan.walk(keys, len(text))
        tokens, n_accepted, calls, carry = emitted(draft, outcome), len(outcome.accepted), 1, outcome.carry
        while carry is not None:
            here, keys = (*text, *tokens), keys.following()
            rest = self._carried(here, carry)
            outcome = rest.walk(keys, len(here))
            tokens, calls, carry = (*tokens, *emitted(rest.draft, outcome)), calls + 1, outcome.carry
        return Block(tokens, n_accepted, calls)

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
