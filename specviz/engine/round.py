"""`Round`: the plain record of one cycle, exactly one target pass. All events, metrics and tests are made from it."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

from specviz.draft import Carry, Draft
from specviz.engine.rows import Call, Tensor
from specviz.events import Event
from specviz.events.round import Finish
from specviz.laws import Rows
from specviz.plan import Draws, Outcome, Plan

Kind = Literal["accepted", "branch", "recovered", "bonus"]


class Clock:
    """Nanoseconds by stage. With a CUDA device a stage ends when the device has done its work."""

    def __init__(self, cuda: bool = False) -> None:
        self.ns: dict[str, int] = {}
        self.spans: list[tuple[str, int, int]] = []
        self._cuda = cuda

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the time of a block to a stage."""
        began = time.perf_counter_ns()
        try:
            yield
        finally:
            if self._cuda:
                import torch

                torch.cuda.synchronize()
            took = time.perf_counter_ns() - began
            self.ns[name] = self.ns.get(name, 0) + took
            self.spans.append((name, began, took))


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
    target_call: tuple[int, int] = (0, 0)

    @property
    def n_after(self) -> int:
        """Committed length after the round."""
        return self.n + len(self.tokens)
