"""What layers, heads and tests cost on this machine, measured once per model.

Gives the predicted time of a round beside the measured one. Layers are timed by the number of rows in a call; what a
call costs besides its layers is apart, because an early-exit round makes many short ones.
"""

import time
from collections.abc import Callable
from statistics import median
from weakref import WeakKeyDictionary

import torch

from specviz.cost.ledger import Clock
from specviz.engine.model.adapter import Model, ModelAdapter
from specviz.engine.model.rows import Rows
from specviz.methods.common.top_k import RowConfidence
from specviz.methods.early_exit.heads import Heads

WIDTHS = (1, 2, 3, 5, 9, 17)
CONTEXT, TURNS, PATIENCE_S = 64, 5, 0.3
_clocks: "WeakKeyDictionary[ModelAdapter, dict[str, Clock]]" = WeakKeyDictionary()


def measured(target: Model, heads: Heads) -> Clock | None:
    """The clock of a model with heads of this kind; None for what is no model of the library's."""
    if not isinstance(target, ModelAdapter) or target.context < CONTEXT + WIDTHS[-1]:
        return None
    known = _clocks.setdefault(target, {})
    if heads.kind not in known:
        known[heads.kind] = _measure(target, heads)
    return known[heads.kind]


@torch.inference_mode()
def _measure(target: ModelAdapter, heads: Heads) -> Clock:
    began = time.perf_counter()
    whole, apart, final = {}, {}, {}
    for width in WIDTHS:
        turns = TURNS if time.perf_counter() - began < PATIENCE_S else 1
        runs = [_climb(target, width, by_one=False) for _ in range(turns + 1)][1:]
        whole[width] = median(took for took, _ in runs)
        state = runs[-1][1]
        final[width] = _timed(lambda: target.logits(state)[0, 0].item(), turns)  # noqa: B023
        if width == 1:
            apart[width] = median(_climb(target, width, by_one=True)[0] for _ in range(turns))
            layer = max(1, target.n_layers // 4)
            test = _timed(lambda: RowConfidence.at(0, layer, heads.logits(layer, state[0]), 1.1, False), turns)  # noqa: B023
    pass_ns = max(0.0, (apart[1] - whole[1]) / max(1, target.n_layers - 1))
    layer_ns = tuple(max(0.0, whole[width] - pass_ns) / target.n_layers for width in WIDTHS)
    return Clock(WIDTHS, layer_ns, tuple(final[width] for width in WIDTHS), test, pass_ns)


def _climb(target: ModelAdapter, width: int, by_one: bool) -> tuple[int, torch.Tensor]:
    """Nanoseconds of `width` rows through all layers, in one call or one call a layer; and their last states."""
    cache = target.new_cache(CONTEXT + width)
    tokens = [1 % target.vocab] * CONTEXT
    before = Rows(target, cache)
    before.add_line(tokens)
    before.climb(target.n_layers)
    cache.follow(tokens)
    rows = Rows(target, cache)
    rows.add_line([1 % target.vocab] * width)
    for layer in range(1, target.n_layers) if by_one else ():
        rows.climb(layer)
    state = rows.climb(target.n_layers)
    return sum(call.dur_ns for call in rows.ledger), state


def _timed(action: Callable[[], object], turns: int) -> float:
    action()
    took = []
    for _ in range(turns):
        began = time.perf_counter_ns()
        action()
        took.append(time.perf_counter_ns() - began)
    return median(took)
