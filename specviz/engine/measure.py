"""What passes cost on this machine: of target and draft model by rows, of layers, heads and head tests.

Timed once per pair in a process; the record says how long ago that was. Where exact rows are padded, so is a pass over
one row without: the fastest plain decoding there is. The modelled clock (specviz.cost.model_clock) and the
curve of draft lengths (specviz.cost.payoff) stand on it. Every width is timed in turn, over and over, so that a busy
moment of the machine falls on all alike and an early end leaves each with equally many; medians of 20 after a warm-up,
or of as many as the time set aside allows, which the record says: a model whose pass takes a quarter of a second is
timed once at two widths. Where torch has one thread, that thread's own time counts, which neighbours on the machine
disturb less. Widths of the target are rows one after another, those of the draft model siblings, as branches are.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import median
from weakref import WeakKeyDictionary

import msgspec
import numpy as np
import torch

from specviz.cost.ledger import Clock
from specviz.engine.decode.drafter import Drafter
from specviz.engine.model.adapter import FactoryModels, Model, ModelAdapter
from specviz.engine.model.cache import KVCache
from specviz.engine.model.rows import ForwardBatch, fill
from specviz.events import Calibration

WIDTHS = (1, 2, 3, 5, 9, 17)
CONTEXT, REPEATS, LEAST = 64, 20, 3
PATIENCE_S = 1.5  # for a small model that is ample for 20; a large one gets LEAST whatever they take
FEW, SLOW_NS = (1, 5), 250_000_000  # a target whose pass takes so long is timed at few widths, each once
ENDS = (WIDTHS[0], WIDTHS[-1])  # that are timed to price exact rows before a run
SHARE = 0.01  # of a run's time that passes of plain decoding between its rounds may take
BEHIND, BEHIND_S = 9, 0.25  # such passes behind the text, and seconds for them

Known = WeakKeyDictionary[ModelAdapter, dict[tuple[int, ...], tuple[Calibration, float]]]  # by widths; and when
_known: WeakKeyDictionary[ModelAdapter, Known] = WeakKeyDictionary()  # target -> draft model (or itself) -> costs


def is_padded(models: FactoryModels) -> bool:
    """Whether exact mode pads a single row of the target with dummy rows."""
    widths = models.target.backend.widths if isinstance(models.target, ModelAdapter) else None
    return widths is not None and widths.padding(1) > 0


def calibrate(
    models: FactoryModels, drafter: Drafter | None, patience_s: float = PATIENCE_S, widths: tuple[int, ...] = WIDTHS
) -> Calibration | None:
    """The costs of these models, measured at the first call and remembered; None for what is no model of the library's.

    `widths`: of the passes, rising, at least two. A drafter that climbs the target's own layers brings the clock it has
    measured.
    """
    target, draft = models.target, models.draft
    if not isinstance(target, ModelAdapter) or target.context < CONTEXT + WIDTHS[-1]:
        return None
    second = draft if isinstance(draft, ModelAdapter) and draft.context >= CONTEXT + WIDTHS[-1] else None
    pairs = _known.setdefault(target, WeakKeyDictionary())
    known = pairs.setdefault(second or target, {})
    if widths not in known:
        known[widths] = _measure(target, second, patience_s, widths), time.perf_counter()
    costs, when = known[widths]
    costs = msgspec.structs.replace(costs, age_s=time.perf_counter() - when)  # a record of its own, to be stamped
    return with_clock(costs, drafter.clock) if drafter and drafter.clock else costs


def with_clock(costs: Calibration, clock: Clock) -> Calibration:
    """The record with what a layer, the final head and a head test cost."""
    out = msgspec.structs.replace(costs)
    out.exit_widths, out.test_ns, out.pass_ns = list(clock.widths), round(clock.test_ns), round(clock.pass_ns)
    out.layer_ns, out.final_ns = [round(ns) for ns in clock.layer_ns], [round(ns) for ns in clock.final_ns]
    return out


@torch.inference_mode()
def _measure(
    target: ModelAdapter, draft: ModelAdapter | None, patience_s: float, widths: tuple[int, ...]
) -> Calibration:
    slow = _is_slow(target)
    widths = FEW if slow else widths
    passes = [_pass(target, width, siblings=False) for width in widths]
    if draft is not None:
        passes += [_pass(draft, width, siblings=True) for width in widths]
    padded = is_padded(FactoryModels(target, draft, 0))
    if padded:
        passes.append(_pass(target.with_backend(target.backend.plain), 1, siblings=False))
    times, repeats = _timed(passes, 0.0 if slow else patience_s, 1 if slow else LEAST)
    plain = min(times.pop(), times[0]) if padded else None
    ours, theirs = times[: len(widths)], times[len(widths) :]
    return Calibration(
        t_ns=theirs[0] if theirs else None,
        c=ours[0] / theirs[0] if theirs else None,
        kappa_q=slope(widths, theirs) if theirs else None,
        kappa_p=slope(widths, ours),
        widths=list(widths),
        target_ns=ours,
        draft_ns=theirs,
        repeats=repeats,
        plain_ns=plain,
    )


def _is_slow(target: ModelAdapter) -> bool:
    """Whether a pass takes so long that timing many of them would hold up the run; the first pass does not count."""
    once = _pass(target, 1, siblings=False)
    return once() > SLOW_NS and once() > SLOW_NS


def _timed(passes: Sequence[Callable[[], int]], patience_s: float, least: int) -> tuple[list[int], int]:
    """Medians, and of how many; every pass once before anything counts, unless once must be enough."""
    for once in passes if least > 1 else ():
        once()
    began, times = time.perf_counter(), [[once()] for once in passes]
    while len(times[0]) < REPEATS and (len(times[0]) < least or time.perf_counter() - began < patience_s):
        for once, own in zip(passes, times, strict=True):
            own.append(once())
    return [max(1, round(median(own))) for own in times], len(times[0])


def _pass(model: ModelAdapter, width: int, siblings: bool) -> Callable[[], int]:
    """One timed pass of that many rows behind a filled cache, head included."""
    tokens = [1 % model.vocab] * CONTEXT
    cache = model.new_cache(CONTEXT + width)
    fill(model, cache, tokens)

    def once() -> int:
        took = _once(model, cache, tokens[0], width, siblings)
        cache.follow(tokens)
        return took

    return once


def _once(model: Model, cache: KVCache, token: int, width: int, siblings: bool) -> int:
    cuda = model.device.type == "cuda"
    # One thread on the host works all of the time it has: its own clock runs as on a quiet machine.
    now = time.thread_time_ns if not cuda and torch.get_num_threads() == 1 else time.perf_counter_ns
    began = now()
    rows = ForwardBatch(model, cache)
    for number in range(width):
        rows.add(token, -1 if siblings else number - 1)
    rows.take()
    if cuda:
        torch.cuda.synchronize()
    return now() - began


class PlainPasses:
    """Times passes of plain decoding between the rounds of a run: the baseline of its speed-up.

    Each is a real pass of the text's last token over the whole context, whose cache slot is released at once. Between
    rounds they take at most `SHARE` of the run's time.
    """

    def __init__(self, target: Model, costs: Calibration | None) -> None:
        """`costs`: of this target; they say whether rows are faster without the padding of exact ones."""
        self._target: Model = target
        if isinstance(target, ModelAdapter) and costs is not None and costs.plain_ns and costs.target_ns:
            self._target = target.with_backend(target.backend.plain) if costs.plain_ns < costs.target_ns[0] else target
        self._began, self._spent = time.perf_counter_ns(), 0

    def between(self, cache: KVCache, tokens: Sequence[int]) -> int:
        """Nanoseconds of one; 0 where it is not yet its turn."""
        due = self._spent <= SHARE * (time.perf_counter_ns() - self._began)
        return self._once(cache, tokens) if due else 0

    def behind(self, cache: KVCache, tokens: Sequence[int]) -> list[int]:
        """Time several passes after the text is complete; at least one, however long it takes."""
        began, times = time.perf_counter(), [self._once(cache, tokens)]
        while len(times) < BEHIND and time.perf_counter() - began < BEHIND_S:
            times.append(self._once(cache, tokens))
        return [ns for ns in times if ns]

    @torch.inference_mode()
    def _once(self, cache: KVCache, tokens: Sequence[int]) -> int:
        if cache.length != len(tokens) - 1:  # a drafter left the target more to do than plain decoding has
            return 0
        cuda = self._target.device.type == "cuda"
        began = time.perf_counter_ns()
        rows = ForwardBatch(self._target, cache)
        rows.add(tokens[-1], -1)
        rows.take()
        if cuda:
            torch.cuda.synchronize()
        took = time.perf_counter_ns() - began
        cache.follow(tokens[:-1])
        self._spent += time.perf_counter_ns() - began
        return took


def slope(widths: Sequence[int], times: Sequence[int]) -> float:
    """`kappa` of `T(w) = T(1) (1 + kappa (w - 1))`: least squares through the measured `T(1)`."""
    more = np.asarray(widths[1:], dtype=float) - 1
    extra = np.asarray(times[1:], dtype=float) / times[0] - 1
    return float((more * extra).sum() / (more**2).sum())


# Layers by themselves ---------------------------------------------------------------------------------------------

TURNS, SOON_S = 5, 0.3  # medians of so many; of one where the widths so far took longer
_layers: "WeakKeyDictionary[ModelAdapter, tuple[Clock, torch.Tensor]]" = WeakKeyDictionary()
_clocks: "WeakKeyDictionary[ModelAdapter, dict[str, Clock]]" = WeakKeyDictionary()


@torch.inference_mode()
def layer_clock(target: Model, kind: str, test: Callable[[int, torch.Tensor], object]) -> Clock | None:
    """What one layer, the final head and a head test cost; None for what is no model of the library's.

    The test is measured once for every `kind` of head, layers once for all. `test`: a head's look at a state
    `[1, width]` behind a layer, numbered from 1, its read by the host included. Layers are timed by the number of rows
    in a call; what a call costs besides its layers is apart, because an early-exit round makes many short ones.
    """
    if not isinstance(target, ModelAdapter) or target.context < CONTEXT + WIDTHS[-1]:
        return None
    known = _clocks.setdefault(target, {})
    if kind not in known:
        if target not in _layers:
            _layers[target] = _timed_layers(target)
        clock, state = _layers[target]
        layer = max(1, target.n_layers // 4)
        known[kind] = replace(clock, test_ns=_median(lambda: test(layer, state), TURNS))
    return known[kind]


def _timed_layers(target: ModelAdapter) -> tuple[Clock, torch.Tensor]:
    """All but the test, and a row's last state `[1, width]` to make that with."""
    began = time.perf_counter()
    tokens, cache = [1 % target.vocab] * CONTEXT, target.new_cache(CONTEXT + WIDTHS[-1])
    fill(target, cache, tokens)

    def climbed(width: int, by_one: bool = False) -> tuple[int, torch.Tensor]:
        """Nanoseconds of `width` rows through all layers, in one call or one call a layer; and their last states."""
        rows = ForwardBatch(target, cache)
        rows.add_line(tokens[:width])
        for layer in range(1, target.n_layers) if by_one else ():
            rows.climb(layer)
        state = rows.climb(target.n_layers)
        cache.follow(tokens)
        return sum(call.dur_ns for call in rows.ledger), state

    whole, final, apart = {}, {}, 0.0
    for width in WIDTHS:
        turns = TURNS if time.perf_counter() - began < SOON_S else 1
        runs = [climbed(width) for _ in range(turns + 1)][1:]
        whole[width] = median(took for took, _ in runs)
        state = runs[-1][1]
        final[width] = _median(lambda: target.logits(state)[0, 0].item(), turns)  # noqa: B023
        if width == 1:
            apart = median(climbed(1, by_one=True)[0] for _ in range(turns))
            row = state[0]
    pass_ns = max(0.0, (apart - whole[1]) / max(1, target.n_layers - 1))
    layer_ns = tuple(max(0.0, whole[width] - pass_ns) / target.n_layers for width in WIDTHS)
    return Clock(WIDTHS, layer_ns, tuple(final[width] for width in WIDTHS), 0.0, pass_ns), row


def _median(action: Callable[[], object], turns: int) -> float:
    action()
    took = []
    for _ in range(turns):
        began = time.perf_counter_ns()
        action()
        took.append(time.perf_counter_ns() - began)
    return median(took)
