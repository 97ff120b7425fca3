"""The draft layouts `prove` knows, by name, and which of them a verifier is shown on.

Whether a verifier can judge a draft is the verifier's own word (`refuses`); the layouts it is meant for are its
`layouts`, best first. A layout is sized by the `Problem`: `gamma`, `candidates`, `replacement`, `tree`.

One block of decoding on table models: draft, production plan, walk, and the carried rounds that may follow.

A few lines stand in for the session; the verifier is the one of production.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np

from specviz.errors import SpecvizError, suggestion
from specviz.probability.draft import Carry, Draft
from specviz.probability.plan import Outcome, Plan, Verifier
from specviz.probability.table_models import Iid, Problem, Table, exact_row
from specviz.prove import drafting
from specviz.prove.drafting import Builder, Grow
from specviz.prove.enumerate import Branch

WIDTH = 2  # children of a node in a tree nobody sized


@dataclass(frozen=True, slots=True)
class Layout:
    """A way to draft. `n_drawn`: how many tokens of it are drawn, each of them up to V branches of the enumeration."""

    name: str
    grow: Callable[[Problem], Grow]
    n_drawn: Callable[[Problem], int]
    words: Callable[[Problem], str]
    shared: bool = False  # drawn with the target's noise
    several: bool = False  # needs two candidates or more to be itself


def draw(keys: object, text: tuple[int, ...], problem: Problem, layout: Layout) -> Draft:
    """The draft of one round after `text`."""
    builder = Builder(keys, text, problem.q)
    layout.grow(problem)(builder)
    return builder.build(shared=layout.shared)


def get_layout(name: str) -> Layout:
    """The layout of that name. Raises SpecvizError with the nearest name."""
    if name not in LAYOUTS:
        raise SpecvizError(f"no layout '{name}'{suggestion(name, LAYOUTS)}")
    return LAYOUTS[name]


def layout_of(problem: Problem) -> Layout:
    """The layout a problem describes: its tree, its candidates, or one chain."""
    if problem.tree is not None:
        return LAYOUTS["tree"]
    return LAYOUTS[problem.layout if problem.candidates > 1 else "chain"]


def misfit(verifier: Verifier, problem: Problem, layout: Layout) -> str | None:
    """Why the verifier cannot judge such drafts, None when it can.

    Told by a small draft of the same form in which every token is possible: one of the tables' own may happen to have
    no branches where the next has some, and one of 16 candidates to have more nodes than there is memory.
    """
    every = Iid(exact_row([Fraction(1, problem.vocab)] * problem.vocab))
    small = replace(problem, q=every, gamma=min(2, problem.gamma), candidates=min(2, problem.candidates))
    return verifier.refuses(draw(Branch().keys(1), (), small, layout))


def meant_for(verifier: Verifier, problem: Problem) -> list[str]:
    """The layouts to show a verifier on: those it is meant for, or all it does not refuse."""
    several = replace(problem, candidates=max(2, problem.candidates))
    told = [name for name in verifier.layouts or LAYOUTS if name in LAYOUTS]
    return [name for name in told if not misfit(verifier, several, LAYOUTS[name])]


def _chain(problem: Problem) -> Grow:
    return drafting.chain(problem.gamma)


def _shared(problem: Problem) -> Grow:
    return drafting.shared_chain(problem.gamma)


def _parallel(problem: Problem) -> Grow:
    return drafting.chains(problem.gamma, problem.candidates, replacement=problem.replacement)


def _caterpillar(problem: Problem) -> Grow:
    return drafting.caterpillar(problem.gamma, problem.candidates, replacement=problem.replacement)


def _tree(problem: Problem) -> Grow:
    if problem.tree is not None:
        return drafting.paths_tree(problem.tree)
    return drafting.best_tree(problem.gamma, min(_width(problem), problem.vocab))


def _drawn_tree(problem: Problem) -> Grow:
    return drafting.drawn_tree(problem.gamma, _width(problem), replacement=problem.replacement)


def _width(problem: Problem) -> int:
    return problem.candidates if problem.candidates > 1 else WIDTH


def _caterpillar_size(problem: Problem) -> int:
    return problem.gamma + (problem.candidates - 1) * problem.gamma * (problem.gamma + 1) // 2


def _drawn_tree_size(problem: Problem) -> int:
    return sum(_width(problem) ** depth for depth in range(1, problem.gamma + 1))


def _distinct(problem: Problem) -> str:
    return "" if problem.replacement else ", distinct"


def _tree_words(problem: Problem) -> str:
    return "tree" if problem.tree is not None else f"top-{min(_width(problem), problem.vocab)} tree"


LAYOUTS: dict[str, Layout] = {
    layout.name: layout
    for layout in (
        Layout("chain", _chain, lambda p: p.gamma, lambda p: "chain"),
        Layout("shared", _shared, lambda p: p.gamma, lambda p: "shared, cdf", shared=True),
        Layout(
            "parallel", _parallel, lambda p: p.gamma * p.candidates,
            lambda p: f"{p.candidates} chains{_distinct(p)}", several=True,
        ),
        Layout(
            "caterpillar", _caterpillar, _caterpillar_size,
            lambda p: f"caterpillar {p.candidates}{_distinct(p)}", several=True,
        ),
        Layout("tree", _tree, lambda p: 0, _tree_words),
        Layout("drawn_tree", _drawn_tree, _drawn_tree_size, lambda p: f"drawn tree {_width(p)}{_distinct(p)}"),
    )
}  # fmt: skip

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
