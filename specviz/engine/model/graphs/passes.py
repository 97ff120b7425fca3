"""Passes over a few rows recorded once for each size and then done again in one call, on devices that can (CUDA).

Of a layer of a small pass most is launching it: the kernels of a thirty-layer model take longer to start than to run.
A recording starts them all at once. Its rows stand in buffers of fixed sizes: a bucket of rows, and of slots that are
read, which grows with the text; a size that is met for the first time is recorded, and of recordings the `MOST` that
were used last are kept. Attention is that of ordinary passes, exact ones too: a `RowPlan` of tensors.

What cannot be recorded goes through the layers one by one, as without: long blocks of a prompt, layers that stand at
different depths, trees too wide for their plan. If recording itself fails, all does, and one line says so.
"""

import os
import sys
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from specviz.engine.model.adapter import ForwardInputs, ModelAdapter, one_by_one
from specviz.engine.model.cache import KVCache
from specviz.engine.model.exact.plan import SPARE, line_of, together
from specviz.engine.model.exact.proof import rows_hold
from specviz.engine.model.graphs.capture import Capture, CudaCapture, Replay
from specviz.engine.model.graphs.rows import PassSizes, RowInputs
from specviz.engine.model.selftest import tolerance
from specviz.names import COMPILE, GRAPHS

Tensor = torch.Tensor

MOST = 48  # recordings of a model that are kept
WIDEST = 256  # rows of a pass that is recorded; more have enough to compute


@dataclass(frozen=True, slots=True)
class SeenRows:
    """What is asked of a pass; arguments of `ModelAdapter.block`."""

    positions: list[int]
    visible: Any  # bool [n, kv]
    own: Any  # int [kv]


@dataclass(slots=True)
class _Recording:
    """The buffers of one size, and what goes through them again."""

    rows: RowInputs
    hidden: Tensor  # [1, rows, width]
    rope: dict[str, tuple[Tensor, Tensor]]  # cos, sin `[1, rows, dim]`, by layer type
    replay: Replay | None = None


class GraphedPasses:
    """The layers of an adapter, recorded. `capture` records; `say` is told, once, that it cannot."""

    head = None  # that of the adapter: its rows are cut out of what a recording gives, and are as many as are judged
    spare = SPARE  # slots of a cache beyond its capacity: the last is written by rows of padding

    def __init__(self, adapter: ModelAdapter, capture: Capture, say: "Callable[[str], None] | None" = None) -> None:
        self._adapter = copy(adapter)
        self._adapter.compiled = None
        self._capture, self._say = capture, say or _print
        self._windows = {kind: adapter.window if kind == "sliding_attention" else None for kind in set(adapter.types)}
        self._made: OrderedDict[Any, _Recording] = OrderedDict()
        self.failed = ""  # why nothing is recorded any more

    def __len__(self) -> int:
        return len(self._made)

    def forget(self) -> None:
        """Drop all recordings; they are made again where they are needed."""
        self._made.clear()

    def paths(self, positions: list[int], visible: Any, kv_positions: Any) -> SeenRows:
        """What rows at some positions see; arguments as in `ModelAdapter.block`."""
        if visible is None:
            visible = np.ones((len(positions), len(kv_positions)), np.bool_)
        return SeenRows(positions, visible, np.asarray(kv_positions))

    def part(self, attention: Collection[int], mlp: Collection[int]) -> None:
        """None: a model of some sublayers runs them one by one."""
        return

    def run(self, hidden: Tensor, block: ForwardInputs, cache: KVCache, lo: int, hi: int) -> Tensor:
        """Rows `[1, n, width]` through layers `lo..hi`; keys and values go to the cache. The result is the caller's."""
        seen: SeenRows = block.paths
        start = cache.filled[lo]
        n = hidden.shape[1]
        level = all(filled == start for filled in cache.filled[lo:hi])
        if self.failed or not level or not cache.spare or n > WIDEST or not self._together(seen):
            return self._plainly(hidden, block, cache, lo, hi)
        held = cache.memory(hidden.new_empty(1, self._adapter.kv_heads, 0, self._adapter.head_dim))
        try:
            out = self._through(hidden, block, seen, held, start, lo, hi)
        except ValueError:  # a tree that no recording holds
            return self._plainly(hidden, block, cache, lo, hi)
        except (RuntimeError, TypeError) as error:
            self.failed = str(error).splitlines()[0] if str(error) else type(error).__name__
            self._made.clear()
            self._say(f"{self._adapter.name}: passes are not recorded, layers run one by one: {self.failed}")
            return self._plainly(hidden, block, cache, lo, hi)
        cache.filled[lo:hi] = [start + n] * (hi - lo)
        return out

    def run_to(
        self, hidden: Tensor, block: ForwardInputs, cache: KVCache, lo: int, stops: Sequence[int]
    ) -> list[Tensor]:
        """From each of `stops` to the next."""
        return one_by_one(self, hidden, block, cache, lo, stops)

    def logits(self, hidden: Tensor) -> None:
        """None: the adapter's own modules give them."""
        return

    def _together(self, seen: SeenRows) -> bool:
        widths = self._adapter.widths
        n = len(seen.positions)
        return widths is None or together(seen.visible, seen.positions, seen.own, widths) == n

    def _plainly(self, hidden: Tensor, block: ForwardInputs, cache: KVCache, lo: int, hi: int) -> Tensor:
        assert block.plain is not None
        return self._adapter.run(hidden, block.plain(), cache, lo, hi)

    def _through(
        self, hidden: Tensor, block: ForwardInputs, seen: SeenRows, held: Tensor, start: int, lo: int, hi: int
    ) -> Tensor:
        """By a recording: the one of this size, made now if there is none."""
        n, kv = seen.visible.shape
        line = line_of(seen.visible, np.asarray(seen.positions), seen.own)
        sizes = PassSizes.of(n, kv, line, seen.positions[0], self._adapter.widths)
        slots = held.shape[4]
        if sizes.wide > slots:
            sizes = _within(sizes, slots, kv)
        key = (sizes, lo, hi, held.data_ptr(), tuple(held.shape), hidden.dtype, torch.is_inference_mode_enabled())
        made = self._made.pop(key, None) or self._empty(sizes, hidden, block, slots - 1)
        made.rows.fill(seen.positions, seen.visible, seen.own, start)
        made.hidden[:, :n] = hidden
        made.hidden[:, n:] = 0
        for kind, (cos, sin) in block.rope.items():
            made.rope[kind][0][:, :n] = cos
            made.rope[kind][1][:, :n] = sin
        if made.replay is None:
            made.replay = self._capture.record(lambda: self._layers(made, held, lo, hi))
        out = made.replay()[:, :n].clone()  # the next replay of any recording may write over it
        self._made[key] = made
        while len(self._made) > MOST:
            self._made.popitem(last=False)
        return out

    def _empty(self, sizes: PassSizes, hidden: Tensor, block: ForwardInputs, trash: int) -> _Recording:
        adapter, n = self._adapter, sizes.rows

        def like(one: Tensor) -> Tensor:
            return one.new_zeros(1, n, one.shape[2])

        rope = {kind: (like(cos), like(sin)) for kind, (cos, sin) in block.rope.items()}
        rows = RowInputs(sizes, adapter.sums, adapter.widths, adapter.groups, trash)
        return _Recording(rows, like(hidden), rope)

    def _layers(self, made: _Recording, held: Tensor, lo: int, hi: int) -> Tensor:
        """What is recorded: nothing here may look at a number of a tensor."""
        inputs = ForwardInputs(made.rows.positions, made.rows.masks(self._windows), made.rope)
        slots: Any = _Slots(held, made.rows.write, made.rows.sizes.wide)
        return self._adapter._layers(made.hidden, inputs, slots, lo, hi)

    @torch.inference_mode()
    def holds(self) -> bool:
        """Whether recorded rows are those of ordinary passes: to the last bit where those are exact, else nearly.

        Tried on a chain, a row behind it and a tree.
        """
        plain = self._adapter
        graphed = copy(plain)
        graphed.compiled = self
        caches = [each.new_cache(64) for each in (plain, graphed)]
        for positions, parents in (([0, 1, 2], None), ([3], None), ([4, 5, 5, 6, 6], (-1, 0, 0, 1, 2))):
            first, n = caches[0].filled[0], len(positions)
            visible = np.tri(n, first + n, first, dtype=np.bool_)
            if parents is not None:
                visible[:, first:] = False
                for row in range(n):
                    node = row
                    while node >= 0:
                        visible[row, first + node] = True
                        node = parents[node]
            own = np.array([*range(first), *positions])
            states = []
            for adapter, cache in zip((plain, graphed), caches, strict=True):
                hidden = adapter.embed([(7 * k + 3) % adapter.vocab for k in positions], positions)
                block = adapter.block(hidden, positions, visible, own)
                states.append(adapter.run(hidden, block, cache, 0, adapter.n_layers))
            if self.failed:
                return False
            wanted, found = (each.double() for each in states)
            near = (found - wanted).norm() <= wanted.norm() * tolerance(plain.dtype) / 3
            if not (bool(near) if plain.widths is None else torch.equal(*states)):
                return False
        return True


class _Slots:
    """Stands for a cache inside a recording: keys go to slots that a tensor names, and the first `wide` are read."""

    def __init__(self, held: Tensor, write: Tensor, wide: int) -> None:
        self._held, self._write, self._wide = held, write, wide

    def update(self, key: Tensor, value: Tensor, layer_idx: int, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        keys, values = self._held[0, layer_idx], self._held[1, layer_idx]
        keys.index_copy_(2, self._write, key.to(keys.dtype))
        values.index_copy_(2, self._write, value.to(values.dtype))
        return keys.narrow(2, 0, self._wide), values.narrow(2, 0, self._wide)

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return self._wide


def _within(sizes: PassSizes, slots: int, kv: int) -> PassSizes:
    """The same over the slots that a cache has. Raises ValueError where rows of padding would write over others."""
    wide = slots // 32 * 32
    if kv + 1 > wide:
        raise ValueError("the cache is full")
    return PassSizes(sizes.rows, wide, sizes.tail, sizes.long)


def _print(line: str) -> None:
    print(line, file=sys.stderr)


@torch.inference_mode()
def graph_passes(adapter: ModelAdapter, capture: Capture | None = None) -> str:
    """Take rows through an adapter's layers by recordings; "" or why they are not."""
    if capture is None and adapter.device.type != "cuda":
        return "it is for CUDA"
    if os.environ.get(COMPILE) == "off":
        return "it is turned off"
    if capture is None and os.environ.get(GRAPHS) != "on":
        return f"it has not run on a card yet, and is for who sets {GRAPHS}=on"
    if adapter.compiled is not None or adapter.mapped or len(adapter.devices) > 1:
        return "its layers go another way"
    passes = GraphedPasses(adapter, capture or CudaCapture(adapter.device))
    tried = copy(adapter)
    tried.compiled = passes
    sound = passes.holds() and (adapter.widths is None or rows_hold(tried))
    passes.forget()
    if passes.failed or not sound:
        return passes.failed or "its numbers are not those of ordinary passes"
    adapter.compiled = passes
    return ""
