"""`Round`: the plain record of one cycle, exactly one target pass. All events, metrics and tests are made from it."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import torch

from specviz.engine.decode.overlap import Both
from specviz.engine.model.rows import Call, Tensor
from specviz.events import Event
from specviz.events.round import Finish
from specviz.probability.draft import Carry, Draft
from specviz.probability.plan import Draws, Outcome, Plan
from specviz.probability.rows import Rows

Kind = Literal["accepted", "branch", "recovered", "bonus"]


class Clock:
    """Nanoseconds by stage, and the stretches of time each lane was at work.

    With CUDA devices (`cuda`) a stage ends when they have done their work. Where target and drafter overlap, no second
    is counted twice: what the drafter did behind the target's back stands in the spans alone.
    """

    def __init__(self, cuda: tuple[torch.device, ...] = ()) -> None:
        self.ns: dict[str, int] = {}
        self.spans: list[tuple[str, int, int]] = []
        self.timed_by: Literal["host", "device"] = "host"  # how long the target's pass and what stood beside it took
        self._cuda = cuda

    def settle(self) -> None:
        """Wait until the devices have done their work."""
        for device in self._cuda:
            torch.cuda.synchronize(device)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the time of a block to a stage."""
        began = time.perf_counter_ns()
        try:
            yield
        finally:
            self.settle()
            took = time.perf_counter_ns() - began
            self.ns[name] = self.ns.get(name, 0) + took
            self.spans.append((name, began, took))

    def beside(self, both: Both[Any, Any]) -> None:
        """The target's pass and what was drafted meanwhile: the target's whole time, the drafter's where it stuck out.

        The stretch both took together is what passed from the first start to the last end.
        """
        target, drafter, self.timed_by = both.target_work, both.drafter_work, both.timed_by
        self.spans.append(("target", *target))
        works = [target]
        if drafter is not None:
            self.spans.append(("meanwhile", *drafter))
            works.append(drafter)
        whole = max(began + took for began, took in works) - min(began for began, _ in works)
        self.ns["target"] = self.ns.get("target", 0) + target[1]
        if drafter is not None:
            self.ns["draft"] = self.ns.get("draft", 0) + whole - target[1]


@dataclass(slots=True)
class Round:
    """What happened in one round. `tokens`/`kinds`/`texts` are those committed, after the cut."""

    number: int
    n: int
    root: int
    knob_version: int
    kv_before: dict[str, int | None]
    carry: Carry | None = None  # what the round before left to this one
    draft: Draft = field(default_factory=Draft)
    logits: Tensor | None = None  # [n_fed + 1, V], raw
    target_probs: Rows | None = None  # [n_fed + 1, V], the law
    plan: Plan | None = None
    keys: Draws | None = None
    outcome: Outcome | None = None
    tokens: tuple[int, ...] = ()
    kinds: tuple[Kind, ...] = ()
    texts: tuple[str, ...] = ()
    n_accepted: int = 0
    cut: bool = False
    finish: Finish | None = None
    facts: list[Event] = field(default_factory=list)
    ledger: list[Call] = field(default_factory=list)
    n_draft_calls: int = 0
    n_syncs: int = 0
    clock: Clock = field(default_factory=Clock)
    kv_after: dict[str, int | None] = field(default_factory=dict)
    started_ns: int = 0
    ended_ns: int = 0
    observe_ns: int = 0  # what the drafter then took to write down its records: no part of the round

    @property
    def n_after(self) -> int:
        """Committed length after the round."""
        return self.n + len(self.tokens)
