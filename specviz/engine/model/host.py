"""Between host and device: numbers down to it without waiting, results up from it with one wait for many.

Copies of ordinary memory make the host wait until the device has done all it was given; those of pinned memory do not.
Up, all that one call of `probability.host` asks for is staged in one pinned buffer and waited for once. Down,
`to_device` leaves the device to fetch the numbers when it comes to them. On a CPU neither copies. Torch keeps freed
pinned memory, and gives none of it away before the copies that read it are through.

Written for CUDA, and tried on a CPU with other memory and another wait; no CUDA device has run it yet.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
import torch

from specviz.probability.host import READS, PlainDeviceCopies

Tensor = torch.Tensor
_ALIGNED = 16  # bytes; every dtype may begin at such an address


def _pinned(n_bytes: int) -> Tensor:
    return torch.empty(n_bytes, dtype=torch.uint8, pin_memory=True)


def _wait(devices: Collection[torch.device]) -> None:
    for device in devices:
        torch.cuda.current_stream(device).synchronize()


class PinnedDeviceCopies:
    """Tensors of CUDA devices through pinned memory `[bytes]`, other devices' as they come.

    `memory` gives the buffer of a call, `wait` returns when the devices have done what they were given so far.
    """

    def __init__(
        self,
        memory: Callable[[int], Tensor] = _pinned,
        wait: Callable[[Collection[torch.device]], None] = _wait,
        kind: str = "cuda",
    ) -> None:
        self._memory, self._wait, self._kind = memory, wait, kind

    def bring(self, tensors: Sequence[Any]) -> Sequence[Any]:
        """Copies that are views of one buffer, which lives as long as any of them."""
        if any(tensor.device.type != self._kind for tensor in tensors):
            return PlainDeviceCopies().bring(tensors)
        starts, end = [], 0
        for tensor in tensors:
            starts.append(end)
            end += -(-tensor.nbytes // _ALIGNED) * _ALIGNED
        buffer = self._memory(end)
        out = [
            buffer[start : start + tensor.nbytes].view(tensor.dtype).view(tensor.shape)
            for start, tensor in zip(starts, tensors, strict=True)
        ]
        for here, there in zip(out, tensors, strict=True):
            here.copy_(there, non_blocking=True)
        self._wait({tensor.device for tensor in tensors})
        return out


def to_device(values: Any, device: torch.device, dtype: torch.dtype | None = None) -> Tensor:
    """Numbers of the host, (nested) lists or an array `[..]`, as a tensor there; the host does not wait for it."""
    tensor = torch.from_numpy(values) if isinstance(values, np.ndarray) else torch.tensor(values)
    if dtype is not None and tensor.dtype != dtype:
        tensor = tensor.to(dtype)
    if device.type == "cpu":
        return tensor
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)


READS.transport = PinnedDeviceCopies()
