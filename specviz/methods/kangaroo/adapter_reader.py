"""The adapter's side of a query: its cache, and the states it has yet to read.

A row of the adapter depends on the tokens up to it and on weights that never change: its state is the target's, and
the states before it are too. So its cache is a memo like any other, and `follow` keeps what the text spells, drafted
rows that were accepted included. When every draft was kept, the last of them went through the target but not through
the adapter: the next round feeds two rows (the trap of specbound.md 14.2), which is what `follow` says is missing.
"""

from collections.abc import Sequence

import torch

from specviz.engine.model.adapter import Model
from specviz.engine.model.cache import KVCache
from specviz.engine.model.rows import BLOCK, Rows, Tensor


class StateRows(Rows):
    """Rows that begin as states of another model, handed over with their tokens."""

    def __init__(self, model: Model, cache: KVCache) -> None:
        super().__init__(model, cache)
        self._handed: list[Tensor] = []

    def hand(self, tokens: Sequence[int], states: Tensor) -> None:
        """Rows for `tokens` one after another at the end, with their states `[n, width]`."""
        for token in tokens:
            self.add(token, len(self) - 1)
        self._handed.append(states)

    def _embed(self) -> None:
        self._arrive(0, torch.cat(self._handed)[None], len(self))
        self._handed.clear()


class Reader:
    """Reads one text through an adapter. `model`: the adapter as a model of one layer, over states."""

    def __init__(self, model: Model, capacity: int) -> None:
        self.model = model
        self.cache = model.new_cache(capacity)
        self.rows: StateRows | None = None
        self._states: list[Tensor] = []  # `[n, width]` of committed positions from `_first` on, in order
        self._first = 0
        self._text: list[int] = []  # what was committed when the round began
        self.held = 0  # slots of the cache that spell the text

    @property
    def known(self) -> int:
        """Committed positions whose states were learnt."""
        return self._first + sum(len(states) for states in self._states)

    def learn(self, states: Tensor, tokens: Sequence[int] = ()) -> None:
        """States `[n, width]` of the next committed positions; `tokens`: what the round committed."""
        if len(states):
            self._states.append(states)
        self.held = self.cache.holds([*self._text, *tokens][:-1])

    def begin(self, tokens: Sequence[int], root: Tensor) -> Tensor:
        """Logits `[1, V]` after the committed `tokens`; `root`: the state `[1, width]` of the last of them."""
        self._text = list(tokens)
        missing = self.cache.follow(tokens[:-1])
        assert self.known == len(tokens) - 1, f"states of {self.known} positions for a text of {len(tokens)}"
        states = self._taken(root)
        while len(missing) > BLOCK:
            rows = StateRows(self.model, self.cache)
            rows.hand(missing[:BLOCK], states[:BLOCK])
            rows.climb(1)
            states = states[BLOCK:]
            missing = self.cache.follow(tokens[:-1])
        self.rows = StateRows(self.model, self.cache)
        self.rows.hand([*missing, tokens[-1]], torch.cat([states, root]))
        return self.rows.take(1)

    def _taken(self, like: Tensor) -> Tensor:
        """States `[n, width]` of the committed positions that the cache lacks; those before them are forgotten."""
        held = torch.cat([like[:0], *self._states])[self.cache.length - self._first :]
        self._states, self._first = [held], self.cache.length
        return held

    def feed(self, token: int, state: Tensor) -> Tensor:
        """Logits `[1, V]` after one more drafted token; `state`: the target's `[1, width]` of it."""
        assert self.rows is not None
        self.rows.hand([token], state)
        return self.rows.take(1)
