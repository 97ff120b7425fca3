"""Inputs of a recorded pass as tensors of fixed shape, and the masks that the recording computes from them.

The host knows which slots each row sees: the committed slots, then a tail of slots in flight. It writes that into a few
small tensors. Masks, and the slot-to-position map that exact rows need, are computed inside the recording, with shapes
that depend only on the sizes: no operation there reads a value back to the host.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from specviz.engine.model.exact.plan import FAR, LANES, LONG, BatchWidths, KeyPiece, RowOrder, RowPlan, line_of
from specviz.engine.model.host import to_device

Tensor = torch.Tensor

_ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
_TAIL = 32  # slots in flight: room for so many, or twice as many, and so on
_TAILS = 3  # pieces that a path of at most FAR tokens may lie in, behind the line


@dataclass(frozen=True, slots=True)
class PassSizes:
    """The sizes of a recording. Rows are padded ones included.

    `long`: pieces of committed keys that every row adds up `LONG` at a time; 0 where rows need not be exact.
    """

    rows: int
    wide: int  # slots that are read; the last is always masked
    tail: int  # slots in flight
    long: int = 0

    @classmethod
    def of(cls, n: int, kv: int, line: int, first: int, widths: BatchWidths | None) -> "PassSizes":
        """The smallest that hold `n` rows from position `first` over `kv` slots, `line` of them committed in order."""
        rows = next((size for size in _ROWS if size >= n), n)
        tail = next(_TAIL << shift for shift in range(40) if _TAIL << shift >= kv - line)
        if widths is None:
            return cls(rows, _doubled(kv + rows + 1, 256), tail)
        rows += widths.padding(rows)
        long_piece = LONG * widths.piece
        long = max(0, first - FAR) // long_piece
        return cls(rows, long * long_piece + _doubled(kv + rows + 1 - long * long_piece, long_piece), tail, long)


def _doubled(n: int, step: int) -> int:
    """The smallest of `step`, `2 step`, `3 step`, `4 step`, `6 step`, `8 step`, .. that is not less than n."""
    sizes = (step * k << shift for shift in range(40) for k in (2, 3))
    return step if n <= step else next(size for size in sizes if size >= n)


class RowInputs:
    """The tensors of one recording. `fill` writes a pass into them; `masks` is what its layers are told.

    `trash`: a slot that rows of padding write to.
    """

    def __init__(self, sizes: PassSizes, like: Tensor, widths: BatchWidths | None, groups: int, trash: int) -> None:
        self.sizes, self.like, self.widths, self.groups, self.trash = sizes, like, widths, groups, trash
        device = like.device
        n, tail, longest = sizes.rows, sizes.tail, widths.longest if widths else 1

        def ints(*shape: int) -> Tensor:
            return torch.zeros(shape, dtype=torch.int64, device=device)

        self.positions = ints(1, n)
        self.lines = ints(n)  # slots below are seen: of the committed line, and of a line in flight
        self.base = ints(1)  # where the tail begins
        self.tail_at = ints(tail)  # position of each slot of the tail
        self.seen = torch.zeros((n, tail), dtype=torch.bool, device=device)
        self.far = ints(n)  # keys below are added up `LONG` pieces at a time
        self.write = ints(n)  # slots that the rows' own keys go to
        self.columns = ints(_TAILS, longest)  # slots of the pieces behind the line
        self.mine = torch.zeros((_TAILS, longest), dtype=torch.bool, device=device)

    def fill(self, positions: Sequence[int], visible: Any, own: Any, start: int) -> None:
        """A pass of rows at `positions` that see `visible` `[n, kv]` of slots at positions `own` `[kv]`.

        `start`: the slot that the first row's keys go to. Raises ValueError for a tree that no recording holds.
        """
        sizes, (n, kv) = self.sizes, visible.shape
        where, at = np.asarray(positions, np.int64), np.asarray(own, np.int64)
        line = line_of(visible, where, at)
        rest = sizes.rows - n
        behind = positions[-1] + 1
        self._copy(self.positions, np.concatenate([where, np.arange(behind, behind + rest)])[None])
        self._copy(self.lines, np.concatenate([np.minimum(line, where + 1), np.ones(rest, np.int64)]))
        self._copy(self.base, np.array([line]))
        self._copy(self.tail_at, _padded(at[line:], sizes.tail, 0))
        seen = np.zeros((sizes.rows, sizes.tail), np.bool_)
        seen[:n, : kv - line] = visible[:, line:]
        self._copy(self.seen, seen)
        self._copy(self.write, np.concatenate([np.arange(start, start + n), np.full(rest, self.trash)]))
        if self.widths is None:
            return
        long_piece = LONG * self.widths.piece
        far = np.full(sizes.rows, max(0, positions[0] - FAR) // long_piece * long_piece)
        far[:n] = (where - FAR).clip(0) // long_piece * long_piece
        if int(far.min()) < sizes.long * long_piece or int(far.max()) > (sizes.long + 1) * long_piece:
            raise ValueError("rows too far apart")
        self._copy(self.far, far)
        columns, mine = self._tails(self.widths, visible, at, line, int(where.max()))
        self._copy(self.columns, columns)
        self._copy(self.mine, mine)

    def _copy(self, to: Tensor, values: Any) -> None:
        to.copy_(to_device(np.ascontiguousarray(values), to.device), non_blocking=True)

    def _tails(self, widths: BatchWidths, visible: Any, at: Any, line: int, last: int) -> tuple[Any, Any]:
        """Slots and shares of the pieces that reach behind the line: of each, those that `exact.plan` would name."""
        wide, kv = self.sizes.wide, visible.shape[1]
        columns = np.full((_TAILS, widths.longest), wide - 1)
        mine = np.zeros((_TAILS, widths.longest), np.bool_)
        if line > int(at.max()):
            return columns, mine
        pieces = range(line // widths.piece, last // widths.piece + 1)
        if len(pieces) > _TAILS:
            raise ValueError("a path too long")
        for k, piece in enumerate(pieces):
            lo = piece * widths.piece
            start = lo if lo <= line else line // LANES * LANES
            slots = np.arange(start, kv)
            if len(slots) > widths.longest:
                slots = start + np.flatnonzero(visible[:, start:].any(0))
            if len(slots) > widths.longest:
                raise ValueError("slots too far apart")
            columns[k, : len(slots)] = slots
            mine[k, : len(slots)] = at[slots] // widths.piece == piece
        return columns, mine

    def masks(self, windows: dict[str, int | None]) -> dict[str, Tensor | RowPlan | None]:
        """By layer type, its window if it has one; for use inside a recording."""
        wide, tail = self.sizes.wide, self.sizes.tail
        slot = torch.arange(wide, device=self.like.device)
        of_tail = (slot - self.base).clamp(0, tail - 1)
        in_tail = slot >= self.base  # slots beyond the tail are masked
        seen = self.seen.index_select(1, of_tail) & (slot - self.base < tail)
        seen = torch.where(in_tail, seen, slot < self.lines[:, None])
        at = torch.where(in_tail, self.tail_at.index_select(0, of_tail), slot)
        order = None if self.widths is None else self._order(self.widths, slot, in_tail, seen, at)
        out: dict[str, Tensor | RowPlan | None] = {}
        for kind, window in windows.items():
            reached = seen if window is None else seen & (self.positions[0][:, None] - at < window)
            # A padding row attends to slot 0, so that its softmax is defined; its result is not read.
            reached = reached | (~reached.any(1, keepdim=True) & (slot == 0))
            if order is None:
                out[kind] = reached.repeat(self.groups, 1)[None, None]
            else:
                bias = torch.where(reached, 0.0, -torch.inf).to(self.like.dtype)
                out[kind] = RowPlan(order, bias.repeat(self.groups, 1)[None])
        return out

    def _order(self, widths: BatchWidths, slot: Tensor, in_tail: Tensor, seen: Tensor, at: Tensor) -> RowOrder:
        """In which order rows add up, as `exact.plan.order_of` would say it of the same rows."""
        sizes = self.sizes
        last, groups = sizes.wide - 1, self.groups
        # From places to slots: those of the line are their own; a row's tail goes to the positions of its tokens, and
        # what has no counterpart to the last slot, which is masked.
        blank = torch.where(in_tail, last, slot).expand(sizes.rows, -1)
        own = self.base + torch.arange(sizes.tail, device=slot.device)
        index = torch.where(self.seen, self.tail_at, last)
        places = blank.scatter(1, index, torch.where(self.seen, own, last))
        slots = torch.where(in_tail, torch.where(seen, at, last), slot)
        rows = self.far[:, None].repeat(groups, 1)[None]  # [1, groups * rows, 1]
        pieces: list[KeyPiece] = []
        long_piece = LONG * widths.piece
        pieces += [KeyPiece(lo, lo + long_piece) for lo in range(0, sizes.long * long_piece, long_piece)]
        edge = sizes.long * long_piece
        pieces.append(KeyPiece(edge, min(edge + long_piece, sizes.wide), None, (rows > edge).to(self.like.dtype)))
        whole = self.base // widths.piece  # pieces that lie in the line as a whole
        whole = torch.where(self.base > at.masked_fill(~in_tail, 0).amax(), sizes.wide, whole)
        for lo in range(edge, sizes.wide, widths.piece):
            keep = ((rows <= lo) & (lo // widths.piece < whole)).to(self.like.dtype)
            pieces.append(KeyPiece(lo, min(lo + widths.piece, sizes.wide), None, keep))
        for k in range(_TAILS):
            pieces.append(KeyPiece(0, sizes.wide, self.columns[k], self.mine[k].to(self.like.dtype)[None, None]))
        return RowOrder(
            sizes.rows,
            sizes.wide,
            groups,
            self.like,
            tuple(pieces),
            0,
            places.repeat(groups, 1)[None],
            slots.repeat(groups, 1)[None],
        )


def _padded(values: Any, n: int, fill: int) -> Any:
    return np.concatenate([values, np.full(n - len(values), fill)])
