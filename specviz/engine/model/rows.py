"""`ForwardBatch`: a model's rows in flight, a tree over the cached prefix.

Rows are added in feed order and climb the layers; every layer takes all the rows it lacks as one block. That one rule
serves a prefill, a draft model's steps, a verify pass and an early exit that stops some rows half-way.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from specviz.engine.model.adapter import Model
from specviz.engine.model.cache import KVCache
from specviz.engine.model.host import to_device
from specviz.probability.draft import Draft

Tensor = torch.Tensor


@dataclass(frozen=True, slots=True)
class Call:
    """One entry of the ledger: rows that ran through layers `lo..hi` (1-based, inclusive), and how long it took."""

    lo: int
    hi: int
    n_rows: int
    t0_ns: int
    dur_ns: int


@dataclass(frozen=True, slots=True)
class PromptChunk:
    """Rows of a prompt that were fed at once, behind `before` tokens. Nanoseconds by the clock and of the processor."""

    before: int
    n_rows: int
    wall_ns: int
    cpu_ns: int


BLOCK = 1024  # rows of a long text fed at once: a mask of all its rows would grow with its square


def fill(
    model: Model,
    cache: KVCache,
    tokens: Sequence[int],
    leave: int = 0,
    taps: Sequence[int] = (),
    show: "Callable[[ForwardBatch], None] | None" = None,
) -> list[int]:
    """Make the cache follow `tokens`, block by block, until at most `leave` must still be fed; returns those.

    `show` is handed the rows of every block, with the states of the layers `taps`.
    """
    missing = cache.follow(tokens)
    while len(missing) > leave:
        rows = ForwardBatch(model, cache, taps)
        rows.add_line(missing[:BLOCK])
        rows.climb(model.n_layers)
        if show is not None:
            show(rows)
        missing = cache.follow(tokens)
    return missing


class States(Mapping[int, Tensor]):
    """States `[n, width]` of rows by tapped layer, as the library's `output_hidden_states`: of the last, normed ones.

    They are normed when somebody reads them, all at once: a row at a time that costs two hundredths of a pass, and
    while drafting pauses nobody reads any.
    """

    def __init__(self, left: Mapping[int, Tensor], model: Model | None = None) -> None:
        """`left`: as rows left the layers. `model`: whose rows they are, where the last layer may be among these."""
        self._left, self._model = left, model

    @torch.inference_mode()
    def __getitem__(self, layer: int) -> Tensor:
        left, model = self._left[layer], self._model
        return model.normed(left) if model is not None and layer == model.n_layers else left

    def __iter__(self) -> Iterator[int]:
        return iter(self._left)

    def __len__(self) -> int:
        return len(self._left)

    @property
    def n_rows(self) -> int:
        return len(next(iter(self._left.values()), ()))

    @classmethod
    def joined(cls, parts: "Sequence[States]") -> "States":
        """Those of parts one after another, of the same layers."""
        if len(parts) == 1:
            return parts[0]
        return cls({layer: torch.cat([part._left[layer] for part in parts]) for layer in parts[0]}, parts[0]._model)

    def last(self, n: int) -> "States":
        """Those of the last rows alone."""
        return States({layer: left[-n:] for layer, left in self._left.items()}, self._model)


class ForwardBatch:
    """Rows of one model over one cache. Row numbers count from 0 in the order of `add`.

    `taps`: layers whose states are kept as rows pass them, in rising order (0: the embedding).
    """

    def __init__(self, model: Model, cache: KVCache, taps: Sequence[int] = ()) -> None:
        self.model = model
        self.cache = cache
        self.first = len(cache.tokens)
        assert self.first == cache.length, "rows of an earlier round are still in the cache: follow() first"
        self.tokens: list[int] = []
        self.parents: list[int] = []  # row numbers; -1 follows the cached prefix
        self.depths: list[int] = []
        self.done = [0] * (model.n_layers + 1)  # rows through layer l; done[0] = embedded
        self.waiting: list[Tensor | None] = [None] * (model.n_layers + 1)
        self.ledger: list[Call] = []
        self._kept: dict[int, list[Tensor]] = {layer: [] for layer in taps}  # pieces `[n, width]`, in row order
        self._linear = True

    def __len__(self) -> int:
        return len(self.tokens)

    def keep(self, layers: Iterable[int]) -> None:
        """Also keep the states of these layers; before any row has climbed."""
        assert self.done[0] == 0, "rows have climbed already: what they passed is not held"
        self._kept = {layer: [] for layer in sorted({*self._kept, *layers})}

    def add(self, token: int, parent: int) -> int:
        """A row for `token` after row `parent` (-1: after the cached prefix). Returns its number."""
        row = len(self.tokens)
        self.cache.add(token, self.first + parent if parent >= 0 else self.first - 1)
        self._linear = self._linear and parent == row - 1
        self.tokens.append(token)
        self.parents.append(parent)
        self.depths.append(self.depths[parent] + 1 if parent >= 0 else 0)
        return row

    def add_line(self, tokens: list[int]) -> int:
        """Rows one after another at the end of the prefix; returns the last."""
        row = -1
        for token in tokens:
            row = self.add(token, row)
        return row

    def position(self, row: int) -> int:
        """Position of a row's token in the text."""
        return self.first + self.depths[row]

    def climb(self, layer: int) -> Tensor:
        """Run every row through `layer` (1-based); returns the newly arrived hidden states `[1, n, width]`."""
        if self.done[0] < len(self):
            self._embed()
        lo = 0
        while lo < layer:
            if self.done[lo + 1] == self.done[lo]:
                lo += 1
                continue
            hi = lo + 1
            while hi < layer and self.done[hi + 1] == self.done[lo + 1]:
                hi += 1
            self._pass(lo, hi)
            lo = hi
        out = self.waiting[layer]
        assert out is not None, f"no row waits at layer {layer}"
        return out

    def _embed(self) -> None:
        start = self.done[0]
        places = [self.position(r) for r in range(start, len(self))]
        hidden = self.model.embed(self.tokens[start:], places)
        self._keep(0, hidden)
        self._arrive(0, hidden, len(self))

    def _keep(self, layer: int, hidden: Tensor) -> None:
        if layer in self._kept:
            self._kept[layer].append(hidden[0])

    def states(self, layer: int, rows: Sequence[int]) -> Tensor:
        """`[rows, width]` as they left a tapped layer."""
        pieces = self._kept[layer]
        kept = pieces[0] if len(pieces) == 1 else torch.cat(pieces)
        first, n = rows[0], len(rows)
        line = list(rows) == list(range(first, first + n))
        return kept[first : first + n] if line else kept[to_device(list(rows), kept.device)]

    def _arrive(self, layer: int, hidden: Tensor, done: int) -> None:
        before = self.waiting[layer]
        self.waiting[layer] = hidden if before is None else torch.cat([before, hidden], 1)
        self.done[layer] = done

    def _pass(self, lo: int, hi: int) -> None:
        start, end = self.done[lo + 1], self.done[lo]
        hidden = self.waiting[lo]
        assert hidden is not None
        began = time.perf_counter_ns()
        rows = range(start, end)
        positions, kv_positions = [self.position(r) for r in rows], self._kv_positions(end)
        inputs = self.model.inputs(hidden, positions, self._visible(rows), kv_positions)
        stops = [*(tap for tap in self._kept if lo < tap < hi), hi]
        for stop, out in zip(stops, self.model.forward(hidden, inputs, self.cache, lo, stops), strict=True):
            self._keep(stop, out)
        self.ledger.append(Call(lo + 1, hi, end - start, began, time.perf_counter_ns() - began))
        self.waiting[lo] = None
        for layer in range(lo + 1, hi):
            self.done[layer] = end
        self._arrive(hi, out, end)

    def _visible(self, rows: range) -> "np.ndarray[tuple[int, int], np.dtype[np.bool_]] | None":
        """Which slots each row sees, `[n, first + end]`; None when that is all of them."""
        kv = self.first + rows.stop
        if self._linear:
            if len(rows) == 1:
                return None
            return np.tri(len(rows), kv, kv - len(rows), dtype=np.bool_)
        out = np.zeros((len(rows), kv), dtype=np.bool_)
        out[:, : self.first] = True
        for k, row in enumerate(rows):
            while row >= 0:
                out[k, self.first + row] = True
                row = self.parents[row]
        return out

    def _kv_positions(self, end: int) -> Sequence[int]:
        if self._linear:
            return range(self.first + end)
        return [*range(self.first), *(self.position(r) for r in range(end))]

    def take(self, last: int | None = None) -> Tensor:
        """Run all rows to the top; logits `[n, V]` of those not taken before, or of the `last` few of them."""
        top = self.model.n_layers
        hidden = self.climb(top)
        self.waiting[top] = None
        return self.model.logits(hidden if last is None else hidden[:, -last:])

    def finish(self, draft: Draft, root: int) -> Tensor:
        """Feed what the draft has and the rows lack, run all to the top; logits `[n_fed + 1, V]` of root and nodes.

        `root` is the row of the last committed token. A drafter that climbed these rows added its nodes in draft order.
        """
        for node in range(len(self) - root - 1, draft.n_fed):
            parent = draft.parents[node]
            self.add(draft.tokens[node], root if parent < 0 else root + 1 + parent)
        assert tuple(self.tokens[root + 1 :]) == draft.tokens[: draft.n_fed], "rows and draft spell different nodes"
        top = self.model.n_layers
        hidden = self.climb(top)
        return self.model.logits(hidden[:, root:])
