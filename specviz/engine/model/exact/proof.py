"""Whether the rows of a model are exact here, and in which passes: tried on the loaded weights, dtype and threads.

One layer and the head stand for all, their products being of one kind. Rows go through alone, many at once, as branches
of trees, and behind a kept branch, and every state must have equal bits. Before that products and attention are tried
alone, at all depths and numbers of rows that a run can meet (`exact.trials`).
"""

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from random import Random
from typing import Any

import torch

from specviz.engine.model.adapter import ModelAdapter
from specviz.engine.model.backend import Backend
from specviz.engine.model.cache import KVCache
from specviz.engine.model.compiled.passes import KernelBackend
from specviz.engine.model.exact import known
from specviz.engine.model.exact.plan import BatchWidths
from specviz.engine.model.exact.trials import WIDE, Attention, Products
from specviz.engine.model.layers.direct_layer import direct_layers
from specviz.engine.model.rows import BLOCK, ForwardBatch

Tensor = torch.Tensor

BITWISE = "bitwise"
_LEAST = ((1, 1), (2, 1), (2, 2), (4, 1), (4, 4), (8, 1), (8, 8), (16, 1), (16, 16))  # rows of a pass, and their step
_MOST = (256, 64, 32, 16)  # and how many it may have
_SUMS = ((96, 192), (64, 128), (32, 96))  # keys in a piece, slots over which they are strewn
_PREFIX, _TEXT = 21, 64  # tokens of the tried text: fed at once, and fed in every way
_NODES = 40
_WHY = (  # in the order of the trials
    "products round otherwise with other rows beside",
    "attention rounds otherwise with other rows beside",
    "sums over keys depend on the slots between",
    "whole rows round otherwise with others beside",
)
_OF_PIECES = (1, 2)  # those that other pieces may mend
_UNIFORM = {"least": 16, "step": 16, "most": 16}  # every pass has as many rows: what it does not mend, no plan does


_TRIED: dict[
    Any, tuple[BatchWidths | None, str]
] = {}  # in this process, by all that kernels go by: widths, and what to say


def exact_here(adapter: ModelAdapter) -> tuple[Backend, str]:
    """As `make_exact`; a model of the same shapes, dtype and threads is not tried again: not in the same process, and
    not on the same machine with the same versions, where it was tried before (`exact.known`)."""
    layer, backend = adapter.layers[0], adapter.backend
    facts = (
        type(adapter.model).__qualname__,
        tuple((name, tuple(weight.shape)) for name, weight in layer.named_parameters()),
        tuple(adapter.head.weight.shape),
        json.dumps(adapter.model.config.to_dict(), sort_keys=True, default=str),
        str(adapter.dtype),
        str(adapter.devices),
        bool(direct_layers(backend.plain)),
        backend.products,
        torch.get_num_threads(),
    )
    if facts not in _TRIED:
        key = known.key_of(adapter.device, facts)
        widths, exactness = known.WIDTHS.find(key), BITWISE
        if widths is None or not _confirmed(adapter.with_backend(backend.exact(widths))):
            exact, exactness = make_exact(adapter)
            widths = exact.widths
            if widths is not None:  # why rows are not exact may have been a passing want of memory
                known.WIDTHS.keep(key, widths)
        _TRIED[facts] = widths, exactness
    widths, exactness = _TRIED[facts]
    return (backend if widths is None else backend.exact(widths)), exactness


@torch.inference_mode()
def _confirmed(adapter: ModelAdapter) -> bool:
    """Whether rows of the loaded model hold with the widths found before: the short part of the trial."""
    try:
        return rows_hold(adapter)
    except (TypeError, ValueError, AttributeError, RuntimeError):
        return False


@torch.inference_mode()
def make_exact(adapter: ModelAdapter) -> tuple[Backend, str]:
    """An adapter's backend with the widths of exact passes, where this machine has some; what to say of its rows.

    `"bitwise"`, or `"up to rounding (why)"` and the backend as it is.
    """
    widths, why = _widths(adapter)
    if widths is None:
        return adapter.backend, f"up to rounding ({why})"
    return adapter.backend.exact(widths), BITWISE


def _widths(adapter: ModelAdapter) -> tuple[BatchWidths | None, str]:
    """The widths of exact passes; None and why there are none."""
    if adapter.dtype == torch.float64:
        return None, "of float64, which no draw has met yet"
    if len(adapter.devices) > 1:
        return None, f"its layers compute on {len(adapter.devices)} devices"
    if not adapter.static:
        return None, "its rotary angles depend on the longest position of a pass"
    if adapter.context < _TEXT:
        return None, f"its context of {adapter.context} tokens is too short to be tried"
    if isinstance(adapter.backend, KernelBackend):
        return _kernel_widths(adapter)
    try:
        return _planned_widths(adapter)
    except (TypeError, ValueError, AttributeError, RuntimeError) as error:
        return None, f"its layers take no plan of a pass: {type(error).__name__}"


def _planned_widths(adapter: ModelAdapter) -> tuple[BatchWidths | None, str]:
    """Of torch's layers: the first plan under which rows hold, or what did not hold under the best."""
    inner, threads = adapter.inner, torch.get_num_threads()
    products, furthest = Products(adapter), 0
    for piece, longest in _SUMS:
        sums, is_mended = BatchWidths(1, piece=piece, longest=longest, inner=inner, threads=threads), False
        for (least, step), most in product(_LEAST, _MOST):
            widths = replace(sums, least=least, step=step, most=most)
            n_held = _n_held(adapter, widths, products)
            if n_held == len(_WHY):
                return widths, ""
            furthest = max(furthest, n_held)
            if n_held > 0 and not is_mended:  # products are tried once for all plans; the rest is for each
                furthest = max(furthest, n_held := _n_held(adapter, replace(sums, **_UNIFORM), products))
                if n_held < len(_WHY):
                    break
                is_mended = True
        if furthest not in _OF_PIECES:
            break
    return None, _WHY[min(furthest, len(_WHY) - 1)]


def _n_held(adapter: ModelAdapter, widths: BatchWidths, products: Products) -> int:
    """How many trials rows hold in passes of some widths, before one that they do not; why is in `_WHY`."""
    attention, exact = Attention(adapter, widths), adapter.with_backend(adapter.backend.exact(widths))
    trials: tuple[Callable[[], bool], ...] = (
        lambda: products.hold(widths),
        attention.lines_hold,
        attention.paths_hold,
        lambda: rows_hold(exact) and _many_hold(exact, WIDE),
    )
    return next((k for k, holds in enumerate(trials) if not holds()), len(trials))


def _kernel_widths(adapter: ModelAdapter) -> tuple[BatchWidths | None, str]:
    """Of a kernel that needs no rows beside one."""
    widths = BatchWidths(1, most=BLOCK)
    exact = adapter.with_backend(adapter.backend.exact(widths))
    if not (Products(exact).hold(widths) and rows_hold(exact) and _many_hold(exact, BLOCK)):
        return None, "the compiled kernel rounds otherwise with other rows beside"
    return widths, ""


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


def _many_hold(adapter: ModelAdapter, most: int) -> bool:
    """Whether so are those of `most` rows at once."""
    n = min(most, adapter.context)
    text = [(7 * k * k + 3 * k + 5) % adapter.vocab for k in range(n)]
    return torch.equal(_states(adapter, text, [n]), _states(adapter, text, [9, 5, 1, n // 3, n - n // 3 - 15]))


def _states(adapter: ModelAdapter, text: list[int], widths: list[int]) -> Tensor:
    """States `[sum(widths), width]` behind the first layer of a text that is fed in passes of some widths."""
    cache = _cache(adapter, len(text))
    out, fed = [], 0
    for n in widths:
        rows = ForwardBatch(adapter, cache)
        rows.add_line(text[fed : fed + n])
        out.append(rows.climb(1)[0])
        fed += n
        _keep(cache, text[:fed])
    return torch.cat(out)


def _on_trees(adapter: ModelAdapter, text: list[int], seed: int) -> Tensor:
    """The states of `text` behind its prefix, each computed in a tree of other branches; only its path is kept."""
    rng = Random(seed)
    cache = _cache(adapter, len(text) + _NODES)
    rows = ForwardBatch(adapter, cache)
    rows.add_line(text[:_PREFIX])
    rows.climb(1)
    _keep(cache, text[:_PREFIX])
    out, fed = [], _PREFIX
    while fed < len(text):
        rows = ForwardBatch(adapter, cache)
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
    return KVCache(1, capacity, adapter.backend.spare)


def _keep(cache: KVCache, text: list[int]) -> None:
    missing = cache.follow(text)
    assert not missing, "a text that was fed is held"
