"""A round with the carried rounds after it (`hsd_naive`): the unit its law and its counts are about."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from specviz.probability.draft import Draft
from specviz.probability.draws import Keys
from specviz.probability.table_models import Problem
from specviz.verifiers import get_verifier
from specviz_lab.prove.enumerate import paths
from verifiers import drafts
from verifiers.rounds import Play, draw_draft, emitted, target_rows

ROUNDS = 64  # keys of a block: its rounds are numbered from a multiple of this
NAIVE = get_verifier("hsd_naive").plan


@dataclass(frozen=True)
class Block:
    """What a block brought. `calls`: target calls; `infinite`: a carried ratio was infinite."""

    tokens: tuple[int, ...]
    accepted: int
    calls: int
    infinite: bool


@dataclass(frozen=True)
class Blocks:
    """How blocks are played. `planned`: the draft says how long it would have been; `carries`: the tail is followed.

    `dropped`: the carry is dropped behind a stop token, where the drafter itself would have stopped.
    """

    problem: Problem
    gamma: int
    stop: tuple[int, ...] = ()
    planned: bool = True
    carries: bool = True
    dropped: bool = True
    plan: Callable[..., Any] = NAIVE

    def play(self, keys: Any, text: tuple[int, ...], round_: int) -> Block:
        number = round_ * ROUNDS
        keys = following(keys, number)
        draft = draw_draft(keys, text, self.problem, drafts.chain(self.gamma, self.stop))
        draft = replace(draft, planned=self.gamma if self.planned else len(draft))
        outcome = self.plan(draft, target_rows(self.problem.p, text, draft)).walk(keys, len(text))
        tokens, accepted, calls, infinite = emitted(draft, outcome), len(outcome.accepted), 1, False
        while outcome.carry and self.carries and not (self.dropped and tokens[-1] in self.stop):
            here, number, calls = (*text, *tokens), number + 1, calls + 1
            infinite = infinite or outcome.carry.log_ratio == math.inf
            draft = Draft(law_rows=np.stack([self.problem.q.row(here)]), carry=outcome.carry)
            outcome = self.plan(draft, target_rows(self.problem.p, here, draft)).walk(
                following(keys, number), len(here)
            )
            assert outcome.closing is not None
            tokens = (*tokens, outcome.closing)
        return Block(tokens, accepted, calls, infinite)

    @property
    def tokens(self) -> Play:
        """As `chained` wants it."""
        return lambda keys, text, round_: self.play(keys, text, round_).tokens

    def first(self) -> list[tuple[Block, Any]]:
        """Every way the first block can go, with its probability."""
        return [(block, branch.prob) for block, branch in paths(lambda branch: self.play(branch.keys(1), (), 1))]


def following(keys: Any, round_: int) -> Any:
    """The draws of another round of the same query."""
    return replace(keys, round=round_) if isinstance(keys, Keys) else keys.branch.keys(round_, keys.way)


def expected(blocks: Iterable[tuple[Block, Any]], what: Callable[[Block], Any]) -> Any:
    """The expectation of a number of a block."""
    return sum(what(block) * prob for block, prob in blocks)
