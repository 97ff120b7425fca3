"""The draft model of a branch drafter: its cache across rounds, and branches as tree rows over one prefix.

The cache follows text + pending tokens; what it lacks of them (the newest one, or two) goes in with the next forward.
Branches are siblings behind the last pending token, so k of them share the prefix's keys and values without a copy, and
`follow` keeps the surviving path when the branch is chosen.
"""

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from specviz.engine.decode.context import Context
from specviz.engine.decode.draft_tree import DraftTree
from specviz.engine.model.adapter import Model
from specviz.engine.model.rows import BLOCK, ForwardBatch, Tensor, fill
from specviz.methods.common.runner import DraftModelRunner

KEPT = 33  # measured times whose median counts


@dataclass(frozen=True, slots=True)
class PendingForward:
    """One forward of the draft model, `width` branches at once, until its result was read."""

    t0_ns: int
    dur_ns: int
    width: int


class DraftModelCache(DraftModelRunner):
    """`line` = text + pending tokens as far as they were fed or are to be. Nodes are named by the drafter's numbers."""

    def __init__(self, model: Model, capacity: int) -> None:
        super().__init__(model, capacity)
        self.spelled = 0  # slots that spell the text and what is open behind it
        self.peak = 0  # rows in flight behind the committed text, this round
        self._begun = (0, 1)  # the forward under way: its start, its width
        self._committed = 0
        self._lacking: list[int] = []
        self._tip = -1  # row of the line's last fed token; -1: it ends in the cached prefix
        self._times: dict[int, deque[int]] = {}

    def open(self, ctx: Context, pending: Sequence[int]) -> None:
        """Follow the text and its pending tokens; everything else in the cache is dropped."""
        line = [*ctx.tokens, *pending]
        self._committed, self.peak = ctx.n - 1, 0
        self.rows, self._tip, self.row_of = None, -1, {}
        self._lacking = fill(self.model, self.cache, line, leave=BLOCK)

    def close(self, line: Sequence[int]) -> None:
        """The round is over and text and open tokens spell `line`; what does not is dropped by the next `open`."""
        self.spelled = self.cache.holds(line)

    def push(self, token: int) -> None:
        """The line grows by a token, fed with the next forward."""
        self._lacking.append(token)

    def tip(self, ctx: Context) -> Tensor:
        """The draft logits `[V]` after the line, one forward."""
        if not self._lacking and self._tip < 0:  # its row was dropped with an aborted round: feed the last token again
            line = self.cache.tokens[: self.cache.length]
            self._lacking = self.cache.follow(line[:-1]) + line[-1:]
        logits: Tensor = self.expand(ctx, None, [])[0]
        return logits

    def expand(self, ctx: Context, tree: DraftTree | None, nodes: Sequence[int]) -> Tensor:
        """The draft logits `[nodes, V]` after one more token of every branch, or `[1, V]` after the line alone; one
        forward for all. A node whose parent is none of a branch is the first of its own."""
        self._begun = (time.perf_counter_ns(), max(1, len(nodes)))
        rows = self.rows = self.rows or ForwardBatch(self.model, self.cache)
        for token in self._lacking:
            self._tip = rows.add(token, self._tip)
        self._lacking = []
        for node in nodes:
            assert tree is not None
            self.row_of[node] = rows.add(tree.token(node), self.row_of.get(tree.parent(node), self._tip))
        logits = rows.take(max(1, len(nodes)))
        ctx.counters.n_draft_calls += 1
        self.peak = max(self.peak, len(self.cache.tokens) - self._committed)
        return logits

    def finished(self) -> PendingForward:
        """The last forward, once something of it was read: a device returns before it has done its work."""
        began, width = self._begun
        took = time.perf_counter_ns() - began
        self._times.setdefault(width, deque(maxlen=KEPT)).append(took)
        return PendingForward(began, took, width)

    def free(self, pending: int) -> int:
        """Slots left for rows of branches behind so many pending tokens."""
        return max(0, self.cache.capacity - self._committed - pending - 2)

    def typical_ns(self, width: int) -> float | None:
        """Median time of a forward over so many branches; of the nearest width measured, None before the first."""
        if not self._times:
            return None
        return float(median(self._times[min(self._times, key=lambda w: abs(w - width))]))

    @property
    def slot_bytes(self) -> int:
        return self.cache.slot_bytes
