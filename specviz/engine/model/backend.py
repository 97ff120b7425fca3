"""`Backend`: the one way rows take through a model's layers and its head, chosen when it is loaded and never changed.

* `TorchBackend`, here: layers one after another, the library's own or their direct form.
* `exact.backend`: the same in passes that are padded so that no row depends on the others.
* `compiled.passes`: all layers in one call of a kernel.
* `graphs.passes`: either of the first two recorded once for each size, on CUDA.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import torch

from specviz.engine.model.cache import KVCache
from specviz.engine.model.exact.plan import BatchWidths, RowPlan

if TYPE_CHECKING:
    from specviz.engine.model.adapter import ModelAdapter

Tensor = torch.Tensor


@dataclass(frozen=True, slots=True)
class ForwardInputs:
    """What layers called one by one need of some rows: positions; masks and rotary tables by layer type."""

    positions: Tensor  # [1, n]
    masks: dict[str, Tensor | RowPlan | None]  # bool [1, 1, G * n, kv], True = visible; None = everything
    rope: dict[str, Any]  # empty for learned positions


class Backend(Protocol):
    """`hidden` is `[1, n, width]`; layers count from 0.

    `products`: what multiplies, "torch" or "compiled". `spare`: slots of a cache beyond its capacity. `note`: what a
    header says of its layers where they are not run as usual. `widths`: of passes whose rows are exact, None where rows
    may round as they stand. `plain`: the same layers by torch, whose rows may.
    """

    products: str
    spare: int

    @property
    def note(self) -> str: ...
    @property
    def widths(self) -> BatchWidths | None: ...
    @property
    def plain(self) -> "TorchBackend": ...

    def inputs(self, hidden: Tensor, positions: list[int], visible: Any, kv_positions: Any) -> Any:
        """What `forward` needs of n rows. `visible`: bool numpy `[n, kv]`, None where every row sees everything."""
        ...

    def forward(self, hidden: Tensor, inputs: Any, cache: KVCache, lo: int, stops: Sequence[int]) -> list[Tensor]:
        """Rows through layers from `lo` to the last of `stops`, and their states at each of these, in rising order.
        Keys and values go to the cache."""
        ...

    def logits(self, hidden: Tensor) -> Tensor:
        """`[n, vocab]`, float32 or the model's float64."""
        ...

    def exact(self, widths: BatchWidths) -> "Backend":
        """The same in passes of such widths."""
        ...

    def part(
        self, layers: Sequence[Any], kept: Sequence[int], attention: Collection[int], mlp: Collection[int]
    ) -> "Backend":
        """The same without the attention of some layers and the MLP of some: `layers` stand for those `kept`."""
        ...


def in_steps(step: Callable[[Tensor, int, int], Tensor], hidden: Tensor, lo: int, stops: Sequence[int]) -> list[Tensor]:
    """`forward` of a model that goes through layers `lo..hi` by `step(hidden, lo, hi)`, from each stop to the next."""
    states: list[Tensor] = []
    for stop in stops:
        hidden = step(hidden, lo, stop)
        lo = stop
        states.append(hidden)
    return states


class TorchBackend:
    """Layers one after another. `layers`: what stands for those of the adapter, and `types` of which type each is."""

    products, spare, note = "torch", 0, ""
    widths: BatchWidths | None = None

    def __init__(
        self, adapter: "ModelAdapter", layers: Sequence[Any] | None = None, types: Sequence[str] | None = None
    ) -> None:
        self.adapter = adapter
        self.layers = tuple(adapter.layers if layers is None else layers)
        self.types = tuple(adapter.types if types is None else types)
        self.kinds = frozenset(self.types)

    @property
    def plain(self) -> "TorchBackend":
        return self

    def inputs(self, hidden: Tensor, positions: list[int], visible: Any, kv_positions: Any) -> ForwardInputs:
        """Masks and rotary tables of n rows."""
        adapter = self.adapter
        masks: dict[str, Tensor | RowPlan | None] = {
            kind: adapter.tiled(adapter.reached(kind, positions, visible, kv_positions)) for kind in self.kinds
        }
        return self.masked(hidden, positions, masks)

    def masked(self, hidden: Tensor, positions: list[int], masks: dict[str, Tensor | RowPlan | None]) -> ForwardInputs:
        """The inputs of rows whose masks are known."""
        where, rope = self.adapter.position_tables(hidden, positions)
        return ForwardInputs(where, masks, rope)

    def forward(
        self, hidden: Tensor, inputs: ForwardInputs, cache: KVCache, lo: int, stops: Sequence[int]
    ) -> list[Tensor]:
        """Rows to each of `stops`."""
        return in_steps(lambda rows, first, last: self.through(rows, inputs, cache, first, last), hidden, lo, stops)

    def through(self, hidden: Tensor, inputs: ForwardInputs, cache: KVCache, lo: int, hi: int) -> Tensor:
        """Rows through layers `lo..hi`."""
        kw: dict[str, Any] = {"position_ids": inputs.positions, "use_cache": True, self.adapter.cache_word: cache}
        for index in range(lo, hi):
            kind = self.types[index]
            if inputs.rope:
                kw["position_embeddings"] = inputs.rope[kind]
            out = self.layers[index](hidden, attention_mask=inputs.masks[kind], **kw)
            hidden = out[0] if isinstance(out, tuple) else out
        return hidden

    def logits(self, hidden: Tensor) -> Tensor:
        """Final norm and lm_head of the model's own modules."""
        return self.adapter.logits_of(self.adapter.head(self.adapter.norm(hidden)))

    def exact(self, widths: BatchWidths) -> Backend:
        """The same layers in passes padded to the given widths (exact mode)."""
        from specviz.engine.model.exact.backend import ExactBackend

        return ExactBackend(self, widths)

    def part(
        self, layers: Sequence[Any], kept: Sequence[int], attention: Collection[int], mlp: Collection[int]
    ) -> "TorchBackend":
        """The same with `layers` in place of the model's own."""
        return type(self)(self.adapter, layers, [self.types[index] for index in kept])
