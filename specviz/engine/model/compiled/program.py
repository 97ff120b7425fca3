"""What a network beside the target does to a few rows, in one call of the kernel (`graph_of_type.h`).

A drafter's call is a dozen small products with norms and copies between them, and in Python each of these takes as long
as a product of so few rows. A `GraphBuilder` names the tables of rows that there are and what is done to them, in
order; the `Program` made of it runs for any number of rows. It knows weights by their addresses and holds them: who
makes one sees to it that they are still those of the network.
"""

from collections.abc import Collection, Mapping, Sequence
from ctypes import addressof, byref, c_void_p
from dataclasses import dataclass
from enum import IntEnum

import torch

from specviz.engine.model.compiled.layer import LayerKernel
from specviz.engine.model.compiled.library import (
    KernelAttnIndex,
    KernelBuffer,
    KernelGraph,
    KernelGraphArgs,
    KernelOp,
    functions,
)
from specviz.engine.model.compiled.passes import AttnIndex
from specviz.engine.model.compiled.products import Matrix

Tensor = torch.Tensor
_LANES = 16  # numbers that are moved at once
_MOST = 32  # tables


class Kind(IntEnum):
    """Of what is done, as the source counts them."""

    MATMUL = 0
    RMSNORM = 1
    COPY = 2
    ADD = 3
    SILU = 4
    TO_FLOAT = 5
    LAYER = 6


class RowChoice(IntEnum):
    """Which row of the one table comes to a row of the other: the same; each to as many as a group has; all of them
    again and again; the one before, of a group, and the first itself; the last ones."""

    SAME = 0
    REPEAT = 1
    CYCLE = 2
    PREVIOUS = 3
    LAST = 4


@dataclass(frozen=True, slots=True)
class KVSlots:
    """Where layers file keys and values `[1, heads, slots, dim]`, a pair a layer, from slot `start` on."""

    buffers: Sequence[tuple[Tensor, Tensor]]
    start: int


@dataclass(frozen=True, slots=True)
class RowPositions:
    """Where rows stand: `positions` `[n]`, int64, in the tables of angles `[positions, dim]`, and what they see."""

    positions: Tensor
    angles: tuple[Tensor, Tensor]
    paths: AttnIndex


class GraphBuilder:
    """A program in the making, for numbers of one dtype in main memory. Raises ValueError, here and below, for what the
    kernel does not know, OSError where there is none."""

    def __init__(self, dtype: torch.dtype) -> None:
        if dtype not in functions():
            raise ValueError("no kernel for its numbers")
        self.dtype = dtype
        self._tables: list[KernelBuffer] = []
        self._ops: list[KernelOp] = []
        self._fixed: dict[int, Tensor] = {}  # tables that are always the same
        self._floats: set[int] = set()  # tables of float32
        self._held: list[object] = []
        self._dim = 0
        self._filed: tuple[int, int] = 0, 0

    def table(self, width: int, per_row: int = 1, fixed: int = 0) -> int:
        """A table with `per_row` rows for every one that is counted when the program runs, and `fixed` ones."""
        if width % _LANES or len(self._tables) == _MOST:
            raise ValueError(f"rows that are no multiple of {_LANES} wide, or too many tables")
        self._tables.append(KernelBuffer(width, per_row, fixed))
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
        self._do(Kind.MATMUL, x, y, w=self._keep(matrix.held), bits=4 * packed, int8=packed)

    def norm(self, x: int, y: int, gain: Tensor, eps: float, column: int = 0) -> None:
        """Into table y, from a column on: the rows of x at mean square one, times the gain."""
        if gain.dtype != self.dtype or len(gain) != self.width(x) or gain.device.type != "cpu":
            raise ValueError("a gain of another kind than the rows")
        self._refuse_wide(x, y, column)
        self._do(Kind.RMSNORM, x, y, w=self._keep(gain), eps=eps, column=column)

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
        self._do(Kind.TO_FLOAT, x, y)

    def layer(self, x: int, kernel: LayerKernel, place: int, last: int, read: int | None = None) -> None:
        """Table x through a layer, in place; it files keys and values at `place`. `last`: a table with as many rows as
        are wanted behind it, the last ones of x. `read`: what its attention reads instead of the norm of x."""
        config, weights = kernel.c_structs
        if self.width(x) != config.hidden or (self.width(x if read is None else read) != config.qkv_in):
            raise ValueError("a layer of another width than the rows")
        self._refuse_more(last, x)
        self._dim, self._filed = config.head_dim, kernel.filed
        self._keep(config, weights, kernel)
        known = {"l": addressof(weights), "c": addressof(config)}
        self._do(Kind.LAYER, x, x if read is None else read, cache=place, last=last, **known)

    def build(self) -> "Program":
        program = Program(self.dtype, self._tables, self._ops, self._dim, self._fixed, self._floats, self._held)
        program.filed = self._filed
        return program

    def width(self, table: int) -> int:
        """Numbers of its rows."""
        return int(self._tables[table].width)

    def _refuse_wide(self, x: int, y: int, column: int) -> None:
        if column + self.width(x) > self.width(y):
            raise ValueError("rows that are wider than what they are written to")

    def _refuse_more(self, few: int, many: int) -> None:
        """Of the one table there must never be more rows than of the other."""
        some, all_ = self._tables[few], self._tables[many]
        if some.per_row > all_.per_row or some.per_row + some.fixed > all_.per_row + all_.fixed:
            raise ValueError("more rows than there are to take them from")

    def _keep(self, *held: object) -> int:
        """Hold what the kernel knows by its address; that of a tensor."""
        self._held += held
        return held[0].data_ptr() if isinstance(held[0], Tensor) else 0

    def _do(self, kind: Kind, x: int, y: int, **more: float) -> None:
        self._ops.append(KernelOp(kind=kind, x=x, y=y, **more))


class Program:
    """What was sketched, to be run. `filed`: heads of keys and values, and how wide they are."""

    filed: tuple[int, int] = 0, 0

    def __init__(
        self,
        dtype: torch.dtype,
        tables: Sequence[KernelBuffer],
        ops: Sequence[KernelOp],
        dim: int,
        fixed: Mapping[int, Tensor],
        floats: Collection[int],
        held: Sequence[object],
    ) -> None:
        self._functions = functions()[dtype]
        self._dtypes = [torch.float32 if number in floats else dtype for number in range(len(tables))]
        self._tables, self._ops = (KernelBuffer * len(tables))(*tables), (KernelOp * len(ops))(*ops)
        self._held = [*held, *fixed.values()]
        places = addressof(self._tables), addressof(self._ops)
        self._told = KernelGraph(*places, len(tables), len(ops), dim)
        self._where = [fixed[n].data_ptr() if n in fixed else None for n in range(len(tables))]

    def run(
        self,
        count: int,
        outside: Mapping[int, Tensor],
        filed: KVSlots | None = None,
        standing: RowPositions | None = None,
    ) -> None:
        """Once, with `count` rows; with none nothing is done. `outside`: tables that come from outside or go there,
        contiguous; `filed`, `standing`: where there are layers. Raises ValueError for tables that are not what was
        sketched."""
        where: list[int | None] = [*self._where]
        for number, rows in outside.items():
            sketched = self._tables[number]
            n = (sketched.per_row * count + sketched.fixed) * sketched.width
            is_there = rows.device.type == "cpu" and rows.is_contiguous()
            if rows.numel() != n or rows.dtype != self._dtypes[number] or not is_there:
                raise ValueError(f"table {number} is {rows.dtype} {list(rows.shape)}, not what was sketched")
            where[number] = rows.data_ptr()
        if not count:
            return
        tables = (c_void_p * len(where))(*where)
        args = KernelGraphArgs(count, addressof(tables))
        if filed is not None and standing is not None:
            keys, values = (
                (c_void_p * len(filed.buffers))(*(pair[k].data_ptr() for pair in filed.buffers)) for k in (0, 1)
            )
            _, _, slots, dim = filed.buffers[0][0].shape
            paths: KernelAttnIndex = standing.paths.for_kernel(filed.start, slots * dim, 0)
            args.keys, args.values, args.index = addressof(keys), addressof(values), addressof(paths)
            args.cos, args.sin = (angle.data_ptr() for angle in standing.angles)
            args.positions = standing.positions.data_ptr()
        threads = torch.get_num_threads()
        room = self._functions.graph_bytes(byref(self._told), byref(args), threads)
        space = torch.empty(room, dtype=torch.uint8, device="cpu")
        self._functions.run_graph(byref(self._told), byref(args), space.data_ptr(), threads)
