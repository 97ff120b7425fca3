"""`Family`: who stands where in the draft of one round. Worked out once per round, asked by layout, steps and
explanations.

Siblings are the children of every node that *spells* the same text (contract.md 3), in id order: parallel chains
that begin alike compete for the same place, whatever their parent ids.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from specviz.events import Node, Settle, Top, Verify, prob
from specviz.view.frame import ROOT
from specviz.view.records import RoundRecord

Spelled = tuple[int, ...]


@dataclass
class Family:
    """The nodes of a round: those born in it, and pending ones from earlier rounds that it judged."""

    record: RoundRecord
    known: dict[object, Any] = field(default_factory=dict, repr=False)  # what others worked out from this round

    @cached_property
    def nodes(self) -> dict[int, Node]:
        """By id, in id order, root not included. Parents that an earlier round committed are the root now."""
        known = self.record.query.nodes
        pending = {i: known[i] for i in self.record.verdicts if i in known}
        return dict(sorted({**pending, **self.record.nodes}.items()))

    @cached_property
    def kept_nodes(self) -> dict[int, Node]:
        """Without those that were pruned before the target saw them."""
        return {i: node for i, node in self.nodes.items() if node.kept}

    def parent(self, node: int) -> int:
        """The parent in this round; the root for a node whose parent is text already."""
        parent = self.nodes[node].parent
        return parent if parent in self.nodes else ROOT

    @cached_property
    def children(self) -> dict[int, tuple[int, ...]]:
        """Children by parent id, root included, in id order."""
        out: dict[int, list[int]] = {ROOT: []}
        for i in self.nodes:
            out.setdefault(self.parent(i), []).append(i)
        return {k: tuple(v) for k, v in out.items()}

    @cached_property
    def spelled(self) -> dict[int, Spelled]:
        """The token ids from the root to each node."""
        out: dict[int, Spelled] = {ROOT: ()}
        for i, node in self.nodes.items():
            out[i] = (*out.get(self.parent(i), ()), node.token)
        return out

    @cached_property
    def depth(self) -> dict[int, int]:
        """Levels below the root of this round, 1 for its children."""
        return {i: len(spelled) for i, spelled in self.spelled.items()}

    @cached_property
    def _places(self) -> dict[Spelled, tuple[int, ...]]:
        out: dict[Spelled, list[int]] = {}
        for i, spelled in self.spelled.items():
            if i != ROOT:
                out.setdefault(spelled[:-1], []).append(i)
        return {k: tuple(v) for k, v in out.items()}

    def siblings(self, node: int) -> tuple[int, ...]:
        """All nodes that compete for this node's place, itself included."""
        return self._places[self.spelled[node][:-1]]

    def top(self, node: int) -> Top | None:
        """The largest entries of the target's row at this node's place; one of the siblings carries them."""
        found = (v.top for i in self.siblings(node) if (v := self.record.verdicts.get(i)))
        return next((top for top in found if top), None)

    def raw_p(self, node: int) -> float | None:
        """The target's probability of the node before temperature 0 made it 0 or 1, when it is among the largest."""
        token = self.nodes[node].token
        return next((prob(log) for t, log in self.top(node) or [] if t == token), None)

    def ancestors(self, node: int) -> Iterator[int]:
        """Parent, grandparent, .. without the root."""
        node = self.parent(node)
        while node != ROOT:
            yield node
            node = self.parent(node)

    def descendants(self, node: int) -> Iterator[int]:
        """Everything below a node."""
        for child in self.children.get(node, ()):
            yield child
            yield from self.descendants(child)

    @cached_property
    def settled(self) -> dict[int, str]:
        """Fates told in this round, of tokens that a pipelined drafter drew ahead of the verdict."""
        return {node: fate for settle in self.record.every(Settle) for node, fate in settle.fates}

    def ahead(self, node: int) -> bool:
        """Whether it was drafted beside the target's pass and a later round judges it."""
        born = self.nodes.get(node)
        return (
            born is not None and born.branch is not None
            and node not in self.settled and node not in self.record.verdicts
        )  # fmt: skip

    @cached_property
    def tests(self) -> tuple[Verify, ...]:
        """The verdicts that were reached, in the rule's true order; of nodes that the trace has."""
        made = [v for v in self.record.verdicts.values() if v.order is not None and v.node in self.nodes]
        return tuple(sorted(made, key=lambda v: v.order or 0))

    @cached_property
    def accepted(self) -> tuple[int, ...]:
        """Drafted nodes that were kept, root to leaf."""
        kept = [v.node for v in self.record.verdicts.values() if v.status == "accepted" and v.node in self.nodes]
        return tuple(sorted(kept, key=lambda i: self.depth[i]))

    @cached_property
    def stop(self) -> int:
        """The last kept node, where the closing token hangs; the root when nothing was kept."""
        closing = self.record.closing
        if closing is not None and (closing.node in self.nodes or closing.node == ROOT):
            return closing.node
        return self.accepted[-1] if self.accepted else ROOT

    @cached_property
    def n_levels(self) -> int:
        return max(self.depth.values(), default=0)

    def path(self, node: int) -> tuple[int, ...]:
        """From a child of the root down to the node."""
        return (*reversed(tuple(self.ancestors(node))), node)

    def kept_sibling(self, node: int) -> int | None:
        """The node that was kept at this node's place, if it is another one."""
        kept = set(self.accepted)
        return next((i for i in self.siblings(node) if i in kept and i != node), None)

    def same_row(self, node: int) -> bool:
        """Whether the closing token was drawn at this node's place."""
        return self.spelled[node][:-1] == self.spelled[self.stop]
