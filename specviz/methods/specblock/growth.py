"""Growing SpecBlock's tree: which tokens of a block become nodes, where the next blocks start, what is kept.

Pure functions of numbers: no model, no device. An *expansion* is one (block, slot) distribution at one parent; a node
can be offered by several, which is why rank statistics belong to expansions. Every slot adds its best tokens as
children of the slot before's best token, so a block is a spine with siblings; siblings get children only when a later
block starts at them.

Merging joins offers of the same token at the same parent: certain to happen, because slot 0 of a block that starts at
spine node k speaks of the same place as slot k + 1 of the block before.

Drawn siblings (`draw`) have rules of their own, without which the recorded laws would be false: how
many there are is fixed before the first is drawn, one expansion a node, and nothing is dropped or joined afterwards.
So the budget is spent as the tree grows, and blocks start at leaves only.

How many children a slot gets: by rank bucket, trimmed where the draft is sure.

Width 0 gives up: that slot and all later ones of its block get no siblings and no starts, only the spine's own nodes,
which cost the drafter nothing. Slot 0 of the root's block ignores its bucket and takes the `beam`.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from specviz.methods.common.tree_builder import ScoredTree
from specviz.methods.common.tree_size import TreeCost, chances, hoped
from specviz.methods.trained.ranks import SlotCandidates
from specviz.probability.draft import ROOT

Reason = Literal["bucket", "beam", "trim", "give_up", "override"]

ROOT_TRIMS = ((0.9, 3), (0.8, 5), (0.6, 8))  # at least so sure -> at most so many
TRIMS = ((0.95, 2), (0.85, 3))


@dataclass(frozen=True, slots=True)
class Preset:
    widths: tuple[int, int, int, int]
    beam: int
    budget: int
    trims: bool


PRESETS: dict[str, Preset] = {
    "paper": Preset((2, 4, 10, 0), 10, 60, False),
    "reference-fast": Preset((2, 4, 6, 4), 10, 90, True),
    "toy": Preset((2, 4, 10, 4), 10, 24, False),
}


@dataclass(frozen=True, slots=True)
class Width:
    """The effective width of a slot and what decided it; 0 gives up."""

    n: int
    reason: Reason


@dataclass(frozen=True, slots=True)
class Widths:
    """A round's rule. `cap`: most children below the root; `fixed`: every slot alike, whatever its bucket."""

    by_bucket: tuple[int, int, int, int]
    beam: int
    cap: int = 20
    trims: bool = False
    fixed: int | None = None

    @property
    def sizes(self) -> "Sizes":
        """Children where nothing is trimmed."""
        by_bucket = (min(n, self.cap) if self.fixed is None else self.fixed for n in self.by_bucket)
        return Sizes(tuple(by_bucket), self.beam)

    def of(self, offer: SlotCandidates, is_root: bool) -> Width:
        """The width of a slot; the greedy token counts."""
        sure = math.exp(min(0.0, offer.logs[0]))
        if is_root:
            return self._trimmed(Width(self.beam, "beam"), ROOT_TRIMS, sure)
        if self.fixed is not None:
            return self._trimmed(Width(self.fixed, "override"), TRIMS, sure)
        known = offer.true_bucket
        wanted = self.by_bucket[offer.bucket if known is None else known]
        if wanted == 0:
            return Width(0, "give_up")
        width = Width(min(wanted, self.cap), "bucket" if known is None and wanted <= self.cap else "override")
        return self._trimmed(width, TRIMS, sure)

    def _trimmed(self, width: Width, steps: tuple[tuple[float, int], ...], sure: float) -> Width:
        most = next((n for least, n in steps if sure >= least), width.n) if self.trims else width.n
        return width if width.n <= most else Width(most, "trim")


@dataclass(frozen=True, slots=True)
class Sizes:
    """Children by rank bucket, and of the root."""

    by_bucket: tuple[int, ...]
    root: int


class ChosenToken(NamedTuple):
    """A token that becomes a node. `law`: what it was drawn from, None for one that was chosen."""

    token: int
    log: float
    law: Any = None


Draw = Callable[[Sequence[int], SlotCandidates, int], Sequence[ChosenToken]]
"""`(tokens down to the parent, offer, how many)` -> siblings in the order they were drawn; fewer when none is left."""


@dataclass(slots=True)
class GrownNode:
    """A node of the raw tree. `merged`: expansions that offered it again; `chain` ends at the place it was born."""

    token: int
    parent: int
    depth: int
    cum: float
    expansion: int  # that made it
    rank: int  # 1-based, among what that expansion offered
    is_spine: bool
    law: Any = None  # it was drawn from
    merged: list[int] = field(default_factory=list)
    start: int | None = None  # the block started here


@dataclass(slots=True)
class SlotExpansion:
    """One distribution at one parent."""

    parent: int
    block: int
    slot: int
    start: int  # number of the block in the round, 0 = the root's
    offer: SlotCandidates
    width: Width
    children: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class StartCandidate:
    """A node where a later block may start, and the place that offered it."""

    node: int
    start: int  # number of the block that offered it
    slot: int
    cum: float


@dataclass(frozen=True, slots=True)
class GrowthKnobs:
    """A round's knobs, read for growing. `deepest`: nodes below it are not made; `cost`: what a round takes, where no
    more is grown and sent than pays; `slots`: nodes in a row that a block makes."""

    widths: Widths
    deepest: int
    merge: bool = True
    start_cap: int = 10
    budget: int = 60
    cost: TreeCost | None = None
    slots: int = 1


class GrowingTree(ScoredTree[GrownNode]):
    """The raw tree of one round. `ends(token)`: nothing follows that token; `draw`: siblings are drawn by it."""

    def __init__(
        self, setting: GrowthKnobs, ends: Callable[[int], bool] = lambda token: False, draw: Draw | None = None
    ) -> None:
        super().__init__(ends)
        self.setting, self.draw = setting, draw
        self.expansions: list[SlotExpansion] = []
        self.n_offered = 0  # nodes there would be without merging
        self._calls = 1
        self._by_key: dict[tuple[int, int], int] = {}
        self._candidates: dict[int, StartCandidate] = {}

    def expand(self, at: int, start: int, block: int, offers: Sequence[SlotCandidates]) -> None:
        """Grow one block's nodes from node `at`; its slots' offers in order."""
        if at != ROOT and self._left:
            self.nodes[at].start = start
        parent, given_up = at, False
        for slot, offer in enumerate(offers):
            if not self._left or not self._may_grow(parent):
                return
            width = self.setting.widths.of(offer, is_root=block == 1 and slot == 0)
            given_up = given_up or width.reason == "give_up"
            if given_up:
                width = Width(0, "give_up")
            width = self._afforded(width, len(offers) - slot - 1)
            children = self._children(parent, SlotExpansion(parent, block, slot, start, offer, width))
            is_last = slot == len(offers) - 1
            if width.n >= 2 or (is_last and not given_up):
                for node, cum in children if width.n >= 2 else children[:1]:
                    known = self._candidates.get(node)
                    if known is None or cum > known.cum:
                        self._candidates[node] = StartCandidate(node, start, slot, cum)
            parent = children[0][0]

    @property
    def _left(self) -> int:
        """Nodes that may still be made. What is chosen is pruned in the end, what is drawn is not."""
        return self.setting.budget - len(self.nodes) if self.draw else 1

    def _afforded(self, width: Width, later: int) -> Width:
        """Before anything is drawn, keep back a node for each of the block's `later` slots."""
        most = max(1, self._left - later)
        return Width(most, "override") if self.draw and width.n > most else width

    def _children(self, parent: int, expansion: SlotExpansion) -> list[tuple[int, float]]:
        """The expansion's nodes, the spine's first, each with the score of this offer."""
        self.expansions.append(expansion)
        children = []
        for rank, pick in enumerate(self._picks(parent, expansion.offer, max(1, expansion.width.n))):
            cum = self.cum(parent) + min(0.0, pick.log)
            node = self._node(parent, pick, cum, rank)
            expansion.children.append(node)
            children.append((node, cum))
        return children

    def _picks(self, parent: int, offer: SlotCandidates, n: int) -> Sequence[ChosenToken]:
        """Which tokens become nodes: the first of the offer, or draws."""
        if self.draw:
            return self.draw(self.path(parent), offer, n)
        return [ChosenToken(*pick) for pick in zip(offer.tokens[:n], offer.logs, strict=False)]

    def _node(self, parent: int, pick: ChosenToken, cum: float, rank: int) -> int:
        self.n_offered += 1
        expansion = len(self.expansions) - 1
        known = self._by_key.get((parent, pick.token)) if self.setting.merge and not self.draw else None
        if known is not None:
            node = self.nodes[known]
            node.cum = max(node.cum, cum)
            node.merged.append(expansion)
            node.is_spine = node.is_spine or rank == 0
            return known
        depth = self.depth(parent) + 1
        self.nodes.append(GrownNode(pick.token, parent, depth, cum, expansion, rank + 1, rank == 0, law=pick.law))
        self._by_key[parent, pick.token] = len(self.nodes) - 1
        return len(self.nodes) - 1

    def starts(self) -> list[StartCandidate]:
        """Where the next level starts: the best `start_cap` of what this level offered; asking empties the list.

        One block a node and round. Nothing starts behind an end token or at the deepest level.
        """
        offered, self._candidates = list(self._candidates.values()), {}
        taken = {expansion.parent for expansion in self.expansions} if self.draw else ()
        free = [c for c in offered if self.nodes[c.node].start is None and c.node not in taken]
        best = sorted((c for c in free if self._may_grow(c.node)), key=lambda c: (-self.cum(c.node), c.node))
        best = best[: min(self.setting.start_cap, self._left) if self.draw else self.setting.start_cap]
        cost = self.setting.cost
        if cost is None:
            return best
        starts = hoped(self, [c.node for c in best], self.setting.slots)
        paying = {*cost.paying(chances(self), starts, self._calls, self.setting.budget)}
        self._calls += bool(paying)
        return [c for c in best if c.node in paying]

    def _may_grow(self, node: int) -> bool:
        return self.depth(node) < self.setting.deepest and (node == ROOT or not self.ends(self.nodes[node].token))

    def kept(self) -> list[int]:
        """The best nodes, in ascending order: as many as pay, or as the budget allows."""
        cost, budget = self.setting.cost, self.setting.budget
        return self.pruned(budget if cost is None else cost.best(chances(self), self._calls, budget)[0])
