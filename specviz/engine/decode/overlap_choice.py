"""Which lanes a run uses: those asked for, or those that a short probe finds fastest for the pair.

Only a drafter that works while the target does has anything to overlap; all others run serially, whatever is asked.
The probe makes one target pass beside a few steps of the draft model, by every lane that is possible here, in turn.

What a pass of the target and of the draft model costs on this machine, timed once per pair; its record says how long
ago that was. Where exact rows are padded, so does a pass over one row without: the fastest plain decoding there is.

The modelled clock (specviz.cost.model_clock) and the cost panel stand on it. Every width is timed in turn, over and
over, so that a busy moment of the machine falls on all alike and an early end leaves each with equally many; medians
of 20 after a warm-up, or of as many as the time set aside allows, which the record says: a model whose pass takes a
quarter of a second is timed once at two widths. Where torch has one thread,
that thread's own time counts, which neighbours on the machine disturb less. Widths of the target are rows one after
another, those of the draft model siblings, as branches are.
"""

import os
import time
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, field
from statistics import median
from typing import Any
from weakref import WeakKeyDictionary

import msgspec
import numpy as np
import torch

from specviz.cost.ledger import Clock
from specviz.engine.decode.drafter import Drafter
from specviz.engine.decode.overlap import Launched, OverlapLanes, Serial, Threads
from specviz.engine.model.adapter import FactoryModels, Model, ModelAdapter
from specviz.engine.model.cache import KVCache
from specviz.engine.model.rows import Rows, fill
from specviz.errors import SpecvizError, suggestion
from specviz.events import Calibration
from specviz.names import LANES

CONTEXT, WIDTH, STEPS, TURNS = 64, 5, 3, 7
WORTH = 0.97  # overlapping must save this much: a probe on a busy machine is not exact
Times = dict[str, float]
_times: "WeakKeyDictionary[Model, WeakKeyDictionary[Model, Times]]" = WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class OverlapChoice:
    """The lanes, milliseconds of a round's overlapped part by lane when they were probed, and what to warn of."""

    lanes: OverlapLanes
    probed_ms: Times = field(default_factory=dict)
    warning: str | None = None


def choose(asked: str, models: FactoryModels, drafter: Drafter | None) -> OverlapChoice:
    """The lanes of a run. Raises SpecvizError for a name that is none, and for lanes this pair cannot have."""
    if asked not in LANES:
        raise SpecvizError(f"no lanes '{asked}'{suggestion(asked, LANES)}")
    fitting = possible(models)
    if asked not in ("auto", *fitting):
        target, draft = models.devices
        raise SpecvizError(
            f"lanes {asked} need {_NEEDS[asked]}; here the target is on {target}, the draft model on {draft}: "
            f"use {' or '.join(fitting)}"
        )
    if drafter is None or not drafter.overlaps:
        told = asked not in ("auto", "serial")
        why = f"lanes {asked} have nothing to overlap: this method drafts only between the target's passes"
        return OverlapChoice(Serial(), warning=f"{why}, so it runs serially" if told else None)
    if asked != "auto":
        return OverlapChoice(made(asked, models))
    times = probed(models, fitting)
    best = min(times, key=lambda name: times[name], default="serial")
    worth = bool(times) and times[best] <= WORTH * times["serial"]
    return OverlapChoice(made(best if worth else "serial", models), dict(times))


def threads_of(asked: str, n_threads: int) -> int:
    """Torch's threads for a run: lanes that were asked to be threads share the cores between them.

    Not when a probe chose them: then rounding would depend on how busy the machine was.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(n_threads, max(1, cores // 2)) if asked == "threads" else n_threads


_NEEDS = {
    "threads": "both models on the host",
    "streams": "both models on one CUDA device",
    "two_device": "the models on two devices (--draft-device)",
}


def possible(models: FactoryModels) -> tuple[str, ...]:
    """The lanes that the places of the models allow."""
    target, draft = models.devices
    if target != draft:
        return ("serial", "two_device")
    return ("serial", *{"cpu": ("threads",), "cuda": ("streams",)}.get(target.type, ()))


def made(name: str, models: FactoryModels) -> OverlapLanes:
    """Lanes of that name for these models."""
    target, draft = models.devices
    if name == "serial":
        return Serial()
    if name == "threads" or target.type != "cuda":
        return Threads(name)
    return Launched(name, target, draft)


@torch.inference_mode()
def probed(models: FactoryModels, names: tuple[str, ...]) -> Times:
    """Median milliseconds by lane, measured once per pair; empty for what is no pair of the library's."""
    target, draft = models.target, models.draft
    small = min(CONTEXT + WIDTH, *(model.context for model in (target, draft or target)))
    if not isinstance(target, ModelAdapter) or not isinstance(draft, ModelAdapter) or small < CONTEXT + WIDTH:
        return {}
    known = _times.setdefault(target, WeakKeyDictionary())
    if draft not in known:
        trial = _Trial(target, draft)
        lanes = [made(name, models) for name in names]
        found: dict[str, list[float]] = {lane.name: [] for lane in lanes}
        for _ in range(TURNS + 1):
            for lane in lanes:
                found[lane.name].append(trial.once(lane))
        known[draft] = {name: median(times[1:]) for name, times in found.items()}
    return known[draft]


class _Trial:
    """A target pass of `WIDTH` rows and `STEPS` forwards of the draft model, each behind a filled cache."""

    def __init__(self, target: ModelAdapter, draft: ModelAdapter) -> None:
        self.models, self.devices = (target, draft), FactoryModels(target, draft, 0).cuda_devices
        self.caches = tuple(model.new_cache(CONTEXT + WIDTH) for model in self.models)
        self.texts = tuple([1 % model.vocab] * CONTEXT for model in self.models)

    def once(self, lanes: OverlapLanes) -> float:
        """Time of one round by these lanes, in ms."""
        for model, cache, text in zip(self.models, self.caches, self.texts, strict=True):
            fill(model, cache, text)
        began = time.perf_counter()
        lanes.run(self._pass, self._steps, self._settle)
        return (time.perf_counter() - began) * 1e3

    def _pass(self) -> Any:
        rows = Rows(self.models[0], self.caches[0])
        rows.add_line([1 % rows.model.vocab] * WIDTH)
        return rows.take()

    def _steps(self) -> Any:
        rows, row, token = Rows(self.models[1], self.caches[1]), -1, 1 % self.models[1].vocab
        for _ in range(STEPS):
            row = rows.add(token, row)
            token = int(rows.take()[0].argmax())
        return token

    def _settle(self) -> None:
        for device in self.devices:
            torch.cuda.synchronize(device)


WIDTHS = (1, 2, 3, 5, 9, 17)
CONTEXT, REPEATS, LEAST = 64, 20, 3
PATIENCE_S = 1.5  # for a small model that is ample for 20; a large one gets LEAST whatever they take
FEW, SLOW_NS = (1, 5), 250_000_000  # a target whose pass takes so long is timed at few widths, each once
ENDS = (WIDTHS[0], WIDTHS[-1])  # that are timed to price exact rows before a run

Known = WeakKeyDictionary[ModelAdapter, dict[tuple[int, ...], tuple[Calibration, float]]]  # by widths; and when
_known: WeakKeyDictionary[ModelAdapter, Known] = WeakKeyDictionary()  # target -> draft model (or itself) -> costs


def is_padded(models: FactoryModels) -> bool:
    """Whether a row of the target, to be exact, is computed beside others that nobody wants."""
    widths = models.target.widths if isinstance(models.target, ModelAdapter) else None
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
    found, when = known[widths]
    found = msgspec.structs.replace(found, age_s=time.perf_counter() - when)  # a record of its own, to be stamped
    return with_clock(found, drafter.clock) if drafter and drafter.clock else found


def with_clock(found: Calibration, clock: Clock) -> Calibration:
    """The record with what a layer, the final head and a head test cost."""
    out = msgspec.structs.replace(found)
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
        passes.append(_pass(_unpadded(target), 1, siblings=False))
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


def _unpadded(target: ModelAdapter) -> ModelAdapter:
    """The same model, whose rows may round as they stand, by no other way through its layers than torch's."""
    found = copy(target)
    found.widths = found.compiled = None
    return found


def _is_slow(target: ModelAdapter) -> bool:
    """Whether a pass takes so long that timing many of them would hold up the run; the first pass does not count."""
    once = _pass(target, 1, siblings=False)
    return once() > SLOW_NS and once() > SLOW_NS


def _timed(passes: Sequence[Callable[[], int]], patience_s: float, least: int) -> tuple[list[int], int]:
    """Medians, and of how many; every pass once before anything counts, unless once must be enough."""
    for once in passes if least > 1 else ():
        once()
    began, found = time.perf_counter(), [[once()] for once in passes]
    while len(found[0]) < REPEATS and (len(found[0]) < least or time.perf_counter() - began < patience_s):
        for once, times in zip(passes, found, strict=True):
            times.append(once())
    return [max(1, round(median(times))) for times in found], len(found[0])


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
    rows = Rows(model, cache)
    for number in range(width):
        rows.add(token, -1 if siblings else number - 1)
    rows.take()
    if cuda:
        torch.cuda.synchronize()
    return now() - began


def slope(widths: Sequence[int], times: Sequence[int]) -> float:
    """`kappa` of `T(w) = T(1) (1 + kappa (w - 1))`: least squares through the measured `T(1)`."""
    more = np.asarray(widths[1:], dtype=float) - 1
    extra = np.asarray(times[1:], dtype=float) / times[0] - 1
    return float((more * extra).sum() / (more**2).sum())
