"""Keys and values of a drafter's rows: committed ones in front, those of the round in hand behind them.

A memo (architecture.md 1): nothing here decides a token. Committed rows are only ever appended, rows of a round are
dropped by moving a length. Buffers grow by doubling, so a short text never pays for a long context.
"""

import torch

Tensor = torch.Tensor


class RowCache:
    """One pair of buffers a layer, `[1, heads, capacity, head_dim]`."""

    def __init__(self, n_layers: int) -> None:
        self.committed = 0  # rows that stay
        self.filled = 0  # and those of this round
        self._buffers: list[tuple[Tensor, Tensor] | None] = [None] * n_layers

    def drop(self) -> None:
        """Forget the rows of this round."""
        self.filled = self.committed

    def commit(self) -> None:
        """All rows that are in stay."""
        self.committed = self.filled

    def keys(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Write rows `[1, heads, n, head_dim]` behind the filled ones; all there are. The last layer moves `filled`."""
        end = self.filled + key.shape[2]
        held = self._room(layer, end, key)
        for buffer, rows in zip(held, (key, value), strict=True):
            buffer[:, :, self.filled : end] = rows
        if layer == len(self._buffers) - 1:
            self.filled = end
        return held[0][:, :, :end], held[1][:, :, :end]

    def _room(self, layer: int, end: int, like: Tensor) -> tuple[Tensor, Tensor]:
        held = self._buffers[layer]
        if held is None or held[0].shape[2] < end:
            size = max(256, 1 << (end - 1).bit_length())
            fresh = [like.new_empty(1, like.shape[1], size, like.shape[3]) for _ in range(2)]
            for new, old in zip(fresh, held or (), strict=False):
                new[:, :, : self.filled] = old[:, :, : self.filled]
            held = self._buffers[layer] = (fresh[0], fresh[1])
        return held
