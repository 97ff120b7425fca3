"""Drafts on table models: the layouts of production (`specviz_lab.prove.layouts`), and odder ones for tests."""

from collections.abc import Iterable

import numpy as np

from specviz.probability.draft import ROOT
from specviz_lab.prove.layouts import (
    BRANCH,
    JUDGED,
    WINDOW,
    DraftBuilder,
    Grow,
    best_tree,
    caterpillar,
    chain,
    drawn_tree,
    paths_tree,
    shared_chain,
    siblings,
    without,
)
from specviz_lab.prove.layouts import chains as distinct_or_not

__all__ = [
    "BRANCH",
    "JUDGED",
    "WINDOW",
    "DraftBuilder",
    "Grow",
    "argmax_chain",
    "best_tree",
    "branching",
    "caterpillar",
    "chain",
    "chains",
    "distinct_chains",
    "drawn_tree",
    "hybrid",
    "paths_tree",
    "shared_chain",
    "siblings",
    "uneven_chains",
    "windowed",
    "without",
]


def chains(gamma: int, count: int, stop: Iterable[int] = ()) -> Grow:
    """`count` independent chains from the root."""

    def grow(b: DraftBuilder) -> None:
        for _ in range(count):
            chain(gamma, stop)(b)

    return grow


def uneven_chains(*lengths: int) -> Grow:
    """Independent chains of these lengths."""

    def grow(b: DraftBuilder) -> None:
        for length in lengths:
            chain(length)(b)

    return grow


def argmax_chain(gamma: int) -> Grow:
    """The most probable token each time, the lowest id on ties: point masses."""

    def grow(b: DraftBuilder) -> None:
        node = ROOT
        for _ in range(gamma):
            node = b.point(node, int(np.argmax(b.row(node))))

    return grow


def distinct_chains(gamma: int, count: int) -> Grow:
    """Chains whose first tokens are drawn without replacement."""
    return distinct_or_not(gamma, count, replacement=False)


def hybrid(depth: int, points: int, *, drawn_first: bool = True) -> Grow:
    """At every node one drawn child and the most probable tokens beside it as point masses; all have children."""

    def grow(b: DraftBuilder) -> None:
        level = [ROOT]
        for _ in range(depth):
            level = [child for n in level for child in _hybrid_children(b, n, points, drawn_first)]

    return grow


def _hybrid_children(b: DraftBuilder, node: int, points: int, drawn_first: bool) -> list[int]:
    best = [int(t) for t in np.argsort(-b.row(node), kind="stable")]
    if not drawn_first:
        return [*(b.point(node, t) for t in best[:points]), b.draw(node)]
    first = b.draw(node)
    beside = [t for t in best if t != b.tokens[first]][:points]
    return [first, *(b.point(node, t) for t in beside)]


def windowed(gamma: int) -> Grow:
    """A drawn chain with fed-only nodes hanging off it, spelled like judged ones or not, and an unfed branch token."""

    def grow(b: DraftBuilder) -> None:
        chain(gamma)(b)
        extra = b.point(ROOT, b.table.vocab - 1, WINDOW)
        b.point(extra, 0, WINDOW)
        b.point(gamma - 1 if gamma else ROOT, 0, BRANCH)

    return grow


def branching(gamma: int, *, drawn: bool) -> Grow:
    """A chain, and at its end two unfed branch tokens: a drawn one and another beside it, or the two most probable."""

    def grow(b: DraftBuilder) -> None:
        chain(gamma)(b)
        leaf = gamma - 1 if gamma else ROOT
        best = [int(t) for t in np.argsort(-b.row(leaf), kind="stable")]
        if drawn:
            first = b.tokens[b.draw(leaf, role=BRANCH)]
            best = [t for t in best if t != first][:1]
        for token in best[:2]:
            b.point(leaf, token, BRANCH)

    return grow
