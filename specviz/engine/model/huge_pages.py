"""Memory for weights in pages of two megabytes, where the system has such (Linux).

A pass goes through all weights once. In pages of four kilobytes every eighteenth of a matrix row's reads waits for the
address of the next, and what is asked for ahead ends where its page does: SmolLM2's pass over one row takes a tenth to
an eighth less time in large pages, one over nine rows a sixth. Elsewhere the memory is as any other.
"""

import mmap
import sys
from collections.abc import Sequence
from contextlib import suppress
from math import prod

import torch

Tensor = torch.Tensor

_PIECE = 64 << 20  # bytes per allocation; memory in one piece is freed together
_SMALL = 1 << 16  # bytes below which a tensor gains nothing
_LINE = 64  # bytes; where tensors begin


class _Piece:
    """Memory that tensors are cut from, one behind another."""

    def __init__(self, size: int) -> None:
        self.memory, self.size, self.used = mmap.mmap(-1, size), size, 0
        if sys.platform == "linux":
            with suppress(OSError):  # a kernel without large pages
                self.memory.madvise(mmap.MADV_HUGEPAGE)

    def cut(self, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        count = prod(shape)
        out = torch.frombuffer(self.memory, dtype=dtype, count=count, offset=self.used)
        self.used += -(-count * dtype.itemsize // _LINE) * _LINE
        return out.view(*shape)


_newest: list[_Piece] = []  # the one that is cut from


def empty(shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """As `torch.empty` on the CPU, for what will be read again and again. A piece of the system's memory lives as long
    as any tensor in it."""
    n_bytes = prod(shape) * dtype.itemsize
    if n_bytes < _SMALL:
        return torch.empty(*shape, dtype=dtype)
    if n_bytes > _PIECE // 2:
        return _Piece(n_bytes).cut(shape, dtype)
    if not _newest or _newest[0].used + n_bytes > _newest[0].size:
        _newest[:] = [_Piece(_PIECE)]
    return _newest[0].cut(shape, dtype)


def copied(weight: Tensor, dtype: torch.dtype) -> Tensor:
    """A weight of the CPU, in another dtype if need be, in such memory."""
    return empty(weight.shape, dtype).copy_(weight)


def joined(weights: Sequence[Tensor]) -> Tensor:
    """Weights `[out, in]` of the CPU below one another, in such memory."""
    shape = (sum(len(weight) for weight in weights), weights[0].shape[1])
    return torch.cat([weight.detach() for weight in weights], out=empty(shape, weights[0].dtype))
