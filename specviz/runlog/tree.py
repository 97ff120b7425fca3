"""`RoundTree`: who stands where in the draft of one round. Worked out once per round, asked by layout, steps and
explanations.

Siblings are the children of every node that *spells* the same text, in id order: parallel chains
that begin alike compete for the same place, whatever their parent ids.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from specviz.events import ZERO, Node, Settle, Top, Verify, prob
from specviz.probability.draft import ROOT
from specviz.probability.philox import uniform
from specviz.runlog.run import RoundRecord

Spelled = tuple[int, ...]

_SPLIT = (1, 2)  # since this version p and what failed siblings left of it are two fields, and the judged node is named
_SAME = 2e-5  # two logs of one number, each written with six figures


@dataclass
class RoundTree:
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
        tops = (v.top for i in self.siblings(node) if (v := self.record.verdicts.get(i)))
        return next((top for top in tops if top), None)

    def raw_p(self, node: int) -> float | None:
        """The target's probability of the node before temperature 0 made it 0 or 1, when it is among the largest."""
        token = self.nodes[node].token
        return next((prob(log) for t, log in self.top(node) or [] if t == token), None)

    # What the target gives a node --------------------------------------------------------------------------------

    def p(self, node: int) -> float | None:
        """The target's probability p of a node's token; None when it is not recorded."""
        return prob(self.log_p(node))

    def log_p(self, node: int) -> float | None:
        """Its natural log. Traces before 1.2 wrote the residual's mass there after a failed sibling."""
        verdict = self.record.verdicts.get(node)
        if verdict is None or not self._overwritten(verdict):
            return verdict.logp if verdict is not None else None
        return self._other_log_p(node)

    def left(self, node: int) -> float | None:
        """What a node had of the row that failed siblings left, normalised; None when none had failed before it."""
        verdict = self.record.verdicts.get(node)
        if verdict is None or self.record.temperature == 0:
            return None
        if verdict.kind == "draw":
            return verdict.thr if verdict.order is not None and self.failed_before(node) else None
        if not self._overwritten(verdict):
            return prob(verdict.log_left)
        if not self.record.query.backward:
            return prob(verdict.logp)
        plain = self._other_log_p(node)  # a joint rule meets the residual at the head of a candidate only
        if plain is None or verdict.logp is None:
            return None
        return None if abs(plain - verdict.logp) <= _SAME * max(1.0, abs(plain)) else prob(verdict.logp)

    def planned(self, length: int) -> int:
        """How long a chain of `length` tokens was to become: a drafted stop token cuts it short of gamma."""
        end, gamma = self.record.end, self.record.knobs.get("gamma")
        if end is None or end.draft_end != "stop_token" or not isinstance(gamma, int):
            return length
        return max(length, gamma)

    def failed_before(self, node: int) -> int:
        """Siblings that were tested before a tested node, and failed."""
        own = self.record.verdicts[node].order
        if own is None:
            return 0
        others = (v for i in self.siblings(node) if i != node and (v := self.record.verdicts.get(i)))
        return sum(v.status == "rejected" and v.order is not None and v.order < own for v in others)

    def _overwritten(self, verdict: Verify) -> bool:
        """Whether `logp` may not be p: of an old trace, tested when a sibling had failed."""
        if self.record.query.v >= _SPLIT or verdict.kind != "test" or verdict.thr is None:
            return False
        tested = (v for i in self.siblings(verdict.node) if i != verdict.node and (v := self.record.verdicts.get(i)))
        return any(v.status == "rejected" and v.order is not None for v in tested)

    def _other_log_p(self, node: int) -> float | None:
        """p from elsewhere in the record: the largest entries of its row, or the joint ratios of its chain."""
        born, chains = self.nodes[node], self.record.chains
        listed = next((log for token, log in self.top(node) or [] if token == born.token), None)
        if listed is not None and self.record.temperature != 0:  # at temperature 0 they are of the row before it
            return listed
        at, above = chains.get(node), chains.get(self.parent(node))
        if at is None or born.logq is None or (above is None and self.parent(node) != ROOT):
            return None
        before = above.log_r if above is not None else 0.0
        if before <= ZERO:
            return None
        return ZERO if at.log_r <= ZERO else min(0.0, at.log_r - before + born.logq)

    # Nodes that spell one text -----------------------------------------------------------------------------------

    def twins(self, node: int) -> tuple[int, ...]:
        """Other nodes that spell what this one spells."""
        return tuple(i for i in self.siblings(node) if i != node and self.spelled[i] == self.spelled[node])

    def judged(self, node: int) -> int | None:
        """The twin whose test decided for this node; None when it was its own. Of an old trace its key tells."""
        verdict = self.record.verdicts.get(node)
        if verdict is None or verdict.kind != "test" or verdict.u is None:
            return None
        if self.record.query.v >= _SPLIT:
            return verdict.judged if verdict.judged in self.nodes else None
        prefill, u = self.record.query.prefill, verdict.u
        if prefill is None or verdict.status != "accepted":
            return None
        seed, r, pos = prefill.seed, self.record.r, self.nodes[node].pos
        named = (i for i in (node, *self.twins(node)) if uniform(seed, "accept", r, pos, self.ordinals.get(i, 0)) == u)
        return next((i for i in named if i != node), None)

    def stands_for(self, node: int) -> int | None:
        """The kept twin that carries the test of this node."""
        return next((i for i in self.twins(node) if self.judged(i) == node), None)

    @cached_property
    def ordinals(self) -> dict[int, int]:
        """Number of every judged node among those of its depth, in id order: the index of its accept draw."""
        count: dict[int, int] = {}
        out: dict[int, int] = {}
        for i in self.kept_nodes:
            if i in self.record.verdicts:
                out[i] = count.get(self.depth[i], 0)
                count[self.depth[i]] = out[i] + 1
        return out

    def ancestors(self, node: int) -> Iterator[int]:
        """Parent, grandparent, .. without the root."""
        node = self.parent(node)
        while node != ROOT:
            yield node
            node = self.parent(node)

    def descendants(self, node: int) -> Iterator[int]:
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
            born is not None
            and born.branch is not None
            and node not in self.settled
            and node not in self.record.verdicts
        )

    @cached_property
    def tests(self) -> tuple[Verify, ...]:
        """The verdicts that were reached, in the rule's true order; of nodes that the trace has."""
        tested = [v for v in self.record.verdicts.values() if v.order is not None and v.node in self.nodes]
        return tuple(sorted(tested, key=lambda v: v.order or 0))

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
        """Node ids from a child of the root down to the node, both included."""
        return (*reversed(tuple(self.ancestors(node))), node)

    def kept_sibling(self, node: int) -> int | None:
        """The node that was kept at this node's place, if it is another one."""
        kept = set(self.accepted)
        return next((i for i in self.siblings(node) if i in kept and i != node), None)

    def same_row(self, node: int) -> bool:
        """Whether the closing token was drawn at this node's place."""
        return self.spelled[node][:-1] == self.spelled[self.stop]
