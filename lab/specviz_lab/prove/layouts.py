"""Drafts on table models, drawn with the keys of a session, in every layout there is.

A layout grows a draft node by node, sized by the `Problem`: `gamma`, `candidates`, `replacement`, `tree`. Drawn nodes
record the very law they were drawn from, earlier siblings taken out where draws are without replacement; chosen nodes
are point masses. Whether a verifier can judge a draft is the verifier's own word (`refuses`); the layouts it is meant
for are its `layouts`, best first.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from specviz.probability.draft import ROOT, Draft
from specviz.probability.plan import Verifier
from specviz.probability.table_models import Problem, Table
from specviz_lab.prove.enumerate import EnumeratedPath

JUDGED, WINDOW, BRANCH = 0, 1, 2  # the three groups of a Draft, in feed order


class DraftBuilder:
    """Grows a draft after `text`; nodes are named by their birth number, which becomes the id."""

    def __init__(self, keys: Any, text: tuple[int, ...], table: Table) -> None:
        self.keys, self.text, self.table = keys, text, table
        self.tokens: list[int] = []
        self.parents: list[int] = []
        self.laws: list[Any] = []
        self.roles: list[int] = []
        self.drawn_at: dict[int, int] = {}

    def path(self, node: int) -> tuple[int, ...]:
        """The tokens that lead to a node."""
        return () if node == ROOT else (*self.path(self.parents[node]), self.tokens[node])

    def row(self, node: int) -> Any:
        """The draft law after a node."""
        return self.table.row((*self.text, *self.path(node)))

    def point(self, parent: int, token: int, role: int = JUDGED, law: Any = None) -> int:
        """A chosen token; `law` only to record a wrong one."""
        self.tokens.append(int(token))
        self.parents.append(parent)
        self.laws.append(law)
        self.roles.append(role)
        return len(self.tokens) - 1

    def draw(
        self, parent: int, law: Any = None, *, role: int = JUDGED, record: Any = None, stream: str = "draft"
    ) -> int:
        """A token drawn from `law` (the draft law after the parent); `record` only to write down another one."""
        law = self.row(parent) if law is None else law
        depth = len(self.path(parent)) + 1
        ordinal = 0
        if stream == "draft":
            ordinal = self.drawn_at[depth] = self.drawn_at.get(depth, -1) + 1
        token = self.keys.draw(stream, len(self.text) - 1 + depth, law, ordinal).token
        return self.point(parent, token, role, law if record is None else record)

    def build(self, *, shared: bool = False, ids: Sequence[int] | None = None, **fields: Any) -> Draft:
        """The frozen draft, nodes in feed order. `fields`: the rest of the `Draft`."""
        order = sorted(range(len(self.tokens)), key=lambda i: self.roles[i])
        place = {node: k for k, node in enumerate(order)} | {ROOT: ROOT}
        rows = [self.laws[i] for i in order if self.laws[i] is not None]
        numbers = iter(range(len(rows)))
        return Draft(
            tokens=tuple(self.tokens[i] for i in order),
            parents=tuple(place[self.parents[i]] for i in order),
            ids=tuple(order if ids is None else [ids[i] for i in order]),
            n_judged=self.roles.count(JUDGED),
            n_fed=len(order) - self.roles.count(BRANCH),
            law_rows=np.stack(rows) if rows else None,
            row_of=tuple(-1 if self.laws[i] is None else next(numbers) for i in order),
            shared=shared,
            **fields,
        )


Grow = Callable[[DraftBuilder], None]


def chain(gamma: int, stop: Iterable[int] = (), after: int = ROOT) -> Grow:
    """A drawn chain. It ends at a stop token, which is kept and not fed."""

    def grow(b: DraftBuilder) -> None:
        node = after
        for _ in range(gamma):
            node = b.draw(node)
            if b.tokens[node] in stop:
                b.roles[node] = BRANCH
                return

    return grow


def shared_chain(gamma: int) -> Grow:
    """A chain drawn with the target's own noise."""

    def grow(b: DraftBuilder) -> None:
        node = ROOT
        for _ in range(gamma):
            node = b.draw(node, stream="target")

    return grow


def chains(gamma: int, count: int, *, replacement: bool = True) -> Grow:
    """`count` chains from the root, independent or with distinct first tokens."""

    def grow(b: DraftBuilder) -> None:
        if replacement:
            for _ in range(count):
                chain(gamma)(b)
            return
        for node in siblings(b, ROOT, count, replacement=False):
            chain(gamma - 1, after=node)(b)

    return grow


def caterpillar(gamma: int, count: int, *, replacement: bool = True) -> Grow:
    """A main chain, and `count - 1` fresh chains from every node of it, with distinct first tokens if asked."""

    def grow(b: DraftBuilder) -> None:
        chain(gamma)(b)
        for depth, node in enumerate([ROOT, *range(gamma)][:gamma]):
            elder = () if replacement else (b.tokens[depth],)  # what the main chain drew at this node
            for first in siblings(b, node, count - 1, replacement=replacement, elder=elder):
                chain(gamma - depth - 1, after=first)(b)

    return grow


def paths_tree(leaves: Iterable[Sequence[int]]) -> Grow:
    """A deterministic tree by its root-to-leaf paths, shared nodes once."""
    paths = [tuple(leaf) for leaf in leaves]

    def grow(b: DraftBuilder) -> None:
        nodes: dict[tuple[int, ...], int] = {(): ROOT}
        for leaf in paths:
            for depth in range(1, len(leaf) + 1):
                path = leaf[:depth]
                if path not in nodes:
                    nodes[path] = b.point(nodes[path[:-1]], path[-1])

    return grow


def best_tree(depth: int, width: int) -> Grow:
    """The `width` most probable children of every node."""

    def grow(b: DraftBuilder) -> None:
        level = [ROOT]
        for _ in range(depth):
            level = [b.point(n, t) for n in level for t in np.argsort(-b.row(n), kind="stable")[:width]]

    return grow


def drawn_tree(depth: int, width: int, *, replacement: bool = True) -> Grow:
    """`width` children drawn at every node; without replacement each from what its elder siblings left."""

    def grow(b: DraftBuilder) -> None:
        level = [ROOT]
        for _ in range(depth):
            level = [child for n in level for child in siblings(b, n, width, replacement=replacement)]

    return grow


def siblings(
    b: DraftBuilder,
    parent: int,
    count: int,
    *,
    replacement: bool,
    elder: Sequence[int] = (),
    record_plain: bool = False,
) -> list[int]:
    """Drawn children of one node, after the `elder` ones. `record_plain`: the wrong law on record, for a control."""
    out: list[int] = []
    law = b.row(parent)
    for token in elder:
        law = without(law, token)
    for _ in range(count):
        if law.sum() == 0:
            break
        share = law if replacement and not elder else law / law.sum()
        out.append(b.draw(parent, share, record=b.row(parent) if record_plain else None))
        if not replacement:
            law = without(law, b.tokens[out[-1]])
    return out


def without(law: Any, token: int) -> Any:
    """The row with one entry set to zero."""
    out = law.copy()
    out[token] = out[token] * 0
    return out


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


def misfit(verifier: Verifier, problem: Problem, layout: DraftLayout) -> str | None:
    """Why the verifier cannot judge such drafts, None when it can.

    Told by a small draft of the same form: more tokens or candidates change nothing of it.
    """
    small = replace(problem, gamma=min(2, problem.gamma), candidates=min(2, problem.candidates))
    return verifier.refuses(draw(EnumeratedPath().keys(1), (), small, layout))


def meant_for(verifier: Verifier, problem: Problem) -> list[str]:
    """The layouts to show a verifier on: those it is meant for, or all it does not refuse."""
    several = replace(problem, candidates=max(2, problem.candidates))
    names = [name for name in verifier.layouts or LAYOUTS if name in LAYOUTS]
    return [name for name in names if not misfit(verifier, several, LAYOUTS[name])]


def _width(problem: Problem) -> int:
    return problem.candidates if problem.candidates > 1 else WIDTH


def _tree(problem: Problem) -> Grow:
    if problem.tree is not None:
        return paths_tree(problem.tree)
    return best_tree(problem.gamma, min(_width(problem), problem.vocab))


def _distinct(problem: Problem) -> str:
    return "" if problem.replacement else ", distinct"


_ALL = (
    DraftLayout("chain", lambda p: chain(p.gamma), lambda p: p.gamma, lambda p: "chain"),
    DraftLayout("shared", lambda p: shared_chain(p.gamma), lambda p: p.gamma, lambda p: "shared, cdf", shared=True),
    DraftLayout(
        "parallel",
        lambda p: chains(p.gamma, p.candidates, replacement=p.replacement),
        lambda p: p.gamma * p.candidates,
        lambda p: f"{p.candidates} chains{_distinct(p)}",
        several=True,
    ),
    DraftLayout(
        "caterpillar",
        lambda p: caterpillar(p.gamma, p.candidates, replacement=p.replacement),
        lambda p: p.gamma + (p.candidates - 1) * p.gamma * (p.gamma + 1) // 2,
        lambda p: f"caterpillar {p.candidates}{_distinct(p)}",
        several=True,
    ),
    DraftLayout(
        "tree", _tree, lambda p: 0, lambda p: "tree" if p.tree is not None else f"top-{min(_width(p), p.vocab)} tree"
    ),
    DraftLayout(
        "drawn_tree",
        lambda p: drawn_tree(p.gamma, _width(p), replacement=p.replacement),
        lambda p: sum(_width(p) ** depth for depth in range(1, p.gamma + 1)),
        lambda p: f"drawn tree {_width(p)}{_distinct(p)}",
    ),
)
LAYOUTS: dict[str, DraftLayout] = {layout.name: layout for layout in _ALL}
