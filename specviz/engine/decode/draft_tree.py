"""`DraftTree`: how a drafter builds its `Draft`."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from specviz.engine.decode.context import Context
from specviz.engine.model.rows import Tensor
from specviz.names import DraftEnd, Mode
from specviz.probability.draft import ROOT, Carry, Draft, NodeFacts
from specviz.probability.host import fetch, off_host
from specviz.probability.rows import Certain, Row, Rows, namespace


@dataclass(frozen=True, slots=True)
class _Place:
    """A node in the tree of this round: its parent there, its depth from this round's root, the law it came from."""

    node: NodeFacts
    parent: int
    depth: int
    law: Row | None


class DraftTree:
    """Builds a `Draft`: hands out ids, keeps laws, puts unfed nodes behind the fed ones.

    Not fed are stop tokens and the nodes in `unfed` (branch tokens): their parent's row judges them. What hangs below
    such a node is ahead of this round: born now, judged in a later one if its branch survives.
    """

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self.unfed: set[int] = set()
        self._n_pending = 0
        self._places: list[_Place] = []

    def __len__(self) -> int:
        return len(self._places)

    def node(self, node: int) -> NodeFacts:
        """What is recorded of a node."""
        return self._places[node].node

    def depth(self, node: int) -> int:
        """Depth of a node, 0 for the root."""
        return 0 if node == ROOT else self._places[node].depth

    def parent(self, node: int) -> int:
        """The node before, ROOT for children of the root."""
        return self._places[node].parent

    def token(self, node: int) -> int:
        return self._places[node].node.token

    def law(self, node: int) -> Row | None:
        """The row a node was drawn from; None for a point mass."""
        return self._places[node].law

    def path(self, node: int) -> list[int]:
        """Tokens from the root (exclusive) to the node."""
        out: list[int] = []
        while node != ROOT:
            out.append(self.token(node))
            node = self.parent(node)
        return out[::-1]

    def ends(self, node: int) -> bool:
        """Whether the node is an end-of-text token, after which nothing is drafted."""
        return node != ROOT and self.token(node) in self._ctx.eos

    def add(
        self,
        token: int,
        parent: int,
        law: Row | None = None,
        log_conf: float | None = None,
        mode: Mode = "argmax",
        raw: Tensor | None = None,
        **facts: Any,
    ) -> int:
        """A drafted token after node `parent`. `law`: the row it was drawn from; None or certain: a point mass.

        `raw`: the draft model's logits `[V]`, from which the probe works out `log_conf` when the drafter did not.
        """
        counters = self._ctx.counters
        drawn = None if law is None or isinstance(law, Certain) else law
        recorded = self._ctx.level != "none"  # a look at a law or at logits stops a device, so only for records
        node = NodeFacts(
            id=counters.next_id,
            parent=ROOT if parent == ROOT else self.node(parent).id,
            depth=self.depth(parent) + 1,
            token=token,
            logq=_log(float(drawn[token])) if drawn is not None and recorded and not off_host(drawn) else None,
            log_conf=log_conf,
            mode=mode,
            raw=raw if recorded else None,
            **facts,
        )
        counters.next_id += 1
        self._places.append(_Place(node, parent, node.depth, drawn))
        return len(self) - 1

    def put(self, node: NodeFacts, law: Row | None, parent: int) -> int:
        """A pending node of an earlier round, with its id and the law it was drawn from; before any new node."""
        assert self._n_pending == len(self), "pending nodes come first"
        self._n_pending += 1
        self._places.append(_Place(node, parent, self.depth(parent) + 1, law))
        return len(self) - 1

    def draft(
        self,
        draft_end: DraftEnd = "full",
        keep: Iterable[int] | None = None,
        shared: bool = False,
        planned: int | None = None,
        number: bool = False,
    ) -> Draft:
        """The frozen draft of the nodes in `keep` (all by default; a kept node's parent must be kept).

        `number`: also say which candidate each node belongs to. Siblings drawn from the same row share it.
        """
        places = self._places
        ahead: set[int] = set()  # below a node that is not fed
        for node, place in enumerate(places):
            if place.parent in ahead or place.parent in self.unfed:
                ahead.add(node)
        kept = set(range(len(self)) if keep is None else keep)
        unfed = {node for node in kept if self.ends(node)} | self.unfed
        order = sorted(sorted(kept - ahead), key=lambda node: node in unfed)  # stable
        number_of = {ROOT: ROOT} | {node: k for k, node in enumerate(order)}
        n_fed = sum(node not in unfed for node in order)
        laws = [places[node].law for node in order]
        distinct = {id(law): law for law in laws if law is not None}
        row, rows = {key: k for k, key in enumerate(distinct)}, list(distinct.values())
        cands = candidates([place.parent for place in places]) if number else [None] * len(self)
        logs = self._logs() if self._ctx.level != "none" else {}
        nodes = [
            _marked(place.node, k in number_of or k in ahead, cands[k], logs.get(k)) for k, place in enumerate(places)
        ]
        return Draft(
            tokens=tuple(self.token(node) for node in order),
            parents=tuple(number_of[self.parent(node)] for node in order),
            ids=tuple(places[node].node.id for node in order),
            n_judged=n_fed,
            n_fed=n_fed,
            law_rows=namespace(rows[0]).stack(rows) if rows else None,
            row_of=tuple(-1 if law is None else row[id(law)] for law in laws),
            shared=shared,
            nodes=tuple(nodes[self._n_pending :]),
            pending=tuple(nodes[: self._n_pending]),
            draft_end=draft_end,
            planned=planned,
        )

    def _logs(self) -> dict[int, float]:
        """The logs that nodes drawn on a device lack, read together."""
        mine = {
            k: place.law for k, place in enumerate(self._places) if place.law is not None and place.node.logq is None
        }
        if not mine:
            return {}
        picked = [law[self.token(k)] for k, law in mine.items()]
        return dict(zip(mine, map(_log, fetch(namespace(picked[0]).stack(picked))[0]), strict=True))

    def carried(self, law_rows: Rows, carry: Carry) -> Draft:
        """The empty draft of a carried round: the draft law after the root `[1, V]`, and what is carried."""
        return Draft(law_rows=law_rows, carry=carry)


def candidates(parents: Sequence[int]) -> list[int | None]:
    """Which root-to-leaf path each node belongs to, in the order of the paths' first own nodes.

    A path is continued by the eldest child of its last node; every other child begins the next path.
    """
    out: list[int | None] = []
    continued: set[int] = set()
    count = 0
    for parent in parents:
        if parent != ROOT and parent not in continued:
            out.append(out[parent])
        else:
            out.append(count)
            count += 1
        continued.add(parent)
    return out


def _marked(node: NodeFacts, kept: bool, cand: int | None, logq: float | None) -> NodeFacts:
    if kept and cand is None and logq is None:
        return node
    return replace(node, kept=kept, cand=cand, logq=node.logq if logq is None else logq)


def _log(prob: float) -> float:
    return math.log(max(prob, 1e-300))
