"""`prove`: does a verifier keep the target's law? By enumeration, nothing sampled, in fractions where tables allow.

Two laws of the first gamma + 1 tokens are compared with the target's:

* `law`: one block, plain decoding after it. The golden distances are of this one.
* the chained law: block after block, every uniform under the key it has in a session. It alone sees draws that are
  looked at twice, such as keys without the round.

Floats stand in where fractions would be endless; then a deviation counts from `TOLERANCE` on.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import count
from typing import Any, cast

from specviz.probability.plan import Verifier
from specviz.probability.table_models import Iid, Markov, Problem, law
from specviz.verifiers.slack import DEFAULT, slack_plan
from specviz.verifiers.slack import VERIFIER as SLACK
from specviz_lab.prove.enumerate import BranchKeys, Law, deviation, total_variation
from specviz_lab.prove.known import closed_form
from specviz_lab.prove.layouts import DraftLayout, draw
from specviz_lab.prove.rounds import Begun, Blocks, MakeDraft, MakePlan, PlayedBlock, RoundPlayer

TOLERANCE = 1e-12


@dataclass(frozen=True, slots=True)
class Proof:
    """What the enumeration found. Numbers are Fractions when `exact`, else floats."""

    verifier: str
    claims_lossless: bool
    layout: DraftLayout
    problem: Problem
    exact: bool
    law: Law  # of the first gamma + 1 tokens: one block, plain decoding after it
    target: Law
    max_abs_err: Any
    tv: Any
    chained_max_abs_err: Any
    chained_tv: Any
    accepted_law: tuple[Any, ...]  # P(accepted = 0) .. P(accepted = gamma): gamma + 1 entries, zeros among them
    expected_accepted: Any
    expected_tokens: Any  # of a block
    target_calls: Any  # of a block, expected
    closed_form: Any | None  # sum over t of E_q[credit_t], where there is one
    n_paths: int

    @property
    def lossless(self) -> bool:
        """Whether both laws are the target's."""
        return bool(max(self.max_abs_err, self.chained_max_abs_err) <= (0 if self.exact else TOLERANCE))

    @property
    def is_false_claim(self) -> bool:
        """Claims to be lossless and is not."""
        return self.claims_lossless and not self.lossless

    @property
    def closed_form_holds(self) -> bool | None:
        """Whether E[accepted] is the closed form; None without one."""
        if self.closed_form is None:
            return None
        return bool(abs(self.closed_form - self.expected_accepted) <= (0 if self.exact else TOLERANCE))

    @property
    def tokens_per_call(self) -> Any:
        """Tokens of a block per target call, in expectation of both."""
        return self.expected_tokens / self.target_calls


@dataclass(frozen=True, slots=True)
class Rule:
    """What is enumerated: a way to draft and a way to judge, right or wrong on purpose."""

    draft: MakeDraft
    plan: MakePlan
    keyed: bool = True  # False: the round is left out of the keys


def prove(problem: Problem, verifier: Verifier, layout: DraftLayout) -> Proof:
    """Enumerate one verifier on one draft layout. The caller has seen to it that they fit (`layouts.misfit`)."""
    plan = in_fractions(verifier).plan if is_exact(problem) else verifier.plan
    rule = Rule(lambda keys, text: draw(keys, text, problem, layout), plan)
    paths = count()
    rounds = rounds_of(problem, rule, paths)
    blocks = rounds.first()
    target = law(problem.p, problem.gamma + 1)
    emitted = continued(blocks, problem)
    chain = rounds.law(problem.gamma + 1)
    lengths = accepted_law(blocks, problem.gamma)
    # What every lossless rule keeps of a fixed tree says nothing of one that is not.
    form = closed_form(verifier.name, layout, problem) if verifier.lossless else None
    return Proof(
        verifier.name,
        verifier.lossless,
        layout,
        problem,
        is_exact(problem),
        emitted,
        target,
        deviation(emitted, target),
        total_variation(emitted, target),
        deviation(chain, target),
        total_variation(chain, target),
        lengths,
        mean(lengths),
        _expected(blocks, lambda block: len(block.tokens)),
        _expected(blocks, lambda block: block.n_calls),
        form,
        next(paths),
    )


def rounds_of(problem: Problem, rule: Rule, paths: Iterator[int] | None = None) -> RoundPlayer[PlayedBlock]:
    """Block after block under a rule; `paths` counts them."""
    blocks = Blocks(problem, rule.draft, rule.plan)

    def play(keys: BranchKeys, text: tuple[int, ...], round_: int, begun: Begun) -> PlayedBlock:
        if paths:
            next(paths)
        return blocks.play(keys, text, begun)

    return RoundPlayer(blocks.begin, play, lambda block: block.tokens, keyed=rule.keyed, memory=memory(problem))


def continued(blocks: Mapping[PlayedBlock, Any], problem: Problem) -> Law:
    """The law of the first gamma + 1 tokens when plain decoding follows the block."""
    length = problem.gamma + 1
    level: Law = {}
    for block, prob in blocks.items():
        text = block.tokens[:length]
        level[text] = level.get(text, 0) + prob
    for short in range(length):
        for text in [text for text in level if len(text) == short]:
            prob = level.pop(text)
            for token, share in enumerate(problem.p.row(text)):
                if share > 0:
                    level[(*text, token)] = level.get((*text, token), 0) + prob * share
    return level


def memory(problem: Problem) -> int | None:
    """How many of the last tokens the rows depend on; None: on all."""
    tables = (problem.p, problem.q)
    if not all(isinstance(table, Iid | Markov) for table in tables):
        return None
    return int(any(isinstance(table, Markov) for table in tables))


def accepted_law(blocks: Mapping[PlayedBlock, Any], gamma: int) -> tuple[Any, ...]:
    """P(accepted = 0) .. P(accepted = gamma) of a block: always gamma + 1 entries, a length that never comes is 0."""
    law_of_count: list[Any] = [0] * (gamma + 1)
    for block, prob in blocks.items():
        law_of_count[block.n_accepted] += prob
    return tuple(law_of_count)


def mean(law_of_count: Sequence[Any]) -> Any:
    """The expectation of a law over 0, 1, 2, .."""
    return sum(k * prob for k, prob in enumerate(law_of_count))


def _expected(blocks: Mapping[PlayedBlock, Any], number: Callable[[PlayedBlock], int]) -> Any:
    return sum(number(block) * prob for block, prob in blocks.items())


def is_exact(problem: Problem) -> bool:
    """Whether the rows are Fractions."""
    return bool(problem.p.row(()).dtype == object)


def in_fractions(verifier: Verifier) -> Verifier:
    """A verifier whose own number is a float by default, with that number as a Fraction."""
    return replace(verifier, plan=slack_plan(cast(float, Fraction(DEFAULT)))) if verifier is SLACK else verifier
