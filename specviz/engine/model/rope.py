"""Rotary tables: worked out once by the library's module for many positions, then sliced.

Angles of the static kinds depend on the position alone. The dynamic ones look at the longest position of a call, so
they are asked every time.
"""

from typing import Any

import torch

Tensor = torch.Tensor
_STEP = 512


class RopeTable:
    """Cosines and sines of one rotary module, for one layer type when it has several."""

    def __init__(self, rope: Any, layer_type: str | None = None) -> None:
        self.rope, self.layer_type = rope, layer_type
        kind = getattr(rope, "rope_type", "unknown")
        self.static = _static(kind[layer_type] if isinstance(kind, dict) and layer_type in kind else kind)
        self._table: tuple[Tensor, Tensor] | None = None

    def at(self, hidden: Tensor, positions: list[int], where: Tensor) -> tuple[Tensor, Tensor]:
        """`(cos, sin)`, each `[1, n, head_dim]`. `where`: the positions as a tensor `[1, n]`."""
        if not self.static:
            return self._ask(hidden, where)
        cos, sin = self._upto(hidden, max(positions) + 1)
        first, n = positions[0], len(positions)
        if positions == list(range(first, first + n)):
            return cos.narrow(1, first, n), sin.narrow(1, first, n)
        return cos[:, where[0]], sin[:, where[0]]

    def _upto(self, hidden: Tensor, length: int) -> tuple[Tensor, Tensor]:
        table = self._table
        if table is None or table[0].shape[1] < length:
            size = -(-length // _STEP) * _STEP
            table = self._table = self._ask(hidden, torch.arange(size, device=hidden.device)[None])
        return table

    def _ask(self, hidden: Tensor, where: Tensor) -> tuple[Tensor, Tensor]:
        cos, sin = self.rope(hidden, where) if self.layer_type is None else self.rope(hidden, where, self.layer_type)
        return cos, sin


def _static(kind: Any) -> bool:
    return isinstance(kind, str) and kind in ("default", "linear", "llama3", "yarn")
