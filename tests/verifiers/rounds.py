"""A round loop of a few lines: draft, plan, walk, commit. The verifier is the production one, the rest is not."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from specviz.probability.draft import Draft
from specviz.probability.plan import Outcome, Plan, Verifier
from specviz.probability.table_models import Problem, law
from specviz_lab.prove.enumerate import Law, deviation, paths
from specviz_lab.prove.proof import mean as mean
from specviz_lab.prove.rounds import RoundPlayer
from specviz_lab.prove.rounds import emitted as emitted
from specviz_lab.prove.rounds import target_rows as target_rows
from verifiers.drafts import DraftBuilder, Grow

Play = Callable[[Any, tuple[int, ...], int], tuple[int, ...]]  # keys, text, round: the tokens it emits


def chained(play: Play, length: int, *, stop: frozenset[int] = frozenset(), **options: Any) -> Law:
    """The law of the first `length` tokens (cut after a stop token) over as many rounds as they take.

    `options`: `keyed`, `way` and `memory` of `RoundPlayer`.
    """
    rounds = RoundPlayer(
        lambda keys, text: None, lambda keys, text, round_, _: play(keys, text, round_), tuple, **options
    )
    return rounds.law(length, stop)


def draw_draft(keys: Any, text: tuple[int, ...], problem: Problem, grow: Grow, *, shared: bool = False) -> Draft:
    """The draft of one round."""
    builder = DraftBuilder(keys, text, problem.q)
    grow(builder)
    return builder.build(shared=shared)


def play_once(
    keys: Any, text: tuple[int, ...], problem: Problem, grow: Grow, plan: Any, *, shared: bool = False
) -> tuple[Draft, Outcome]:
    """One round."""
    draft = draw_draft(keys, text, problem, grow, shared=shared)
    return draft, plan(draft, target_rows(problem.p, text, draft)).walk(keys, len(text))


def play(problem: Problem, grow: Grow, plan: Any, *, shared: bool = False) -> Play:
    """A round as `chained` wants it. A draft met again after the same text gets its plan again: plans have no state."""
    plans: dict[Any, Plan] = {}

    def run(keys: Any, text: tuple[int, ...], round_: int) -> tuple[int, ...]:
        draft = draw_draft(keys, text, problem, grow, shared=shared)
        known = (text, draft.tokens, draft.parents, draft.ids)
        if known not in plans:
            plans[known] = plan(draft, target_rows(problem.p, text, draft))
        return emitted(draft, plans[known].walk(keys, len(text)))

    return run


def chained_law(problem: Problem, grow: Grow, verifier: Verifier, length: int, **options: Any) -> Law:
    """The law of the first `length` tokens under a production verifier."""
    shared = options.pop("shared", False)
    return chained(play(problem, grow, verifier.plan, shared=shared), length, **options)


def off_target(problem: Problem, grow: Grow, verifier: Verifier, length: int, **options: Any) -> Any:
    """Largest deviation of that law from the target's."""
    stop = options.get("stop", frozenset())
    return deviation(chained_law(problem, grow, verifier, length, **options), law(problem.p, length, stop))


def accepted_law(problem: Problem, grow: Grow, plan: Any, *, shared: bool = False) -> list[Any]:
    """P(accepted = 0), P(accepted = 1), .. of a first round."""
    out: dict[int, Any] = {}
    runs = paths(lambda branch: play_once(branch.keys(1), (), problem, grow, plan, shared=shared))
    for (_, outcome), branch in runs:
        count = len(outcome.accepted)
        out[count] = out.get(count, 0) + branch.prob
    return [out.get(k, 0) for k in range(max(out) + 1)]


def fractions(text: str) -> list[Fraction]:
    """Golden numbers as they are printed, exactly."""
    return [Fraction(part) for part in text.replace(",", " ").split()]
