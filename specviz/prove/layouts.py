"""The draft layouts `prove` knows, by name, and which of them a verifier is shown on.

Whether a verifier can judge a draft is the verifier's own word (`refuses`); the layouts it is meant for are its
`layouts`, best first. A layout is sized by the `Problem`: `gamma`, `candidates`, `replacement`, `tree`.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

from specviz.errors import SpecvizError, suggestion
from specviz.probability.draft import Draft
from specviz.probability.plan import Verifier
from specviz.probability.table_models import Iid, Problem, exact_row
from specviz.prove import drafting
from specviz.prove.drafting import DraftBuilder, Grow
from specviz.prove.enumerate import EnumeratedPath

WIDTH = 2  # children of a node in a tree nobody sized


@dataclass(frozen=True, slots=True)
class DraftLayout:
    """A way to draft. `n_drawn`: how many tokens of it are drawn, each of them up to V branches of the enumeration."""

    name: str
    grow: Callable[[Problem], Grow]
    n_drawn: Callable[[Problem], int]
    words: Callable[[Problem], str]
    shared: bool = False  # drawn with the target's noise
    several: bool = False  # needs two candidates or more to be itself


def draw(keys: object, text: tuple[int, ...], problem: Problem, layout: DraftLayout) -> Draft:
    """The draft of one round after `text`."""
    builder = DraftBuilder(keys, text, problem.q)
    layout.grow(problem)(builder)
    return builder.build(shared=layout.shared)


def get_layout(name: str) -> DraftLayout:
    """The layout of that name. Raises SpecvizError with the nearest name."""
    if name not in LAYOUTS:
        raise SpecvizError(f"no layout '{name}'{suggestion(name, LAYOUTS)}")
    return LAYOUTS[name]


def layout_of(problem: Problem) -> DraftLayout:
    """The layout a problem describes: its tree, its candidates, or one chain."""
    if problem.tree is not None:
        return LAYOUTS["tree"]
    return LAYOUTS[problem.layout if problem.candidates > 1 else "chain"]


def misfit(verifier: Verifier, problem: Problem, layout: DraftLayout) -> str | None:
    """Why the verifier cannot judge such drafts, None when it can.

    Told by a small draft of the same form in which every token is possible: one of the tables' own may happen to have
    no branches where the next has some, and one of 16 candidates to have more nodes than there is memory.
    """
    every = Iid(exact_row([Fraction(1, problem.vocab)] * problem.vocab))
    small = replace(problem, q=every, gamma=min(2, problem.gamma), candidates=min(2, problem.candidates))
    return verifier.refuses(draw(EnumeratedPath().keys(1), (), small, layout))


def meant_for(verifier: Verifier, problem: Problem) -> list[str]:
    """The layouts to show a verifier on: those it is meant for, or all it does not refuse."""
    several = replace(problem, candidates=max(2, problem.candidates))
    told = [name for name in verifier.layouts or LAYOUTS if name in LAYOUTS]
    return [name for name in told if not misfit(verifier, several, LAYOUTS[name])]


def _width(problem: Problem) -> int:
    return problem.candidates if problem.candidates > 1 else WIDTH


def _tree(problem: Problem) -> Grow:
    if problem.tree is not None:
        return drafting.paths_tree(problem.tree)
    return drafting.best_tree(problem.gamma, min(_width(problem), problem.vocab))


def _distinct(problem: Problem) -> str:
    return "" if problem.replacement else ", distinct"


_ALL = (
    DraftLayout("chain", lambda p: drafting.chain(p.gamma), lambda p: p.gamma, lambda p: "chain"),
    DraftLayout(
        "shared", lambda p: drafting.shared_chain(p.gamma), lambda p: p.gamma, lambda p: "shared, cdf", shared=True
    ),
    DraftLayout(
        "parallel",
        lambda p: drafting.chains(p.gamma, p.candidates, replacement=p.replacement),
        lambda p: p.gamma * p.candidates,
        lambda p: f"{p.candidates} chains{_distinct(p)}",
        several=True,
    ),
    DraftLayout(
        "caterpillar",
        lambda p: drafting.caterpillar(p.gamma, p.candidates, replacement=p.replacement),
        lambda p: p.gamma + (p.candidates - 1) * p.gamma * (p.gamma + 1) // 2,
        lambda p: f"caterpillar {p.candidates}{_distinct(p)}",
        several=True,
    ),
    DraftLayout(
        "tree", _tree, lambda p: 0, lambda p: "tree" if p.tree is not None else f"top-{min(_width(p), p.vocab)} tree"
    ),
    DraftLayout(
        "drawn_tree",
        lambda p: drafting.drawn_tree(p.gamma, _width(p), replacement=p.replacement),
        lambda p: sum(_width(p) ** depth for depth in range(1, p.gamma + 1)),
        lambda p: f"drawn tree {_width(p)}{_distinct(p)}",
    ),
)
LAYOUTS: dict[str, DraftLayout] = {layout.name: layout for layout in _ALL}
