"""The attention index of exact passes: which keys each row sees, and in which order they are summed.

Plain decoding sums over the tokens of a text by position. A row of a tree sees only its own path, whose tokens lie in
slots between those of other branches. Three rules make it compute the same bits as plain decoding:

* the softmax is taken over scores sorted by position, since its sum depends on the order; then they are sorted back;
* a weight of zero leaves a running sum unchanged, so slots of other branches within a path do no harm;
* a matrix product splits long sums into pieces, so they are split here, always at the same positions.

Whether the matrix products of this machine behave like that is measured by `exact.proof`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from specviz.engine.model.host import to_device

Tensor = torch.Tensor

LANES = 32  # widths are multiples: vector code treats the rest of a row otherwise
_VECTORS, _GRAIN = 64, 32768  # numbers that a step of vector code takes, and from which torch wakes another thread
_FURTHEST = 32  # most rows that are added
SPARE = 3 * LANES  # slots beyond a cache's capacity that padded rows and rounded widths may reach
FAR = 96  # longest path of a tree: tokens further back are committed in every pass
LONG = 4  # pieces that are added up in one go there


@dataclass(frozen=True, slots=True)
class BatchWidths:
    """How many rows a pass must have and may have so that no row depends on the others.

    `step`: their number is a multiple of it. `inner`: numbers of a row that go through an activation, all rows in one
    line: what of them is left behind the last whole vector of a thread is rounded otherwise, so nothing is left.
    `piece`: so many keys are added up in one go; `longest`: slots over which they may be strewn.
    """

    least: int
    step: int = 1
    most: int = 256
    piece: int = 96
    longest: int = 192

    inner: int = 0
    threads: int = 1

    def padding(self, n: int) -> int:
        """Rows that are added to `n`."""
        first = max(self.least, n)
        return next((m for m in range(first, first + _FURTHEST) if self._is_whole(m)), first) - n

    def _is_whole(self, n: int) -> bool:
        threads = min(self.threads, max(1, -(-n * self.inner // _GRAIN)))
        return n % self.step == 0 and n * self.inner % (_VECTORS * threads) == 0


@dataclass(frozen=True, slots=True)
class KeyPiece:
    """Slots that are added up in one go: `lo..hi`, or `columns` where there are some.

    `keep`, to be spread over `[heads, groups * rows, slots]`: 0 for what belongs to other pieces; None: all of it is.
    """

    lo: int
    hi: int
    columns: Tensor | None = None
    keep: Tensor | None = None


@dataclass(frozen=True, slots=True)
class RowPlan:
    """Stands for the mask of a pass. Rows are padded ones included, heads of a group behind one another."""

    order: "RowOrder"
    bias: Tensor  # [1, groups * rows, wide]: 0 where a row sees a slot, -inf elsewhere; the last column always -inf


@dataclass(frozen=True, slots=True)
class RowOrder:
    """In which order rows add up what they see; the same in all layers."""

    rows: int  # padded ones included
    wide: int  # slots that are read, a multiple of `LANES`
    groups: int
    like: Tensor  # of the dtype of sums, on their device
    pieces: tuple[KeyPiece, ...]
    base: int  # slots below hold the token of their position, for every row
    places: Tensor | None = None  # [1, groups * rows, wide - base]: the slot (from base) of each position
    slots: Tensor | None = None  # the way back: the position of each slot, the last column for what is not seen

    def seeing(self, visible: Any) -> RowPlan:
        """The plan of rows that see the slots `visible` `[n, kv]`: all of their path, or what a window shows of it."""
        n, kv = visible.shape
        bias = np.full((self.rows, self.wide), -np.inf, np.float32)
        bias[:n, :kv][visible] = 0
        bias[n:, 0] = 0  # a row of padding sees the first slot: no sum is empty
        return RowPlan(self, to_device(bias, self.like.device, self.like.dtype).repeat(self.groups, 1)[None])


def together(visible: Any, positions: Sequence[int], own: Any, widths: BatchWidths) -> int:
    """How many of the rows, from the first, may go through at once; arguments as in `order_of`."""
    n = min(len(positions), widths.most)
    while n > 1:
        end = len(own) - len(positions) + n
        seen, at = visible[:n, :end], np.asarray(own)[:end]
        base = line_of(seen, np.asarray(positions)[:n], at)
        if base == end or base % widths.piece + int(seen[:, base:].any(0).sum()) <= widths.longest - LANES:
            break
        n = (n + 1) // 2
    return n


def order_of(
    visible: Any, positions: Sequence[int], own: Any, padding: int, groups: int, widths: BatchWidths, like: Tensor
) -> RowOrder:
    """The order of rows at `positions` whose paths are the slots `visible` `[n, kv]`; `own` `[kv]`: their positions.

    `padding`: rows to be added. `like`: a tensor of the dtype that sums are taken in, where they are.
    """
    n, kv = visible.shape
    rows, wide = n + padding, -(-(kv + padding + 1) // LANES) * LANES
    where, at = np.asarray(positions), np.full(wide, -1)
    at[:kv] = own
    base = line_of(visible, where, at[:kv])
    long = LONG * widths.piece
    far = np.full(rows, max(0, positions[0] - FAR) // long * long)
    far[:n] = (where - FAR).clip(0) // long * long
    builder = _Pieces(at, base, wide, groups, widths, like)
    for lo in range(0, int(far.max()), long):
        builder.add(lo, long, far > lo)
    for lo in range(int(far.min()), int(where.max()) + 1, widths.piece):
        builder.add(lo, widths.piece, far <= lo, visible)
    if base == kv:
        return RowOrder(rows, wide, groups, like, tuple(builder.pieces), base)
    ways = _ways(visible[:, base:], at[base:kv] - base, padding, wide - base)
    places, slots = (to_device(way, like.device).repeat(groups, 1)[None] for way in ways)
    return RowOrder(rows, wide, groups, like, tuple(builder.pieces), base, places, slots)


@dataclass(slots=True)
class _Pieces:
    """The pieces of a pass. `at` `[wide]`: positions of the slots, -1 beyond them."""

    at: Any
    base: int
    wide: int
    groups: int
    widths: BatchWidths
    like: Tensor
    pieces: list[KeyPiece] = field(default_factory=list)

    def add(self, lo: int, size: int, rows: Any, visible: Any = None) -> None:
        """The keys at positions `lo..lo + size`, for some rows `[rows]`."""
        keep = (
            None
            if rows.all()
            else to_device(rows, self.like.device, self.like.dtype).repeat(self.groups)[None, :, None]
        )
        is_line = self.base > int(self.at.max()) or lo + size <= self.base
        if is_line:
            self.pieces.append(KeyPiece(lo, min(lo + size, self.wide), None, keep))
            return
        start, columns = (lo if lo <= self.base else self.base // LANES * LANES), None
        slots = np.arange(start, self.wide)
        if self.wide - start > self.widths.longest:
            slots = self._seen(start, visible)
            columns = to_device(slots, self.like.device)
        mine = (self.at[slots] // size == lo // size) | (self.at[slots] < 0)
        if not mine.all():
            share = to_device(mine, self.like.device, self.like.dtype)[None, None]
            keep = share if keep is None else keep * share
        self.pieces.append(KeyPiece(start, self.wide, columns, keep))

    def _seen(self, start: int, visible: Any) -> Any:
        """The slots from `start` on that any row sees, filled up to whole lanes with the last, which none does."""
        some = start + np.flatnonzero(visible[:, start:].any(0))
        return np.concatenate([some, np.full(-len(some) % LANES, self.wide - 1)])


def line_of(visible: Any, positions: Any, own: Any) -> int:
    """How many leading slots hold the token of their position and are seen by all rows from there on."""
    where = np.arange(len(own))
    plain = (own == where) & (visible == (where <= positions[:, None])).all(0)
    return len(own) if plain.all() else int(plain.argmin())


def _ways(visible: Any, at: Any, padding: int, width: int) -> tuple[Any, Any]:
    """From places to slots and back, `[rows, width]`; what has no counterpart points to the last, which is masked."""
    n = len(visible)
    places = np.full((n + padding, width), width - 1)
    slots = places.copy()
    places[n:, 0] = slots[n:, 0] = 0  # a row of padding sees the first slot, or it would not be a number
    row, slot = visible.nonzero()
    places[row, at[slot]] = slot
    slots[row, slot] = at[slot]
    return places, slots
