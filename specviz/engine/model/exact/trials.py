"""What rows of a pass may round by, tried on random numbers of a model's shapes: its matrix products and its attention.

Both are compared before anything is rounded to 16 bits, where another order of a sum shows once in some 20,000 numbers.
"""

from collections.abc import Iterable
from copy import copy
from dataclasses import replace
from itertools import product
from random import Random
from typing import Any

import numpy as np
import torch
from torch import nn
from transformers.pytorch_utils import Conv1D

from specviz.engine.model.adapter import ModelAdapter
from specviz.engine.model.backend import Backend
from specviz.engine.model.compiled.passes import KernelBackend
from specviz.engine.model.exact.attention import exact_attention
from specviz.engine.model.exact.plan import FAR, LANES, LONG, SPARE, BatchWidths, order_of
from specviz.engine.model.layers.direct_layer import Dense, direct_layers
from specviz.engine.model.layers.hooked import unhooked

Tensor = torch.Tensor

WIDE = 250  # rows of the widest pass that is tried
_HEIGHTS = (*range(1, 20), 24, 32, 33, 40, 48, 64, 65, 100, 128, 200, WIDE, 256)  # rows that products are tried with
_FEW = (1, 2, 3, 5, 8, 9, 16, 17, 33)  # and one of so many weights, a head's
_LARGE = 10_000_000
_ROWS = 7  # other ones; so many, and odd, that each is met at every place of what a product takes at once
_DEPTHS = (WIDE, 64, 33, 9, 4, 1)  # rows of a line, and of a path in a tree, that attention is tried with
_DEEP = 2048  # the position behind which it is tried last
_SAMPLE = 8  # rows of a pass that are held against lone ones


class Products:
    """The matrix products of a model's shapes, and which numbers of rows they add up in one order.

    Their sums cancel: what is left is the rounding on the way, and shows every other order.
    """

    def __init__(self, adapter: ModelAdapter) -> None:
        modules = [_Product(dense) for dense in _joined(adapter.backend)]
        if not isinstance(adapter.backend, KernelBackend):
            modules += [*adapter.layers[0].modules(), adapter.head]
        by_shape = {_shape(module): module for module in modules if isinstance(module, nn.Linear | Conv1D)}
        self._cancelling = [_cancelling(adapter, module) for module in by_shape.values()]
        self._results: dict[tuple[int, int], Tensor] = {}

    def hold(self, widths: BatchWidths) -> bool:
        """Whether all do for the numbers of rows of such passes, `most` included."""
        for k, (module, _) in enumerate(self._cancelling):
            heights, most = _FEW if module.weight.numel() > _LARGE else _HEIGHTS, min(widths.most, _HEIGHTS[-1])
            padded = sorted({n + widths.padding(n) for n in (*heights, most) if n <= most})
            wanted = self._result(k, padded[-1])
            for n in padded:
                rows = self._result(k, n)
                if not torch.equal(rows, wanted[: len(rows)]):
                    return False
        return True

    def _result(self, k: int, n: int) -> Tensor:
        """The rows `[n or _ROWS, n_out]` of a product of `n` rows; none where equal rows differ by their place."""
        if (k, n) not in self._results:
            module, rows = self._cancelling[k]
            out = module(rows[None, torch.arange(n) % _ROWS])[0]
            first = out[:_ROWS]
            same = torch.equal(out, first[torch.arange(n) % _ROWS])
            self._results[k, n] = first.clone() if same else torch.full_like(first, torch.nan)
        return self._results[k, n]


class _Product(nn.Linear):
    """A product that is no module, as one."""

    def __init__(self, dense: Dense) -> None:
        super().__init__(1, 1, device="meta")
        self.multiply = dense.multiply
        self._parameters = {
            "weight": nn.Parameter(dense.weight, False),
            "bias": None if dense.bias is None else nn.Parameter(dense.bias, False),
        }

    def forward(self, rows: Tensor) -> Tensor:
        return self.multiply(rows, self.weight, self.bias)


def _joined(backend: Backend) -> list[Dense]:
    """The products of a layer that no module of the library makes so, and the head where it is the kernel's."""
    dense = [product for layer in direct_layers(backend.plain)[:1] for product in layer.dense]
    if isinstance(backend, KernelBackend):
        dense = [*(replace(product, multiply=backend.head.multiply) for product in dense), backend.head]
    return dense


def _shape(module: Any) -> tuple[type, int, int]:
    return (type(module), *module.weight.shape)


def _cancelling(adapter: ModelAdapter, module: Any) -> tuple[Any, Tensor]:
    """The module with weights, and rows `[_ROWS, n_in]`, whose products are sums that cancel."""
    turned = isinstance(module, Conv1D)  # its weights lie the other way round
    n_out, n_in = module.weight.shape[::-1] if turned else module.weight.shape
    noise, half = torch.Generator().manual_seed(0), n_in // 2
    order = torch.randperm(half, generator=noise)
    tile, rows = torch.randn(min(n_out, 256), n_in, generator=noise), torch.randn(_ROWS, n_in, generator=noise)
    tile[:, half : 2 * half], rows[:, half : 2 * half] = -tile[:, order], rows[:, order]
    tile[:, 2 * half :] = 0
    like = {"dtype": module.weight.dtype, "device": adapter.device}  # an offloaded weight is on no device
    weight = tile.repeat(-(-n_out // len(tile)), 1)[:n_out].to(**like)
    twin = unhooked(copy(module))
    twin._parameters = {"weight": nn.Parameter(weight.t().contiguous() if turned else weight, requires_grad=False)}
    twin._parameters["bias"] = None if module.bias is None else nn.Parameter(torch.zeros(n_out, **like), False)
    return twin, rows.to(**like)


class Attention:
    """The attention of a model over random queries, keys and values of one text, `[1, heads, n, D]`."""

    def __init__(self, adapter: ModelAdapter, widths: BatchWidths) -> None:
        noise, shared = torch.Generator().manual_seed(0), adapter.kv_heads
        self.groups, self.sums, self.widths = adapter.groups, adapter.sums, widths
        self.softcap = getattr(adapter.config, "attn_logit_softcapping", None)
        self.deep = min(adapter.context, _DEEP) - 1
        n = max(self.deep, LONG * widths.piece + FAR + 2) + 1 + widths.longest + SPARE
        self.query, self.key, self.value = (
            torch.randn(1, heads, n, adapter.head_dim, generator=noise).to(self.sums)
            for heads in (shared * self.groups, shared, shared)
        )
        self._alone: dict[int, Tensor] = {}

    def lines_hold(self) -> bool:
        """Whether rows of a line give what each gives alone, however many there are, at any length."""
        met = ((last - n + 1, last) for n, last in self._met(self.widths.most))
        return all(self._alike(self._line(first, last), first) for first, last in met)

    def paths_hold(self) -> bool:
        """Whether so do the rows of a path in a tree, between slots of others that go through with them or before."""
        rng, widths = Random(0), self.widths
        if not self._sums_hold(rng):
            return False
        for n, last in self._met(min(widths.most, widths.longest - LANES)):
            first = last - n + 1
            room = widths.longest - LANES - first % widths.piece  # a tree may be larger than a pass
            slots = rng.randrange(min(n, room), room + 1) if last % 2 else room
            for all_at_once, n_slots in ((False, slots), (True, min(slots, widths.most))):
                if not self._alike(self._path(first, min(n, n_slots), n_slots, rng, all_at_once), first):
                    return False
        return True

    def _sums_hold(self, rng: Random) -> bool:
        """Whether the keys of a piece are added up in one order, whatever slots lie between, in passes of any number of
        rows. The sums cancel, as those of `Products`: a draw of queries and keys shows another order once in 30."""
        widths, noise = self.widths, torch.Generator().manual_seed(1)
        shared, dim = self.key.shape[1], self.key.shape[3]
        heights = sorted({n + widths.padding(n) for n in _HEIGHTS if n <= widths.most})
        for n_keys in (widths.piece, widths.piece * 3 // 4):
            half = n_keys // 2
            weights = torch.rand(shared, self.groups, _ROWS, n_keys, generator=noise).to(self.sums)
            values = torch.randn(shared, n_keys, dim, generator=noise).to(self.sums)
            order = torch.randperm(half, generator=noise)
            weights[..., half : 2 * half], values[:, half : 2 * half] = weights[..., order], -values[:, order]
            line = -(-n_keys // LANES) * LANES
            wanted: Tensor | None = None
            for wide, n in product(range(line, widths.longest + 1, LANES), heights):
                columns = range(n_keys) if wide == line else sorted(rng.sample(range(wide), n_keys))
                rows, slots = torch.arange(n) % _ROWS, torch.tensor(columns)
                spread = weights.new_zeros(shared, self.groups, n, wide).index_copy_(3, slots, weights[:, :, rows])
                full = self.value[0, :, :wide].index_copy(1, slots, values)
                mixed = torch.bmm(spread.flatten(1, 2), full).view(shared, self.groups, n, dim)
                wanted = (
                    mixed[:, :, :1] if wanted is None else wanted
                )  # of plain decoding: the first of the fewest rows
                if not torch.equal(mixed[:, :, ::_ROWS], wanted.expand_as(mixed[:, :, ::_ROWS])):
                    return False
        return True

    def _alike(self, rows: Tensor, first: int) -> bool:
        """Whether some of the rows from position `first` on, the outermost among them, are those of plain decoding."""
        last = len(rows) - 1
        some = {last * k // (_SAMPLE - 1) for k in range(_SAMPLE)}
        return all(torch.equal(rows[k], self._row(first + k)) for k in some)

    def _met(self, most: int) -> Iterable[tuple[int, int]]:
        """Numbers of rows, and the position of the last."""
        piece, long = self.widths.piece, LONG * self.widths.piece
        lasts = (3, 24, 40, piece - 30, piece - 2, piece + 5, 3 * piece + 9, long + FAR - 4, long + FAR + 2, self.deep)
        return dict.fromkeys((min(depth, most, last + 1), last) for depth in _DEPTHS for last in lasts)

    def _row(self, position: int) -> Tensor:
        """What the row at a position gives in plain decoding, `[heads, D]`."""
        if position not in self._alone:
            self._alone[position] = self._line(position, position)[0]
        return self._alone[position]

    def _line(self, first: int, last: int) -> Tensor:
        """What the rows `first..last` give in one pass, `[n, heads, D]`."""
        n = last - first + 1
        seen = np.tri(n, last + 1, first, dtype=np.bool_)
        return self._rows(list(range(first, last + 1)), seen, range(last + 1), self.key, self.value)

    def _path(self, first: int, depth: int, n: int, rng: Random, all_at_once: bool) -> Tensor:
        """What the rows behind `first` give as a path in a tree of `n` slots over the text before, `[depth, heads, D]`.

        `all_at_once`: with a row of every slot.
        """
        slots = [first + slot for slot in sorted(rng.sample(range(n), depth))]
        key, value = (torch.cat([line[:, :, :first], line[:, :, -n - SPARE :]], 2) for line in (self.key, self.value))
        for lines, mine in ((key, self.key), (value, self.value)):  # the slots behind `first` are of others
            lines[:, :, slots] = mine[:, :, first : first + depth]
        own = list(range(first)) + [first + rng.randrange(depth) for _ in range(n)]
        seen = np.zeros((n, first + n), np.bool_)
        seen[:, :first] = True
        seen[range(n), range(first, first + n)] = True
        path = [slot - first for slot in slots]
        for k, slot in enumerate(slots):
            own[slot] = first + k
            seen[path[k:], slot] = True
        if all_at_once:
            return self._rows(own[first:], seen, own, key, value)[path]
        return self._rows([own[slot] for slot in slots], seen[path], own, key, value)

    def _rows(self, positions: list[int], seen: Any, own: Any, key: Tensor, value: Tensor) -> Tensor:
        padding = self.widths.padding(len(positions))
        order = order_of(seen, positions, own, padding, self.groups, self.widths, self.sums)
        query = torch.nn.functional.pad(self.query[:, :, positions], (0, 0, 0, padding))
        key, value = (states[:, :, : order.wide] for states in (key, value))
        plan, scale = order.seeing(seen), key.shape[-1] ** -0.5
        return exact_attention(query, key, value, plan, scale, self.softcap)[0, : len(positions)]
