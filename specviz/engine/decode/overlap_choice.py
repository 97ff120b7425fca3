"""Which lanes a run uses: those asked for, or those that a short probe finds fastest for the pair.

Only a drafter that works while the target does has anything to overlap; all others run serially, whatever is asked.
The probe makes one target pass beside a few steps of the draft model, by every lane that is possible here, in turn.
"""

import os
import time
from dataclasses import dataclass, field
from statistics import median
from typing import Any
from weakref import WeakKeyDictionary

import torch

from specviz.engine.decode.drafter import Drafter
from specviz.engine.decode.overlap import Launched, OverlapLanes, Serial, Threads
from specviz.engine.model.adapter import FactoryModels, Model, ModelAdapter
from specviz.engine.model.rows import ForwardBatch, fill
from specviz.errors import SpecvizError, suggestion
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
        named = asked not in ("auto", "serial")
        why = f"lanes {asked} have nothing to overlap: this method drafts only between the target's passes"
        return OverlapChoice(Serial(), warning=f"{why}, so it runs serially" if named else None)
    if asked != "auto":
        return OverlapChoice(make_lanes(asked, models))
    times = probed(models, fitting)
    best = min(times, key=lambda name: times[name], default="serial")
    worth = bool(times) and times[best] <= WORTH * times["serial"]
    return OverlapChoice(make_lanes(best if worth else "serial", models), dict(times))


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
    """Names of the lanes that the devices of target and draft model allow."""
    target, draft = models.devices
    if target != draft:
        return ("serial", "two_device")
    return ("serial", *{"cpu": ("threads",), "cuda": ("streams",)}.get(target.type, ()))


def make_lanes(name: str, models: FactoryModels) -> OverlapLanes:
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
        lanes = [make_lanes(name, models) for name in names]
        times_by_lane: dict[str, list[float]] = {lane.name: [] for lane in lanes}
        for _ in range(TURNS + 1):
            for lane in lanes:
                times_by_lane[lane.name].append(trial.once(lane))
        known[draft] = {name: median(times[1:]) for name, times in times_by_lane.items()}
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
        rows = ForwardBatch(self.models[0], self.caches[0])
        rows.add_line([1 % rows.model.vocab] * WIDTH)
        return rows.take()

    def _steps(self) -> Any:
        rows, row, token = ForwardBatch(self.models[1], self.caches[1]), -1, 1 % self.models[1].vocab
        for _ in range(STEPS):
            row = rows.add(token, row)
            token = int(rows.take()[0].argmax())
        return token

    def _settle(self) -> None:
        for device in self.devices:
            torch.cuda.synchronize(device)
