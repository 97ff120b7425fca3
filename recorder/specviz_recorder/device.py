"""Numbers on their way from the engine's device to the writer, without waiting for it."""

import sys
from typing import Any

import numpy as np


class OnItsWay:
    """Copies of small tensors. Made where the engine decodes; read on the writer's thread, once they have arrived."""

    def __init__(self) -> None:
        self._copies: dict[str, Any] = {}
        self._arrived: Any = None

    def take(self, name: str, tensor: Any) -> None:
        """Copy a tensor as it is now: the engine may write over it."""
        tensor = tensor.detach()
        if not tensor.is_cuda:
            self._copies[name] = tensor.to("cpu", copy=True)
            return
        torch = sys.modules["torch"]
        there = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
        self._copies[name] = there.copy_(tensor, non_blocking=True)
        self._arrived = torch.cuda.Event()
        self._arrived.record()  # of the last copy: they arrive in order

    def __contains__(self, name: str) -> bool:
        return name in self._copies

    def read(self, name: str) -> "np.ndarray[Any, Any]":
        """As it was when it was taken."""
        if self._arrived is not None:
            self._arrived.synchronize()
            self._arrived = None
        array: np.ndarray[Any, Any] = self._copies[name].numpy()
        return array

    def numbers(self, name: str) -> "np.ndarray[Any, Any] | None":
        """`read`, or None where nothing of that name was taken."""
        return self.read(name) if name in self else None


def _has_cuda() -> bool:
    return bool(sys.modules["torch"].cuda.is_available())


def being_captured() -> bool:
    """Whether the work that is launched now becomes part of a CUDA graph: what is copied then holds no numbers."""
    return _has_cuda() and bool(sys.modules["torch"].cuda.is_current_stream_capturing())


def at(rows: Any, ids: Any) -> Any:
    """float32 [n]: of every row of `rows` [n, vocabulary] the number at its id in `ids` [n].

    Ids that are none (-1, or beyond a smaller vocabulary) give some number: on the device they would end the engine.
    """
    inside = ids.long().clamp(0, rows.shape[-1] - 1)
    return rows.gather(-1, inside.unsqueeze(-1)).squeeze(-1).float()
