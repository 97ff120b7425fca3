"""One round of calls of a network that reads pairs: a level runs all its starts at once, and a tree grows by it."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from specviz.engine.decode.context import Context
from specviz.events import Block
from specviz.methods.trained.calls import BlockPlace, BlockStart, CallCache
from specviz.methods.trained.ranked_tokens import Order, Tensor
from specviz.probability.draft import ROOT


@dataclass(slots=True)
class BlockCall:
    """A block that ran: begun at `node` of the raw tree; `row`: its first in the cache; `kv_len`: keys it could see.

    `logits` `[K, V_d]` and states `h` `[K, width]`, where somebody wants them; `order`: how the logits were ranked.
    """

    node: int
    block: int
    start: BlockStart
    row: int
    logits: Tensor | None = None
    h: Tensor | None = None
    order: Order | None = None
    kv_len: int = 0
    batch: int = 1
    dur_ns: int = 0

    @property
    def scores(self) -> Tensor:
        """`[K, V_d]`, what tokens were offered by."""
        assert self.logits is not None
        return self.logits if self.order is None else self.order(self.logits)

    def record(self, number: int, node_id: int) -> Block:
        """The call as it stands in a trace; `number`: of the round's blocks, from 0."""
        chain = [(link.block, link.row, link.slot) for link in self.start.chain]
        return Block(
            start=number,
            node=node_id,
            block=self.block,
            chain=chain,
            kv_len=self.kv_len,
            batch=self.batch,
            dur_ns=self.dur_ns,
        )


class BlockRunner:
    """Runs the calls of one round. `made`: the blocks that ran, in order. A tree is a `_starts` and an `_offer`."""

    def __init__(self, ctx: Context, calls: CallCache) -> None:
        self.ctx, self.calls = ctx, calls
        self.made: list[BlockCall] = []

    def grow(self, root: Tensor) -> bool:
        """All levels, from the root pair's states `[K, width]`; False when a number was not finite."""
        began, h = time.perf_counter_ns(), root[None]
        level = [BlockCall(ROOT, 1, BlockStart(self.ctx.tokens[-1], 0, ()), self.calls.first_row)]
        while True:
            self.ctx.counters.n_draft_calls += 1
            if not self._offer(level, h):
                return False
            took = time.perf_counter_ns() - began
            for k, made in enumerate(level):
                made.kv_len, made.batch, made.dur_ns = self.calls.kv_len, len(level), 0 if k else took
            self.made += level
            found = self._starts(level[0].block + 1)
            if not found:
                return True
            began = time.perf_counter_ns()
            h, rows = self.calls.later([start for _, start in found])
            level = [
                BlockCall(node, level[0].block + 1, start, row) for (node, start), row in zip(found, rows, strict=True)
            ]

    def _start(self, token: int, depth: int, offered_by: int, slot: int) -> BlockStart:
        """A block at a node that slot `slot` of the block with number `offered_by` offered."""
        made = self.made[offered_by]
        return BlockStart(token, depth, (*made.start.chain, BlockPlace(made.block, made.row, slot)))

    def _starts(self, block: int) -> list[tuple[int, BlockStart]]:
        """Where the blocks of the next level start, by node; none when the tree is done."""
        raise NotImplementedError

    def _offer(self, level: Sequence[BlockCall], h: Tensor) -> bool:
        """Grow the tree by what one call's states `[B, K, width]` say; False when a number is not finite."""
        raise NotImplementedError


def count_widths(children: Sequence[int]) -> list[int]:
    """How many of the expanded nodes have 0, 1, 2, .. children."""
    return [children.count(n) for n in range(max(children, default=0) + 1)]
