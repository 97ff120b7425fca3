"""`Draft`: the frozen tree of drafted tokens that a drafter proposes and a verifier judges.

Nodes are numbered 0..n-1 in the order they are fed; `parents` holds earlier numbers or -1 (the root: the last committed
token). A chain is `parents = (-1, 0, 1, ..)`. `ids` are the numbers that stay the same over a whole query and stand in
events; siblings are tested in id order. Three groups, in this order:

* `[0, n_judged)`      fed to the target and judged,
* `[n_judged, n_fed)`  fed only (they shape a later draft),
* `[n_fed, n)`         not fed, judged by their parent's row: a drafted stop token, branch tokens.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from specviz.names import DraftEnd, Mode
from specviz.probability.rows import Certain, Row

ROOT = -1


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What is recorded of a drafted token at its birth, kept or pruned (the `node` event)."""

    id: int
    parent: int  # id, ROOT for the root
    depth: int
    token: int
    logq: float | None  # log of the law it was drawn from; None: point mass
    log_conf: float | None  # raw draft softmax, natural log; None: worked out from `raw` when it is recorded
    mode: Mode
    kept: bool = True
    cand: int | None = None
    branch: int | None = None
    src: dict[str, Any] = field(default_factory=dict)
    raw: Any = None  # the draft model's logits `[V]`, unless nothing is recorded


@dataclass(frozen=True, slots=True)
class Carry:
    """What a stopped chain hands to the next round: `hsd_naive` alone.

    `log_ratio`: log of the joint ratio R of the path written so far; `inf` when its last token was impossible under
    the draft law, and then the rest follows the plain target. `left`: carried rounds still to come, this one included.
    `exact`: R itself where rows are Fractions, which logs would spoil.
    """

    log_ratio: float
    left: int
    exact: Any = None


class Spelling:
    """Groups the nodes of a draft by the text they spell: tests follow that, not parent ids.

    `first(node)` is the node that stands for the group: the first in feed order that has a target row, else the first.
    `candidates(node)` are the children of *every* node of the group, in id order.
    """

    def __init__(self, draft: "Draft") -> None:
        self._draft = draft
        self._group: dict[int, int] = {ROOT: ROOT}
        self._members: dict[int, list[int]] = {ROOT: [ROOT]}
        by_text: dict[tuple[int, int], int] = {}
        for node in range(len(draft)):
            key = (self._group[draft.parents[node]], draft.tokens[node])
            group = by_text.setdefault(key, node)
            self._group[node] = group
            self._members.setdefault(group, []).append(node)

    def first(self, node: int) -> int:
        """The node that stands for everything spelled like `node`."""
        return self._group[node]

    def candidates(self, node: int) -> tuple[int, ...]:
        """Judged children of every node spelled like `node`, in id order."""
        members, children = self._members[self._group[node]], self._draft.children
        if len(members) == 1:
            return children.get(members[0], ())
        matches = [child for member in members for child in children.get(member, ())]
        return tuple(sorted(matches, key=lambda i: self._draft.ids[i]))


@dataclass(frozen=True)
class Draft:
    """A tree of drafted tokens with the laws they were drawn from.

    `law_rows[row_of[i]]` is the law node i was drawn from given its earlier siblings (`[V]`, normalised); `row_of[i]
    = -1` is a point mass. `shared`: drawn with the target's noise, so that only `walk` may judge it.
    `nodes`: every node born in this round, pruned ones and those further ahead than this round judges included.
    `pending`: the leading nodes that earlier rounds drew; they keep their ids and laws and are not born again.
    `planned`: the length the drafter would have reached had no drafted token stopped it (None: its own length).
    `carry`: a carried round; the draft is empty, and `law_rows[0]` is the draft law after the root.
    """

    tokens: tuple[int, ...] = ()
    parents: tuple[int, ...] = ()
    ids: tuple[int, ...] = ()
    n_judged: int = 0
    n_fed: int = 0
    law_rows: Any = None  # [rows, V]
    row_of: tuple[int, ...] = ()
    shared: bool = False
    nodes: tuple[NodeFacts, ...] = ()
    pending: tuple[NodeFacts, ...] = ()
    draft_end: DraftEnd = "full"
    planned: int | None = None
    carry: Carry | None = None

    def __len__(self) -> int:
        return len(self.tokens)

    @cached_property
    def depths(self) -> tuple[int, ...]:
        """Depth of every node; children of the root have depth 1."""
        depths: list[int] = []
        for parent in self.parents:
            depths.append(1 if parent == ROOT else depths[parent] + 1)
        return tuple(depths)

    @cached_property
    def judged(self) -> tuple[int, ...]:
        """The nodes a verifier may keep, in id order."""
        nodes = [*range(self.n_judged), *range(self.n_fed, len(self))]
        return tuple(sorted(nodes, key=lambda i: self.ids[i]))

    @cached_property
    def ahead(self) -> tuple[NodeFacts, ...]:
        """Nodes born in this round that a later one may judge: a pipelined drafter works ahead."""
        here = set(self.ids)
        return tuple(node for node in self.nodes if node.kept and node.id not in here)

    @property
    def n_drafted(self) -> int:
        """Tokens drafted in this round: judged ones that are new, and those ahead."""
        return len(self.judged) - len(self.pending) + len(self.ahead)

    @cached_property
    def children(self) -> dict[int, tuple[int, ...]]:
        """Judged children of the root (-1) and of every node, in id order."""
        out: dict[int, list[int]] = {ROOT: []}
        for i in self.judged:
            out.setdefault(self.parents[i], []).append(i)
        return {k: tuple(v) for k, v in out.items()}

    @cached_property
    def spelling(self) -> Spelling:
        """Groups of nodes whose paths have the same tokens."""
        return Spelling(self)

    def candidates(self, node: int) -> tuple[int, ...]:
        """Judged nodes that follow the text of `node`, in id order; in a chain no two nodes spell the same."""
        return self.children.get(node, ()) if self.is_chain else self.spelling.candidates(node)

    @cached_property
    def is_chain(self) -> bool:
        """One path from the root."""
        return self.parents == tuple(range(-1, len(self) - 1)) and self.n_fed in (self.n_judged, len(self))

    @cached_property
    def is_drawn(self) -> bool:
        """At least one node was sampled from a recorded law."""
        return any(r >= 0 for r in self.row_of)

    def law(self, node: int, vocab: int) -> Row:
        """The law `[V]` node was drawn from; `Certain` for a point mass."""
        row = self.row_of[node]
        return Certain(self.tokens[node], vocab) if row < 0 else self.law_rows[row]

    def path(self, node: int) -> tuple[int, ...]:
        """Tokens from the root (exclusive) to the node."""
        out: list[int] = []
        while node != ROOT:
            out.append(self.tokens[node])
            node = self.parents[node]
        return tuple(reversed(out))

    def has_row(self, node: int) -> bool:
        """Whether the target ran on the node (the root always)."""
        return node < self.n_fed
