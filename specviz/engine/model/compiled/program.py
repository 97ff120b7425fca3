"""What a network beside the target does to a few rows, in one call of the kernel (`programs_of_type.h`).

A drafter's call is a dozen small products with norms and copies between them, and in Python each of these takes as long
as a product of so few rows. A `Sketch` names the tables of rows that there are and what is done to them, in order; the
`Program` made of it runs for any number of rows. It knows weights by their addresses and holds them: who makes one sees
to it that they are still those of the network.
"""

from collections.abc import Collection, Mapping, Sequence
from ctypes import addressof, byref, c_void_p
from dataclasses import dataclass
from enum import IntEnum

import torch

from specviz.engine.model.compiled.layer import LayerKernel
from specviz.engine.model.compiled.library import (
    KernelDeed,
    KernelOccasion,
    KernelPaths,
    KernelProgram,
    KernelTable,
    functions,
)
from specviz.engine.model.compiled.passes import RowPaths
from specviz.engine.model.compiled.products import Matrix

Tensor = torch.Tensor
_LANES = 16  # numbers that are moved at once
_MOST = 32  # tables


class Kind(IntEnum):
    """Of what is done, as the source counts them."""

    PRODUCT = 0
    NORM = 1
    COPY = 2
    ADD = 3
    SILU = 4
    WIDEN = 5
    LAYER = 6


class RowChoice(IntEnum):
    """Which row of the one table comes to a row of the other: the same; each to as many as a group has; all of them
    again and again; the one before, of a group, and the first itself; the last ones."""

    SAME = 0
    SPREAD = 1
    CYCLE = 2
    BEFORE = 3
    LAST = 4


@dataclass(frozen=True, slots=True)
class FiledRows:
    """Where layers file keys and values `[1, heads, slots, dim]`, a pair a layer, from slot `start` on."""

    buffers: Sequence[tuple[Tensor, Tensor]]
    start: int


@dataclass(frozen=True, slots=True)
class Standing:
    """Where rows stand: `positions` `[n]`, int64, in the tables of angles `[positions, dim]`, and what they see."""

    positions: Tensor
    angles: tuple[Tensor, Tensor]
    paths: RowPaths


class Sketch:
    """A program in the making, for numbers of one dtype in main memory. Raises ValueError, here and below, for what the
    kernel does not know, OSError where there is none."""

    def __init__(self, dtype: torch.dtype) -> None:
        if dtype not in functions():
            raise ValueError("no kernel for its numbers")
        self.dtype = dtype
        self._tables: list[KernelTable] = []
        self._deeds: list[KernelDeed] = []
        self._fixed: dict[int, Tensor] = {}  # tables that are always the same
        self._floats: set[int] = set()  # tables of float32
        self._held: list[object] = []
        self._dim = 0
        self._filed: tuple[int, int] = 0, 0

    def table(self, width: int, each: int = 1, fixed: int = 0) -> int:
        """A table with `each` rows for every one that is counted when the program runs, and `fixed` ones."""
        if width % _LANES or len(self._tables) == _MOST:
            raise ValueError(f"rows that are no multiple of {_LANES} wide, or too many tables")
        self._tables.append(KernelTable(width, each, fixed))
        return len(self._tables) - 1

    def always(self, rows: Tensor) -> int:
        """A table of these rows `[n, width]`."""
        number = self.table(rows.shape[1], 0, len(rows))
        self._fixed[number] = rows.to("cpu", self.dtype).contiguous()
        return number

    def product(self, x: int, y: int, matrix: Matrix) -> None:
        """Table y: the rows of x times a matrix."""
        if (self.width(x), self.width(y)) != (matrix.n_in, matrix.n_out):
            raise ValueError("a matrix of another size than the tables")
        if matrix.bits == 0 and matrix.held.dtype != self.dtype:
            raise ValueError("a matrix of other numbers than the tables")
        packed = int(matrix.bits == 4)
        self._do(Kind.PRODUCT, x, y, w=self._keep(matrix.held), bits=4 * packed, eighths=packed)

    def norm(self, x: int, y: int, gain: Tensor, eps: float, column: int = 0) -> None:
        """Into table y, from a column on: the rows of x at mean square one, times the gain."""
        if gain.dtype != self.dtype or len(gain) != self.width(x) or gain.device.type != "cpu":
            raise ValueError("a gain of another kind than the rows")
        self._refuse_wide(x, y, column)
        self._do(Kind.NORM, x, y, w=self._keep(gain), eps=eps, column=column)

    def copy(self, x: int, y: int, rows: RowChoice = RowChoice.SAME, group: int = 1, column: int = 0) -> None:
        """Into table y, from a column on: rows of x."""
        self._refuse_wide(x, y, column)
        if rows is RowChoice.LAST:
            self._refuse_more(y, x)
        self._do(Kind.COPY, x, y, map=rows, group=group, column=column)

    def add(self, x: int, y: int, rows: RowChoice = RowChoice.SAME) -> None:
        """On top of table y: rows of x."""
        self._refuse_wide(x, y, 0)
        self._do(Kind.ADD, x, y, map=rows)

    def silu(self, x: int) -> None:
        """`silu` of a table, in place."""
        self._do(Kind.SILU, x, x)

    def widen(self, x: int, y: int) -> None:
        """Table x in float32, in the memory that is given for y."""
        self._refuse_wide(x, y, 0)
        self._floats.add(y)
        self._do(Kind.WIDEN, x, y)

    def layer(self, x: int, kernel: LayerKernel, place: int, last: int, read: int | None = None) -> None:
        """Table x through a layer, in place; it files keys and values at `place`. `last`: a table with as many rows as
        are wanted behind it, the last ones of x. `read`: what its attention reads instead of the norm of x."""
        shape, weights = kernel.told
        if self.width(x) != shape.width or (self.width(x if read is None else read) != shape.reads):
            raise ValueError("a layer of another width than the rows")
        self._refuse_more(last, x)
        self._dim, self._filed = shape.dim, kernel.filed
        self._keep(shape, weights, kernel)
        known = {"l": addressof(weights), "s": addressof(shape)}
        self._do(Kind.LAYER, x, x if read is None else read, place=place, last=last, **known)

    def made(self) -> "Program":
        made = Program(self.dtype, self._tables, self._deeds, self._dim, self._fixed, self._floats, self._held)
        made.filed = self._filed
        return made

    def width(self, table: int) -> int:
        """Numbers of its rows."""
        return int(self._tables[table].width)

    def _refuse_wide(self, x: int, y: int, column: int) -> None:
        if column + self.width(x) > self.width(y):
            raise ValueError("rows that are wider than what they are written to")

    def _refuse_more(self, few: int, many: int) -> None:
        """Of the one table there must never be more rows than of the other."""
        some, all_ = self._tables[few], self._tables[many]
        if some.each > all_.each or some.each + some.fixed > all_.each + all_.fixed:
            raise ValueError("more rows than there are to take them from")

    def _keep(self, *held: object) -> int:
        """Hold what the kernel knows by its address; that of a tensor."""
        self._held += held
        return held[0].data_ptr() if isinstance(held[0], Tensor) else 0

    def _do(self, kind: Kind, x: int, y: int, **more: float) -> None:
        self._deeds.append(KernelDeed(kind=kind, x=x, y=y, **more))


class Program:
    """What was sketched, to be run. `filed`: heads of keys and values, and how wide they are."""

    filed: tuple[int, int] = 0, 0

    def __init__(
        self,
        dtype: torch.dtype,
        tables: Sequence[KernelTable],
        deeds: Sequence[KernelDeed],
        dim: int,
        fixed: Mapping[int, Tensor],
        floats: Collection[int],
        held: Sequence[object],
    ) -> None:
        self._functions = functions()[dtype]
        self._dtypes = [torch.float32 if number in floats else dtype for number in range(len(tables))]
        self._tables, self._deeds = (KernelTable * len(tables))(*tables), (KernelDeed * len(deeds))(*deeds)
        self._held = [*held, *fixed.values()]
        places = addressof(self._tables), addressof(self._deeds)
        self._told = KernelProgram(*places, len(tables), len(deeds), dim)
        self._where = [fixed[n].data_ptr() if n in fixed else None for n in range(len(tables))]

    def run(
        self, count: int, given: Mapping[int, Tensor], filed: FiledRows | None = None, standing: Standing | None = None
    ) -> None:
        """Once, with `count` rows; with none nothing is done. `given`: tables that come from outside or go there,
        contiguous; `filed`, `standing`: where there are layers. Raises ValueError for tables that are not what was
        sketched."""
        where: list[int | None] = [*self._where]
        for number, rows in given.items():
            sketched = self._tables[number]
            n = (sketched.each * count + sketched.fixed) * sketched.width
            is_there = rows.device.type == "cpu" and rows.is_contiguous()
            if rows.numel() != n or rows.dtype != self._dtypes[number] or not is_there:
                raise ValueError(f"table {number} is {rows.dtype} {list(rows.shape)}, not what was sketched")
            where[number] = rows.data_ptr()
        if not count:
            return
        tables = (c_void_p * len(where))(*where)
        occasion = KernelOccasion(count, addressof(tables))
        if filed is not None and standing is not None:
            keys, values = (
                (c_void_p * len(filed.buffers))(*(pair[k].data_ptr() for pair in filed.buffers)) for k in (0, 1)
            )
            _, _, slots, dim = filed.buffers[0][0].shape
            paths: KernelPaths = standing.paths.told(filed.start, slots * dim, 0)
            occasion.keys, occasion.values, occasion.p = addressof(keys), addressof(values), addressof(paths)
            occasion.cos, occasion.sin = (each.data_ptr() for each in standing.angles)
            occasion.positions = standing.positions.data_ptr()
        threads = torch.get_num_threads()
        room = self._functions.performing(byref(self._told), byref(occasion), threads)
        space = torch.empty(room, dtype=torch.uint8, device="cpu")
        self._functions.perform(byref(self._told), byref(occasion), space.data_ptr(), threads)
