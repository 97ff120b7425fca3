"""Calls of a network that reads pairs: its cache, one round of calls, and what they cost.

A pair is the features of a target row beside the token after it; the last pair is the root's. Block drafters make
several rows a pair, EAGLE-3's one; the life of the cache, starts and masks are the same for both. Pairs that the target
has shown wait until a draft needs them, then become rows for good, as they depend on committed text alone. A further
level runs all its starts together: their rows see the committed prefix, of every block on their own chain the rows up
to the slot they left it at, and themselves. The batch is one forest of rows over one cache: no key is copied.

Decoding one text is bound by reading weights, so in `CallCosts` a plain round costs 1, and a drafted one 1 and the
drafter's calls, each by its share of the target's weights. Small models on a processor keep other times; the model says
what is to be expected where weights are large (`modelled_speedup`).
"""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
import torch
from torch import nn

from specviz.cost.row_cost import call_cost, row_cost
from specviz.engine.decode.context import Context, Observation
from specviz.engine.model.adapter import ModelAdapter
from specviz.engine.model.rows import States
from specviz.events import Block, TreeMade, six
from specviz.methods.common.tree_size import TreeCost
from specviz.methods.trained.layers import Keys, RowCache
from specviz.methods.trained.programs import NetworkPrograms, programs_of
from specviz.methods.trained.ranks import Order
from specviz.probability.draft import ROOT

Tensor = torch.Tensor


class PairNetwork(Protocol):
    """Rows come as `[B, n, slots, ..]`. `condition` makes one of features, later rows take a state instead."""

    @property
    def slots(self) -> int:
        """Rows a pair."""

    @property
    def depth(self) -> int:
        """Number of layers that keep keys and values."""

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of its weights, to which features are cast."""

    def conditions(self, features: Tensor) -> Tensor:
        """`[.., width]` of `[.., n_features]`."""

    def begin(self, condition: Tensor, embedded: Tensor) -> Tensor:
        """The rows below the first layer."""

    def __call__(self, rows: Tensor, positions: Tensor, keys: Keys, mask: Tensor | None) -> Any:
        """States `[B, n, slots, width]`."""

    def places(self, inputs: Tensor, depths: Tensor | int = 0) -> Tensor:
        """Rotary positions `[.., n * slots]`."""


MOST_PAIRS = 128  # rows of a prompt per pass: the mask grows with the square of it


@dataclass(frozen=True, slots=True)
class BlockSlot:
    """A place in a block of this round: `row` is the block's first row in the cache, `slot` where a start left it."""

    block: int  # 1 = the root's
    row: int
    slot: int


@dataclass(frozen=True, slots=True)
class BlockStart:
    """Where a block begins: a node at `depth` with its token, and the chain of places that led there, root's first."""

    token: int
    depth: int
    chain: tuple[BlockSlot, ...]


class CallCache:
    """One query's rows. `embed` maps token ids `[n]` to embeddings `[n, embed_width]`."""

    def __init__(self, network: PairNetwork, embed: Callable[[Tensor], Tensor]) -> None:
        self.network, self.embed = network, embed
        self.cache = RowCache(network.depth)
        self.states: Tensor | None = None  # h of the rows from `first_row` on
        self.first_row = 0  # of the root's block
        self.kv_len = 0  # keys the last call's rows could see
        self._by: NetworkPrograms | None = None  # what the last call ran by

    @property
    def pairs(self) -> int:
        """Pairs in the cache."""
        return self.cache.committed // self.network.slots

    def first(self, features: Tensor, tokens: Sequence[int]) -> Tensor:
        """Append pairs, `features` `[m, n_features]` beside the tokens that followed; h `[K, width]` of the last."""
        self.cache.drop()
        slots = self.network.slots
        ids = torch.as_tensor(tokens, device=features.device)
        out: Tensor | None = None
        for begin in range(0, len(tokens), MOST_PAIRS):
            some = slice(begin, begin + MOST_PAIRS)
            read, embedded, first = features[some].to(self.network.dtype), self.embed(ids[some]), self.pairs
            places = self.network.places(torch.arange(first + 1, first + 1 + len(read), device=ids.device)[None])
            if (programs := self._found(read, embedded)) is not None:
                out = programs.calls.pairs(read, embedded, places, self.cache)
            else:
                rows = self.network.begin(self.network.conditions(read)[None], embedded[None])
                out = self.network(rows, places, self.cache, None)[0, -1]
            self.cache.commit()
        assert out is not None, "a round without new pairs"
        self.first_row, self.kv_len = self.cache.committed - slots, self.cache.filled
        self.states = out
        return out

    def _found(self, *rows: Tensor) -> NetworkPrograms | None:
        """The network's programs, for rows of its numbers."""
        is_known = isinstance(self.network, nn.Module) and all(row.dtype == self.network.dtype for row in rows)
        self._by = programs_of(self.network) if is_known else None  # type: ignore[arg-type]
        return self._by

    def norm_and_head(
        self, states: Tensor, otherwise: Callable[[Tensor], tuple[Tensor, Tensor]]
    ) -> tuple[Tensor, Tensor]:
        """Normed states `[.., width]` and draft logits `[.., V_d]` of the last call's h, or some of it; by the module's
        own way where the call went `otherwise` than by a program."""
        return otherwise(states) if self._by is None else self._by.speech(states)

    def again(self) -> Tensor:
        """h of the last pair once more: a round that was interrupted behind `first` begins anew."""
        assert self.states is not None, "no root block yet"
        self.cache.drop()
        if self._by is not None:
            self._by = programs_of(self.network)  # type: ignore[arg-type]
        self.states = self.states[: self.network.slots]
        return self.states

    def later(self, starts: Sequence[BlockStart]) -> tuple[Tensor, list[int]]:
        """Run one level of starts: h `[B, K, width]`, and the first cache row of each one's block."""
        assert self.states is not None, "no root block yet"
        slots, device = self.network.slots, self.states.device
        conditions = self.states[[link.row - self.first_row + link.slot for link in (s.chain[-1] for s in starts)]]
        tokens = torch.tensor([start.token for start in starts], device=device)
        embedded = self.embed(tokens)
        depths = torch.tensor([[start.depth for start in starts]], device=device)
        before, places = self.cache.filled, self.network.places(self.pairs + depths, depths)
        mask = self._mask(starts, before)
        if (programs := self._found(conditions, embedded)) is not None:
            h = programs.calls.starts(conditions, embedded, places, mask, self.cache)
        else:
            rows = self.network.begin(conditions[None], embedded[None])
            h = self.network(rows, places, self.cache, torch.from_numpy(mask)[None, None].to(device))[0]
        self.states = torch.cat([self.states, h.flatten(0, 1)])
        self.kv_len = self.first_row + (len(starts[0].chain) + 1) * slots
        return h, [before + k * slots for k in range(len(starts))]

    def _mask(self, starts: Sequence[BlockStart], before: int) -> Any:
        """Numpy `[B * K, filled + B * K]`, True = visible."""
        slots = self.network.slots
        visible = np.zeros((len(starts), slots, before + len(starts) * slots), dtype=np.bool_)  # tensors slice slowly
        visible[:, :, : self.first_row] = True
        causal = np.tri(slots, dtype=np.bool_)
        for k, start in enumerate(starts):
            for link in start.chain:
                visible[k, :, link.row : link.row + link.slot + 1] = True
            own = before + k * slots
            visible[k, :, own : own + slots] = causal
        return visible.reshape(-1, visible.shape[-1])


class PairBuffer:
    """The calls of one query and the pairs that are not in them yet. An interrupted round loses and doubles none.

    `most`: pairs that the first call reads, the last ones. Rows know where they stand to each other and nothing else,
    so those behind need no others before them.
    """

    def __init__(
        self,
        network: PairNetwork,
        embed: Callable[[Tensor], Tensor],
        taps: tuple[int, ...],
        most: int | None = None,
    ) -> None:
        self.calls, self.taps, self.most = CallCache(network, embed), taps, most
        self._passed = 0  # pairs that are not read
        self._pending: list[States] = []  # of rows, in parts
        self._tokens: list[int] = []  # that followed them
        self._first = 0  # pair number of the first pending one

    def observe(self, seen: Observation) -> None:
        """Keep a round's, or the prompt's, new pairs; nothing is computed for them before they are read."""
        if seen.features:
            self._pending.append(seen.features)
            self._tokens += seen.tokens[: seen.features.n_rows]
            if self.most is not None and len(self._tokens) > 2 * self.most:  # of a long prompt not all is held
                self._pass_by(self.most)

    def _pass_by(self, most: int) -> None:
        """Before the first call: of the pairs that wait the last ones are enough."""
        if not self.calls.pairs:
            self._passed += max(0, len(self._tokens) - most)
            self._tokens = self._tokens[-most:]
            self._pending = [States.joined(self._pending).last(len(self._tokens))]

    @property
    def n_observed(self) -> int:
        """Pairs the target has shown."""
        return self._passed + self._first + len(self._tokens)

    def ready(self, n: int) -> bool:
        """Whether a text of n tokens can be drafted for: its root pair is known, which a first token's is not."""
        return n >= 2 and self.n_observed == n - 1

    def root(self) -> Tensor:
        """h `[slots, width]` of the root pair, after all new pairs became rows."""
        done = self.calls.pairs - self._first  # an interrupted round may have taken some, or all
        self._tokens, self._first = self._tokens[done:], self._first + done
        if self.most is not None:
            self._pass_by(self.most)
        if not self._tokens:
            self._pending = []
            return self.calls.again()
        states, tokens = States.joined(self._pending).last(len(self._tokens)), self._tokens
        h = self.calls.first(torch.cat([states[tap] for tap in self.taps], -1), tokens)
        self._first, self._tokens, self._pending = self._first + len(tokens), [], []
        return h


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
        """The call as a trace event. `number`: its index among the round's blocks, from 0."""
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
            for k, call in enumerate(level):
                call.kv_len, call.batch, call.dur_ns = self.calls.kv_len, len(level), 0 if k else took
            self.made += level
            starts = self._starts(level[0].block + 1)
            if not starts:
                return True
            began = time.perf_counter_ns()
            h, rows = self.calls.later([start for _, start in starts])
            level = [
                BlockCall(node, level[0].block + 1, start, row) for (node, start), row in zip(starts, rows, strict=True)
            ]

    def _start(self, token: int, depth: int, offered_by: int, slot: int) -> BlockStart:
        """A block at a node that slot `slot` of the block with number `offered_by` offered."""
        call = self.made[offered_by]
        return BlockStart(token, depth, (*call.start.chain, BlockSlot(call.block, call.row, slot)))

    def _starts(self, block: int) -> list[tuple[int, BlockStart]]:
        """Where the blocks of the next level start, by node; none when the tree is done."""
        raise NotImplementedError

    def _offer(self, level: Sequence[BlockCall], h: Tensor) -> bool:
        """Grow the tree by the offers of one call's states `[B, K, width]`; False when a number is not finite."""
        raise NotImplementedError


def count_widths(children: Sequence[int]) -> list[int]:
    """How many of the expanded nodes have 0, 1, 2, .. children."""
    return [children.count(n) for n in range(max(children, default=0) + 1)]


class CallCosts:
    """Completes a drafter's `tree` records. `share`: weights that one call reads, in target passes; `tree_cost`: what
    trees are sized by, of calls that run `slots` rows a node."""

    def __init__(self, network: Iterable[Tensor], target: ModelAdapter, slots: int = 1) -> None:
        theirs = [weight for layer in target.layers for weight in layer.parameters()]
        self.share = _size(network) / _size([*theirs, target.head.weight])
        device = target.device.type
        self.tree_cost = TreeCost(partial(row_cost, device), call_cost(device, self.share, slots))
        self._tree: TreeMade | None = None
        self._cost = 1.0

    def of(self, tree: TreeMade, n_calls: int) -> TreeMade:
        """The record of a round with that many calls, to be completed when the round is over."""
        self._tree, self._cost = tree, 1 + n_calls * self.share
        return tree

    def judge(self, seen: Observation) -> None:
        """The round is over: plain decoding would have taken a pass for each of its tokens."""
        if self._tree is not None and seen.outcome is not None:
            self._tree.modelled_speedup = six(len(seen.tokens) / self._cost)
        self._tree = None


def _size(tensors: Iterable[Tensor]) -> int:
    return sum(int(tensor.numel()) for tensor in tensors)
