"""Layers one after another in padded passes: rows are the same to the last bit whatever goes through beside them."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from specviz.engine.model.backend import ForwardInputs, TorchBackend, in_steps
from specviz.engine.model.cache import KVCache
from specviz.engine.model.exact.plan import SPARE, BatchWidths, RowPlan, order_of, together

Tensor = torch.Tensor


@dataclass(frozen=True, slots=True)
class ExactInputs:
    """Of rows that go through together, `padding` of them added, over `reach` slots; `rest`: of the rows behind."""

    rows: ForwardInputs
    padding: int
    reach: int
    rest: "ExactInputs | None"


class ExactBackend:
    """A `TorchBackend` whose passes have the widths that `exact.proof` tried."""

    products, spare = "torch", SPARE

    def __init__(self, plain: TorchBackend, widths: BatchWidths) -> None:
        self.plain, self.widths = plain, widths
        self.note = plain.note

    def inputs(self, hidden: Tensor, positions: list[int], visible: Any, kv_positions: Any) -> ExactInputs:
        """Rows in passes of as many as are exact together; those behind see the slots of those before."""
        adapter = self.plain.adapter
        if visible is None:
            visible = np.ones((len(positions), len(kv_positions)), dtype=np.bool_)
        n, rest = together(visible, positions, kv_positions, self.widths), None
        if n < len(positions):
            rest = self.inputs(hidden, positions[n:], visible[n:], kv_positions)
            end = len(kv_positions) - len(positions) + n
            positions, visible, kv_positions = positions[:n], visible[:n, :end], kv_positions[:end]
        padding = self.widths.padding(n)
        padded = [*positions, *range(positions[-1] + 1, positions[-1] + 1 + padding)]
        order = order_of(visible, positions, kv_positions, padding, adapter.groups, self.widths, adapter.sums)
        masks: dict[str, Tensor | RowPlan | None] = {
            kind: order.seeing(adapter.reached(kind, positions, visible, kv_positions)) for kind in self.plain.kinds
        }
        return ExactInputs(self.plain.masked(hidden, padded, masks), padding, order.wide, rest)

    def forward(
        self, hidden: Tensor, inputs: ExactInputs, cache: KVCache, lo: int, stops: Sequence[int]
    ) -> list[Tensor]:
        """Rows to each of `stops`."""
        return in_steps(lambda rows, first, last: self._through(rows, inputs, cache, first, last), hidden, lo, stops)

    def _through(self, hidden: Tensor, inputs: ExactInputs, cache: KVCache, lo: int, hi: int) -> Tensor:
        out: list[Tensor] = []
        step: ExactInputs | None = inputs
        while step is not None:
            n = step.rows.positions.shape[1] - step.padding
            rows, hidden = hidden[:, :n], hidden[:, n:]
            out.append(self._padded(rows, step, cache, lo, hi)[:, :n])
            step = step.rest
        return out[0] if len(out) == 1 else torch.cat(out, 1)

    def _padded(self, hidden: Tensor, step: ExactInputs, cache: KVCache, lo: int, hi: int) -> Tensor:
        cache.padding, cache.reach = step.padding, step.reach
        try:
            return self.plain.through(_with_zeros(hidden, step.padding), step.rows, cache, lo, hi)
        finally:
            cache.padding, cache.reach = 0, None

    def logits(self, hidden: Tensor) -> Tensor:
        """By the model's own norm and head, padded too."""
        return self.plain.adapter.logits_of(self._scores(hidden))

    def _scores(self, hidden: Tensor) -> Tensor:
        adapter, n, most = self.plain.adapter, hidden.shape[1], self.widths.most
        if n > most:
            return torch.cat([self._scores(hidden[:, k : k + most]) for k in range(0, n, most)], 1)
        scores: Tensor = adapter.head(adapter.norm(_with_zeros(hidden, self.widths.padding(n))))
        return scores[:, :n]

    def exact(self, widths: BatchWidths) -> "ExactBackend":
        """By other widths."""
        return ExactBackend(self.plain, widths)

    def part(
        self, layers: Sequence[Any], kept: Sequence[int], attention: Collection[int], mlp: Collection[int]
    ) -> "ExactBackend":
        """Over the layers given."""
        return ExactBackend(self.plain.part(layers, kept, attention, mlp), self.widths)


def _with_zeros(hidden: Tensor, padding: int) -> Tensor:
    """Rows `[1, n, width]` with rows of zeros behind."""
    return torch.nn.functional.pad(hidden, (0, 0, 0, padding)) if padding else hidden
