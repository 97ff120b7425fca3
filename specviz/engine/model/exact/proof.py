"""Whether the rows of a model are exact here, and in which passes: tried on the loaded weights, dtype and threads.

One layer and the head stand for all, their products being of one kind. Rows go through alone, many at once, as branches
of trees, and behind a kept branch, and every state must have equal bits. Long sums are tried with the attention alone.
"""

import json
from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import torch
from torch import nn
from transformers.pytorch_utils import Conv1D

from specviz.engine.model.adapter import ModelAdapter
from specviz.engine.model.cache import KVCache
from specviz.engine.model.exact import known
from specviz.engine.model.exact.attention import exact_attention
from specviz.engine.model.exact.plan import FAR, LANES, LONG, SPARE, PassWidths, order_of
from specviz.engine.model.layers.direct_layer import Dense
from specviz.engine.model.layers.hooked import unhooked
from specviz.engine.model.rows import BLOCK, Rows

Tensor = torch.Tensor

BITWISE = "bitwise"
_LEAST = ((1, 1), (2, 1), (2, 2), (4, 1), (4, 4), (8, 1), (8, 8), (16, 1), (16, 16))  # rows of a pass, and their step
_HEIGHTS = (1, 2, 3, 5, 6, 7, 9, 12, 17, 24, 33, 48, 64, 100, 200)  # rows that products are tried with
_MOST = (256, 64, 16)
_SUMS = ((96, 192), (64, 128), (32, 96))  # keys in a piece, slots over which they are strewn
_PREFIX, _TEXT = 21, 64  # tokens of the tried text: fed at once, and fed in every way
_NODES = 40
_LARGE = 10_000_000  # weights of a product that is tried with few rows
_WIDE = 250  # rows of the widest pass that is tried


_FOUND: dict[Any, tuple[PassWidths | None, str]] = {}  # what was found in this process, by all that kernels go by


def exact_here(adapter: ModelAdapter) -> str:
    """As `make_exact`; a model of the same shapes, dtype and threads is not tried again: not in the same process, and
    not on the same machine with the same versions, where it was tried before (`exact.known`)."""
    layer = adapter.layers[0]
    facts = (
        type(adapter.model).__qualname__,
        tuple((name, tuple(each.shape)) for name, each in layer.named_parameters()),
        tuple(adapter.head.weight.shape),
        json.dumps(adapter.model.config.to_dict(), sort_keys=True, default=str),
        str(adapter.dtype),
        str(adapter.devices),
        adapter.direct is not None,
        adapter.compiled is not None,
        torch.get_num_threads(),
    )
    if facts not in _FOUND:
        key = known.key_of(adapter.device, facts)
        adapter.widths = known.find(key)
        said = BITWISE
        if adapter.widths is None or not _confirmed(adapter):
            said = make_exact(adapter)
            if adapter.widths is not None:  # why rows are not exact may have been a passing want of memory
                known.keep(key, adapter.widths)
        _FOUND[facts] = adapter.widths, said
    adapter.widths, said = _FOUND[facts]
    return said


@torch.inference_mode()
def _confirmed(adapter: ModelAdapter) -> bool:
    """Whether rows of the loaded model hold with the widths found before: the short part of the trial."""
    try:
        return rows_hold(adapter)
    except (TypeError, ValueError, AttributeError, RuntimeError):
        return False


@torch.inference_mode()
def make_exact(adapter: ModelAdapter) -> str:
    """Give an adapter the widths of exact passes, where this machine has some; what is to be said of its rows.

    `"bitwise"`, or `"up to rounding (why)"`.
    """
    adapter.widths = None
    if adapter.dtype == torch.float64:
        return _not("of float64, which no draw has met yet")
    if len(adapter.devices) > 1:
        return _not(f"its layers compute on {len(adapter.devices)} devices")
    if not adapter.static:
        return _not("its rotary angles depend on the longest position of a pass")
    if adapter.context < _TEXT:
        return _not(f"its context of {adapter.context} tokens is too short to be tried")
    if adapter.compiled is not None:
        return _compiled_exact(adapter)
    tried, inner, threads = copy(adapter), adapter.inner, torch.get_num_threads()
    for piece, longest in _SUMS:
        sums = (PassWidths(least, step, piece=piece, longest=longest) for least, step in _LEAST)
        widths = next((widths for widths in sums if _sums_hold(adapter, widths)), None)
        if widths is None:
            continue
        try:
            for least, step in _LEAST[_LEAST.index((widths.least, widths.step)) :]:
                for most in _MOST:
                    tried.widths = replace(widths, least=least, step=step, most=most, inner=inner, threads=threads)
                    if not _products_hold(tried) or not rows_hold(tried):
                        break
                    if _many_hold(tried):
                        adapter.widths = tried.widths
                        return BITWISE
        except (TypeError, ValueError, AttributeError, RuntimeError) as error:
            return _not(f"its layers take no plan of a pass: {type(error).__name__}")
        return _not("products round otherwise with other rows beside")
    return _not("sums over keys depend on the slots between")


def _compiled_exact(adapter: ModelAdapter) -> str:
    """As `make_exact`, of a kernel that needs no rows beside one."""
    tried = copy(adapter)
    tried.widths = PassWidths(1, most=BLOCK)
    if not (_products_hold(tried) and rows_hold(tried) and _many_hold(tried)):
        return _not("the compiled kernel rounds otherwise with other rows beside")
    adapter.widths = tried.widths
    return BITWISE


def _not(why: str) -> str:
    return f"up to rounding ({why})"


def _products_hold(adapter: ModelAdapter) -> bool:
    """Whether matrix products of the model's shapes add up in one order for all numbers of rows.

    In 16 bits a result is rounded so far that another order shows once in some 20,000 numbers. So the products here are
    of sums that cancel: what is left of them is the rounding on the way, and shows every other order.
    """
    parts = (*_joined(adapter), *(() if adapter.compiled else (*adapter.layers[0].modules(), adapter.head)))
    found = {_shape(module): module for module in parts if _multiplies(module)}
    return all(_product_holds(adapter, module) for module in found.values())


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


def _joined(adapter: ModelAdapter) -> list[nn.Linear]:
    """The products of a layer that no module of the library makes so, and the head where it is compiled."""
    dense = list(adapter.direct[0].dense) if adapter.direct is not None else []
    if (compiled := adapter.compiled) is not None:
        dense = [*(replace(each, multiply=compiled.head.multiply) for each in dense), compiled.head]
    return [_Product(each) for each in dense]


def _multiplies(module: Any) -> bool:
    return isinstance(module, nn.Linear | Conv1D)


def _shape(module: Any) -> tuple[type, int, int]:
    return (type(module), *module.weight.shape)


def _product_holds(adapter: ModelAdapter, module: Any) -> bool:
    turned = isinstance(module, Conv1D)  # its weights lie the other way round
    n_out, n_in = module.weight.shape[::-1] if turned else module.weight.shape
    noise, half = torch.Generator().manual_seed(0), n_in // 2
    order = torch.randperm(half, generator=noise)
    tile, rows = torch.randn(min(n_out, 256), n_in, generator=noise), torch.randn(256, n_in, generator=noise)
    tile[:, half : 2 * half], rows[:, half : 2 * half] = -tile[:, order], rows[:, order]
    tile[:, 2 * half :] = 0
    like = {"dtype": module.weight.dtype, "device": adapter.device}  # what is read from disk lies nowhere else
    weight = tile.repeat(-(-n_out // len(tile)), 1)[:n_out].to(**like)
    twin, rows = unhooked(copy(module)), rows.to(**like)[None]
    twin._parameters = {"weight": nn.Parameter(weight.t().contiguous() if turned else weight, requires_grad=False)}
    twin._parameters["bias"] = None if module.bias is None else nn.Parameter(torch.zeros(n_out, **like), False)
    widths = adapter.widths
    assert widths is not None
    few = n_out * n_in > _LARGE  # a head: no pass judges so many rows
    heights = {n + widths.padding(n) for n in _HEIGHTS if n <= min(widths.most, 33 if few else 256)}
    found = [twin(rows[:, :n])[0] for n in sorted(heights)]
    return all(torch.equal(found[-1][: len(each)], each) for each in found)


def rows_hold(adapter: ModelAdapter) -> bool:
    """Whether states behind the first layer, and logits, are the same whatever else is in a pass."""
    text = [(7 * k * k + 3 * k + 5) % adapter.vocab for k in range(_TEXT)]
    alone = _states(adapter, text, [_PREFIX] + [1] * 12)
    for widths in ([_PREFIX, 2, 3, 5, 7, 11, _TEXT - _PREFIX - 28], [_TEXT], [3, 40, _TEXT - 43]):
        states = _states(adapter, text, widths)
        if not torch.equal(states[: len(alone)], alone):
            return False
    whole = _states(adapter, text, [_TEXT])
    if not all(torch.equal(_on_trees(adapter, text, seed), whole[_PREFIX:]) for seed in range(2)):
        return False
    some = whole[None, :17]
    logits = adapter.logits(some)
    return all(torch.equal(adapter.logits(some[:, k : k + n]), logits[k : k + n]) for n, k in ((1, 0), (1, 9), (5, 12)))


def _many_hold(adapter: ModelAdapter) -> bool:
    """Whether so do many rows at once."""
    n = min(_WIDE, adapter.context)
    text = [(7 * k * k + 3 * k + 5) % adapter.vocab for k in range(n)]
    return torch.equal(_states(adapter, text, [n]), _states(adapter, text, [9, 5, 1, n // 3, n - n // 3 - 15]))


def _states(adapter: ModelAdapter, text: list[int], widths: list[int]) -> Tensor:
    """States `[sum(widths), width]` behind the first layer of a text that is fed in passes of some widths."""
    cache = _cache(adapter, len(text))
    out, fed = [], 0
    for n in widths:
        rows = Rows(adapter, cache)
        rows.add_line(text[fed : fed + n])
        out.append(rows.climb(1)[0])
        fed += n
        _keep(cache, text[:fed])
    return torch.cat(out)


def _on_trees(adapter: ModelAdapter, text: list[int], seed: int) -> Tensor:
    """The states of `text` behind its prefix, each computed in a tree of other branches; only its path is kept."""
    rng = Random(seed)
    cache = _cache(adapter, len(text) + _NODES)
    rows = Rows(adapter, cache)
    rows.add_line(text[:_PREFIX])
    rows.climb(1)
    _keep(cache, text[:_PREFIX])
    out, fed = [], _PREFIX
    while fed < len(text):
        rows = Rows(adapter, cache)
        path = [rows.add(text[fed], -1)]
        depth = rng.randrange(3, 12)
        for _ in range(rng.randrange(_NODES)):
            if rng.random() < 0.3 and len(path) <= depth and fed + len(path) < len(text):
                path.append(rows.add(text[fed + len(path)], path[-1]))
            else:
                rows.add(rng.randrange(adapter.vocab), rng.randrange(len(rows)))
        out.append(rows.climb(1)[0, path])
        fed += len(path)
        _keep(cache, text[:fed])
    return torch.cat(out)


def _cache(adapter: ModelAdapter, capacity: int) -> KVCache:
    """A cache of the first layer alone."""
    made = adapter.new_cache(capacity)
    return KVCache(1, capacity, made.spare)


def _keep(cache: KVCache, text: list[int]) -> None:
    missing = cache.follow(text)
    assert not missing, "a text that was fed is held"


class _Attention:
    """The attention of a model over random queries, keys and values of one text, `[1, heads, n, D]`."""

    def __init__(self, adapter: ModelAdapter, widths: PassWidths, n: int) -> None:
        noise = torch.Generator().manual_seed(0)
        self.groups, self.sums, self.widths = adapter.groups, adapter.sums, widths
        self.query, self.key, self.value = (
            torch.randn(1, heads, n, adapter.head_dim, generator=noise).to(self.sums)
            for heads in (2 * self.groups, 2, 2)
        )

    def row(self, position: int) -> Tensor:
        """What the row at a position gives in plain decoding, `[2 groups, D]`."""
        line = np.ones((1, position + 1), np.bool_)
        return self._rows([position], line, range(position + 1), self.key, self.value)[0]

    def path(self, first: int, last: int, rng: Random) -> Tensor:
        """What the rows `first..last` give as a path in a tree over the text before, `[n, 2 groups, D]`."""
        depth = last - first + 1
        room = self.widths.longest - first % self.widths.piece - LANES
        n = rng.randrange(depth, room) if first % 2 else room - 1
        slots = [first + slot for slot in sorted(rng.sample(range(n), depth))]
        key, value = self.key.clone(), self.value.clone()
        for lines, mine in ((key, self.key), (value, self.value)):
            lines[:, :, first:] = lines.flip(2)[:, :, : lines.shape[2] - first]  # of others
            lines[:, :, slots] = mine[:, :, first : last + 1]
        own = list(range(first)) + [first + rng.randrange(depth) for _ in range(n)]
        seen = np.zeros((depth, first + n), np.bool_)
        seen[:, :first] = True
        for row, slot in enumerate(slots):
            own[slot] = first + row
            seen[row:, slot] = True
        return self._rows(list(range(first, last + 1)), seen, own, key, value)

    def _rows(self, positions: list[int], seen: Any, own: Sequence[int], key: Tensor, value: Tensor) -> Tensor:
        padding = self.widths.padding(len(positions))
        order = order_of(seen, positions, own, padding, self.groups, self.widths, self.sums)
        query = torch.nn.functional.pad(self.query[:, :, positions], (0, 0, 0, padding))
        key, value = (each[:, :, : order.wide] for each in (key, value))
        return exact_attention(query, key, value, order.seeing(seen), key.shape[-1] ** -0.5)[0, : len(positions)]


def _sums_hold(adapter: ModelAdapter, widths: PassWidths) -> bool:
    """Whether attention adds a line up alike alone, among many rows and with slots of others between, at any length."""
    piece, long = widths.piece, LONG * widths.piece
    attention = _Attention(adapter, widths, long + FAR + 3 * piece + SPARE)
    rng = Random(0)
    for last in (3, 40, piece - 30, piece - 2, piece + 5, 3 * piece + 9, long + FAR - 4, long + FAR + 2):
        for depth in (1, 4, 9):
            first = max(0, last - depth + 1)
            alone = torch.stack([attention.row(position) for position in range(first, last + 1)])
            if not torch.equal(attention.path(first, last, rng), alone):
                return False
    return True
