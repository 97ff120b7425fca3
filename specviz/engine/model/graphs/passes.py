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
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

from specviz.engine.model.adapter import ModelAdapter
from specviz.engine.model.backend import ForwardInputs, TorchBackend, in_steps
from specviz.engine.model.cache import KVCache
from specviz.engine.model.exact.backend import ExactBackend
from specviz.engine.model.exact.plan import SPARE, BatchWidths, line_of, together
from specviz.engine.model.exact.proof import rows_hold
from specviz.engine.model.graphs.capture import Capture, CudaCapture, Replay
from specviz.engine.model.graphs.rows import PassSizes, RowInputs
from specviz.engine.model.selftest import tolerance
from specviz.names import COMPILE, GRAPHS

Tensor = torch.Tensor

MOST = 48  # recordings of a model that are kept
WIDEST = 256  # rows of a pass that is recorded; more have enough to compute


@dataclass(frozen=True, slots=True)
class GraphInputs:
    """What a recording is filled with; arguments of `Backend.inputs`. `below`: those of the layers one by one."""

    positions: list[int]
    visible: Any  # bool [n, kv]
    own: Any  # int [kv]
    rope: dict[str, Any]
    below: Callable[[], Any]


@dataclass(slots=True)
class _Recording:
    """The buffers of one size, and what goes through them again."""

    rows: RowInputs
    hidden: Tensor  # [1, rows, width]
    rope: dict[str, tuple[Tensor, Tensor]]  # cos, sin `[1, rows, dim]`, by layer type
    replay: Replay | None = None


class GraphBackend:
    """Another backend's layers, recorded. `capture` records; `say` is told, once, that it cannot."""

    products, note = "torch", ""
    spare = SPARE  # slots of a cache beyond its capacity: the last is written by rows of padding

    def __init__(
        self,
        adapter: ModelAdapter,
        below: TorchBackend | ExactBackend,
        capture: Capture,
        say: "Callable[[str], None] | None" = None,
    ) -> None:
        self._adapter, self._below, self.plain = adapter, below, below.plain
        self._capture, self._say = capture, say or _print
        self._windows = {kind: adapter.window if kind == "sliding_attention" else None for kind in self.plain.kinds}
        self._recordings: OrderedDict[Any, _Recording] = OrderedDict()
        self.failed = ""  # why nothing is recorded any more
        # The head is the adapter's: its rows are cut out of what a recording gives, and are as many as are judged.
        self.logits, self.part = below.logits, below.part

    @property
    def widths(self) -> BatchWidths | None:
        return self._below.widths

    def __len__(self) -> int:
        return len(self._recordings)

    def forget(self) -> None:
        """Drop all recordings; they are made again where they are needed."""
        self._recordings.clear()

    def exact(self, widths: BatchWidths) -> "GraphBackend":
        """Recordings of exact passes."""
        return GraphBackend(self._adapter, ExactBackend(self.plain, widths), self._capture, self._say)

    def inputs(self, hidden: Tensor, positions: list[int], visible: Any, kv_positions: Any) -> GraphInputs:
        """What rows at some positions see."""
        if visible is None:
            visible = np.ones((len(positions), len(kv_positions)), np.bool_)
        _, rope = self._adapter.position_tables(hidden, positions)
        below = partial(self._below.inputs, hidden, positions, visible, kv_positions)
        return GraphInputs(positions, visible, np.asarray(kv_positions), rope, below)

    def forward(
        self, hidden: Tensor, inputs: GraphInputs, cache: KVCache, lo: int, stops: Sequence[int]
    ) -> list[Tensor]:
        """From each of `stops` to the next by a recording; what comes out is the caller's."""
        return in_steps(lambda rows, first, last: self._run(rows, inputs, cache, first, last), hidden, lo, stops)

    def _run(self, hidden: Tensor, inputs: GraphInputs, cache: KVCache, lo: int, hi: int) -> Tensor:
        start = cache.filled[lo]
        n = hidden.shape[1]
        level = all(filled == start for filled in cache.filled[lo:hi])
        if self.failed or not level or not cache.spare or n > WIDEST or not self._together(inputs):
            return self._plainly(hidden, inputs, cache, lo, hi)
        held = cache.memory(hidden.new_empty(1, self._adapter.kv_heads, 0, self._adapter.head_dim))
        try:
            out = self._through(hidden, inputs, held, start, lo, hi)
        except ValueError:  # a tree that no recording holds
            return self._plainly(hidden, inputs, cache, lo, hi)
        except (RuntimeError, TypeError) as error:
            self.failed = str(error).splitlines()[0] if str(error) else type(error).__name__
            self._recordings.clear()
            self._say(f"{self._adapter.name}: passes are not recorded, layers run one by one: {self.failed}")
            return self._plainly(hidden, inputs, cache, lo, hi)
        cache.filled[lo:hi] = [start + n] * (hi - lo)
        return out

    def _together(self, inputs: GraphInputs) -> bool:
        widths, n = self.widths, len(inputs.positions)
        return widths is None or together(inputs.visible, inputs.positions, inputs.own, widths) == n

    def _plainly(self, hidden: Tensor, inputs: GraphInputs, cache: KVCache, lo: int, hi: int) -> Tensor:
        return self._below.forward(hidden, inputs.below(), cache, lo, [hi])[0]

    def _through(self, hidden: Tensor, inputs: GraphInputs, held: Tensor, start: int, lo: int, hi: int) -> Tensor:
        """By a recording: the one of this size, made now if there is none."""
        n, kv = inputs.visible.shape
        line = line_of(inputs.visible, np.asarray(inputs.positions), inputs.own)
        sizes = PassSizes.of(n, kv, line, inputs.positions[0], self.widths)
        slots = held.shape[4]
        if sizes.wide > slots:
            sizes = _within(sizes, slots, kv)
        key = (sizes, lo, hi, held.data_ptr(), tuple(held.shape), hidden.dtype, torch.is_inference_mode_enabled())
        recording = self._recordings.pop(key, None) or self._empty(sizes, hidden, inputs, slots - 1)
        recording.rows.fill(inputs.positions, inputs.visible, inputs.own, start)
        recording.hidden[:, :n] = hidden
        recording.hidden[:, n:] = 0
        for kind, (cos, sin) in inputs.rope.items():
            recording.rope[kind][0][:, :n] = cos
            recording.rope[kind][1][:, :n] = sin
        if recording.replay is None:
            recording.replay = self._capture.record(lambda: self._layers(recording, held, lo, hi))
        out = recording.replay()[:, :n].clone()  # the next replay of any recording may write over it
        self._recordings[key] = recording
        while len(self._recordings) > MOST:
            self._recordings.popitem(last=False)
        return out

    def _empty(self, sizes: PassSizes, hidden: Tensor, inputs: GraphInputs, trash: int) -> _Recording:
        adapter, n = self._adapter, sizes.rows

        def like(one: Tensor) -> Tensor:
            return one.new_zeros(1, n, one.shape[2])

        rope = {kind: (like(cos), like(sin)) for kind, (cos, sin) in inputs.rope.items()}
        rows = RowInputs(sizes, adapter.sums, self.widths, adapter.groups, trash)
        return _Recording(rows, like(hidden), rope)

    def _layers(self, recording: _Recording, held: Tensor, lo: int, hi: int) -> Tensor:
        """What is recorded: nothing here may look at a number of a tensor."""
        rows = recording.rows
        inputs = ForwardInputs(rows.positions, rows.masks(self._windows), recording.rope)
        slots: Any = _Slots(held, rows.write, rows.sizes.wide)
        return self.plain.through(recording.hidden, inputs, slots, lo, hi)

    @torch.inference_mode()
    def holds(self) -> bool:
        """Whether recorded rows are those of ordinary passes: to the last bit where those are exact, else nearly.

        Tried on a chain, a row behind it and a tree.
        """
        adapter, ways = self._adapter, list[Any]([self._below, self])
        caches = [KVCache(adapter.n_layers, 64, way.spare) for way in ways]
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
            hidden = adapter.embed([(7 * k + 3) % adapter.vocab for k in positions], positions)
            ordinary, recorded = (
                way.forward(hidden, way.inputs(hidden, positions, visible, own), cache, 0, [adapter.n_layers])[0]
                for way, cache in zip(ways, caches, strict=True)
            )
            if self.failed:
                return False
            if self.widths is not None:
                if not torch.equal(ordinary, recorded):
                    return False
            elif not (recorded - ordinary).double().norm() <= ordinary.double().norm() * tolerance(adapter.dtype) / 3:
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
def graph_backend(adapter: ModelAdapter, capture: Capture | None = None) -> GraphBackend | str:
    """An adapter's layers by recordings; or why they are not recorded."""
    if capture is None and adapter.device.type != "cuda":
        return "it is for CUDA"
    if os.environ.get(COMPILE) == "off":
        return "it is turned off"
    if capture is None and os.environ.get(GRAPHS) != "on":
        return f"it has not run on a card yet, and is for who sets {GRAPHS}=on"
    below = adapter.backend
    if not isinstance(below, TorchBackend | ExactBackend) or below.note:
        return "its layers go another way"
    backend = GraphBackend(adapter, below, capture or CudaCapture(adapter.device))
    sound = backend.holds() and (backend.widths is None or rows_hold(adapter.with_backend(backend)))
    backend.forget()
    if backend.failed or not sound:
        return backend.failed or "its numbers are not those of ordinary passes"
    return backend
