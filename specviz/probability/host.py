"""Reads of device memory by the host: every such read of a round goes through `fetch` or `to_host`.

A read stalls the host, and the stalled device idles afterwards. So all values needed at one moment are fetched in one
call, which waits once; waits are counted. Arrays in main memory are used as they are: no copy, no wait, no count.
`DeviceCopies` makes the copies; the engine provides one with pinned memory.
"""

from collections.abc import Sequence
from typing import Any, Protocol


class DeviceCopies(Protocol):
    """`bring` copies tensors of any shapes `[..]` and devices into main memory; they are there when it returns."""

    def bring(self, tensors: Sequence[Any]) -> Sequence[Any]: ...


class PlainDeviceCopies:
    """A copy and a wait for each tensor."""

    def bring(self, tensors: Sequence[Any]) -> Sequence[Any]:
        return [tensor.cpu() for tensor in tensors]


class HostReads:
    """The reads of this process. `n_waits`: how often the host waited for a device so far."""

    def __init__(self, transport: DeviceCopies) -> None:
        self.transport = transport
        self.n_waits = 0

    def bring(self, arrays: Sequence[Any]) -> list[Any]:
        """The arrays, in main memory; those that lie there are the same objects."""
        apart = [k for k, array in enumerate(arrays) if off_host(array)]
        out = list(arrays)
        if apart:
            self.n_waits += len({str(arrays[k].device) for k in apart})
            for k, here in zip(apart, self.transport.bring([arrays[k] for k in apart]), strict=True):
                out[k] = here
        return out


READS = HostReads(PlainDeviceCopies())


def off_host(array: Any) -> bool:
    """Whether an array `[..]` is a tensor outside main memory, so that the host must wait to read it."""
    return type(array).__module__.startswith("torch") and not array.is_cpu


def to_host(*arrays: Any) -> list[Any]:
    """The arrays `[..]` in main memory, with one wait for all that are not there."""
    return READS.bring(arrays)


def fetch(*arrays: Any) -> list[Any]:
    """The numbers of some arrays `[..]` as (nested) lists, in their order, with one wait for all."""
    return [array.tolist() for array in READS.bring(arrays)]
