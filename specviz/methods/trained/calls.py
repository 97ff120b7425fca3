"""The block network while decoding: one call a round for the new pairs, one more for each further level of starts.

Pair i is (features at i, token i + 1); the last pair is the root's. A pair's K rows depend on committed text alone and
stay. Block 1 is what the root pair's rows say. A further level runs all its starts together: their rows see the
committed prefix, of every block on their own chain the rows up to the slot they left it at, and themselves
(specblock.md 3.7, 3.8, 5.5). Instead of gathering keys per start the batch is one forest of rows over one cache: the
mask says who sees whom, and no key is copied.

Following the text: pairs that the target has shown wait here until a draft needs them, then become rows for good.

What decoding and training need of a network that reads pairs: features of a target row beside the token after it.

Block drafters make several rows a pair, EAGLE-3's one; the life of the cache, starts and masks are the same for both.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch

from specviz.engine.decode.context import Observation
from specviz.methods.trained.layers import Keys, RowCache

Tensor = torch.Tensor


class PairNetwork(Protocol):
    """Rows come as `[B, n, slots, ..]`. `condition` makes one of features, later rows take a state instead."""

    @property
    def slots(self) -> int:
        """Rows a pair."""

    @property
    def depth(self) -> int:
        """Layers that keep keys."""

    @property
    def dtype(self) -> torch.dtype:
        """Of the weights."""

    def conditions(self, features: Tensor) -> Tensor:
        """`[.., width]` of `[.., n_features]`."""

    def begin(self, condition: Tensor, embedded: Tensor) -> Tensor:
        """The rows below the first layer."""

    def __call__(self, rows: Tensor, positions: Tensor, keys: Keys, mask: Tensor | None) -> Any:
        """States `[B, n, slots, width]`."""

    def places(self, inputs: Tensor, depths: Tensor | int = 0) -> Tensor:
        """Rotary positions `[.., n * slots]`."""


MOST_PAIRS = 128  # run at once: a mask of a long prompt would grow with its square


@dataclass(frozen=True, slots=True)
class BlockPlace:
    """A place in a block of this round: `row` is the block's first row in the cache, `slot` where a start left it."""

    block: int  # 1 = the root's
    row: int
    slot: int


@dataclass(frozen=True, slots=True)
class BlockStart:
    """Where a block begins: a node at `depth` with its token, and the chain of places that led there, root's first."""

    token: int
    depth: int
    chain: tuple[BlockPlace, ...]


class CallCache:
    """One query's rows. `embed` maps token ids `[n]` to embeddings `[n, embed_width]`."""

    def __init__(self, network: PairNetwork, embed: Callable[[Tensor], Tensor]) -> None:
        self.network, self.embed = network, embed
        self.cache = RowCache(network.depth)
        self.states: Tensor | None = None  # h of the rows from `first_row` on
        self.first_row = 0  # of the root's block
        self.kv_len = 0  # keys the last call's rows could see

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
            conditions = self.network.conditions(features[some].to(self.network.dtype))
            rows = self.network.begin(conditions[None], self.embed(ids[some])[None])
            first = self.pairs
            places = self.network.places(torch.arange(first + 1, first + 1 + rows.shape[1], device=ids.device)[None])
            out = self.network(rows, places, self.cache.keys, None)
            self.cache.commit()
        assert out is not None, "a round without new pairs"
        self.first_row, self.kv_len = self.cache.committed - slots, self.cache.filled
        self.states = out[0, -1]
        return self.states

    def again(self) -> Tensor:
        """h of the last pair once more: a round that was interrupted behind `first` begins anew."""
        assert self.states is not None, "no root block yet"
        self.cache.drop()
        self.states = self.states[: self.network.slots]
        return self.states

    def later(self, starts: Sequence[BlockStart]) -> tuple[Tensor, list[int]]:
        """Run one level of starts: h `[B, K, width]`, and the first cache row of each one's block."""
        assert self.states is not None, "no root block yet"
        slots, device = self.network.slots, self.states.device
        conditions = self.states[[link.row - self.first_row + link.slot for link in (s.chain[-1] for s in starts)]]
        tokens = torch.tensor([start.token for start in starts], device=device)
        rows = self.network.begin(conditions[None], self.embed(tokens)[None])
        depths = torch.tensor([[start.depth for start in starts]], device=device)
        before = self.cache.filled
        mask = self._mask(starts, before).to(device)
        h = self.network(rows, self.network.places(self.pairs + depths, depths), self.cache.keys, mask)[0]
        self.states = torch.cat([self.states, h.flatten(0, 1)])
        self.kv_len = self.first_row + (len(starts[0].chain) + 1) * slots
        return h, [before + k * slots for k in range(len(starts))]

    def _mask(self, starts: Sequence[BlockStart], before: int) -> Tensor:
        """`[1, 1, B * K, filled + B * K]`, True = visible."""
        slots = self.network.slots
        seen = np.zeros((len(starts), slots, before + len(starts) * slots), dtype=np.bool_)  # tensors slice slowly
        seen[:, :, : self.first_row] = True
        causal = np.tri(slots, dtype=np.bool_)
        for k, start in enumerate(starts):
            for link in start.chain:
                seen[k, :, link.row : link.row + link.slot + 1] = True
            own = before + k * slots
            seen[k, :, own : own + slots] = causal
        return torch.from_numpy(seen).flatten(0, 1)[None, None]


class PairBuffer:
    """The calls of one query and the pairs that are not in them yet. An interrupted round loses and doubles none."""

    def __init__(self, network: PairNetwork, embed: Callable[[Tensor], Tensor], taps: tuple[int, ...]) -> None:
        self.calls, self.taps = CallCache(network, embed), taps
        self._pending: list[tuple[Tensor, int]] = []  # features [n_features] of a row, the token that followed it
        self._first = 0  # pair number of the first pending one

    def observe(self, seen: Observation) -> None:
        """Keep a round's, or the prompt's, new pairs."""
        if seen.features:
            rows = torch.cat([seen.features[tap] for tap in self.taps], -1)
            self._pending += zip(rows, seen.tokens[: len(rows)], strict=True)

    @property
    def seen(self) -> int:
        """Pairs the target has shown."""
        return self._first + len(self._pending)

    def ready(self, n: int) -> bool:
        """Whether a text of n tokens can be drafted for: its root pair is known, which a first token's is not."""
        return n >= 2 and self.seen == n - 1

    def root(self) -> Tensor:
        """h `[slots, width]` of the root pair, after all new pairs became rows."""
        done = self.calls.pairs - self._first  # an interrupted round may have taken some, or all
        self._pending, self._first = self._pending[done:], self._first + done
        if not self._pending:
            return self.calls.again()
        features, tokens = zip(*self._pending, strict=True)
        h = self.calls.first(torch.stack(features), tokens)
        self._first += len(self._pending)
        self._pending = []
        return h
