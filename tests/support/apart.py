"""Tensors that stand for a device's: in main memory, and still refused to the host wherever it would have to wait.

Whatever is computed of one is one. Numbers come out through `probability.host` alone, which counts; every other way
raises `HostRead`. So a run over such tensors shows both that nothing else waits, and how often the helper does.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
import torch

from specviz.engine.model.adapter import ModelAdapter
from specviz.engine.model.host import PinnedDeviceCopies
from specviz.probability.host import READS

# What makes the host wait: a number, a copy, or a shape that depends on numbers.
WAITS = {
    *("item", "tolist", "numpy", "cpu", "__array__", "__bool__", "__float__", "__int__", "__index__"),
    *("nonzero", "is_nonzero", "masked_select", "unique", "equal", "allclose", "bincount", "__contains__"),
    *("argwhere", "repeat_interleave"),
}


class HostRead(AssertionError):
    """The host read a device past the helper."""


class Apart(torch.Tensor):
    """A tensor of any shape `[..]` that says it lies elsewhere."""

    is_cpu = False

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.__name__ in WAITS or (func.__name__ == "__getitem__" and _masks(args[1])):
            raise HostRead(f"{func.__name__} of a tensor on a device")
        with torch._C.DisableTorchFunctionSubclass():
            out = func(*args, **kwargs or {})
        return torch._tensor._convert(out, cls)  # type: ignore[no-untyped-call]


Apart.__module__ = "torch"  # arrays are told apart by the library they come from


def _masks(index: Any) -> bool:
    """Whether a subscript chooses by values, so that the size of what it gives is not known."""
    return any(
        isinstance(part, torch.Tensor) and part.dtype == torch.bool
        for part in (index if isinstance(index, tuple) else (index,))
    )


class CountedDeviceCopies(PinnedDeviceCopies):
    """The transport of production, with common memory, and nothing to wait for. `calls[i]`: how many tensors came."""

    def __init__(self) -> None:
        super().__init__(lambda n: torch.empty(n, dtype=torch.uint8), lambda devices: None, "cpu")
        self.calls: list[int] = []

    def bring(self, tensors: Sequence[Any]) -> Sequence[Any]:
        self.calls.append(len(tensors))
        return super().bring(tensors)


@contextmanager
def apart(patch: pytest.MonkeyPatch) -> Iterator[CountedDeviceCopies]:
    """All models compute on such a device."""
    transport, embed = CountedDeviceCopies(), ModelAdapter.embed

    def embedded(self: ModelAdapter, tokens: list[int], positions: list[int]) -> torch.Tensor:
        return embed(self, tokens, positions).as_subclass(Apart)

    patch.setattr(ModelAdapter, "embed", embedded)
    patch.setattr(READS, "transport", transport)
    yield transport
