"""Whether the rows of a model are exact here, and in which passes: tried on the loaded weights, dtype and threads.

One layer and the head stand for all, their products being of one kind. Rows go through alone, many at once, as branches
of trees, and behind a kept branch, and every state must have equal bits. Before that products and attention are tried
alone, at all depths and numbers of rows that a run can meet (`exact.trials`).
"""

import json
from collections.abc import Callable
from copy import copy
from dataclasses import replace
from itertools import product
from random import Random
from typing import Any

import torch

from specviz.engine.model.adapter import ModelAdapter
from specviz.engine.model.cache import KVCache
from specviz.engine.model.exact import known
from specviz.engine.model.exact.plan import PassWidths
from specviz.engine.model.exact.trials import WIDE, Attention, Products
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
    try:
        products, furthest = Products(adapter), 0
        for piece, longest in _SUMS:
            sums, is_mended = PassWidths(1, piece=piece, longest=longest, inner=inner, threads=threads), False
            for (least, step), most in product(_LEAST, _MOST):
                tried.widths = replace(sums, least=least, step=step, most=most)
                n_held = _n_held(tried, products)
                if n_held == len(_WHY):
                    adapter.widths = tried.widths
                    return BITWISE
                furthest = max(furthest, n_held)
                if n_held > 0 and not is_mended:  # products are tried once for all plans; the rest is for each
                    tried.widths = replace(sums, **_UNIFORM)
                    furthest = max(furthest, n_held := _n_held(tried, products))
                    if n_held < len(_WHY):
                        break
                    is_mended = True
            if furthest not in _OF_PIECES:
                break
    except (TypeError, ValueError, AttributeError, RuntimeError) as error:
        return _not(f"its layers take no plan of a pass: {type(error).__name__}")
    return _not(_WHY[min(furthest, len(_WHY) - 1)])


def _n_held(adapter: ModelAdapter, products: Products) -> int:
    """How many trials rows hold with the widths of an adapter, before one that they do not; why is in `_WHY`."""
    assert adapter.widths is not None
    attention = Attention(adapter, adapter.widths)
    trials: tuple[Callable[[], bool], ...] = (
        lambda: products.hold(attention.widths),
        attention.lines_hold,
        attention.paths_hold,
        lambda: rows_hold(adapter) and _many_hold(adapter, WIDE),
    )
    return next((k for k, holds in enumerate(trials) if not holds()), len(trials))


def _compiled_exact(adapter: ModelAdapter) -> str:
    """As `make_exact`, of a kernel that needs no rows beside one."""
    tried = copy(adapter)
    tried.widths = widths = PassWidths(1, most=BLOCK)
    if not (Products(tried).hold(widths) and rows_hold(tried) and _many_hold(tried, BLOCK)):
        return _not("the compiled kernel rounds otherwise with other rows beside")
    adapter.widths = tried.widths
    return BITWISE


def _not(why: str) -> str:
    return f"up to rounding ({why})"


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
    made = adapter.new_cache(capacity)
    return KVCache(1, capacity, made.spare)


def _keep(cache: KVCache, text: list[int]) -> None:
    missing = cache.follow(text)
    assert not missing, "a text that was fed is held"
