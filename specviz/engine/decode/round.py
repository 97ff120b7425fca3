"""`Round`: the plain record of one cycle, exactly one target pass. All events, metrics and tests are made from it.

`chain` records: the joint ratios of sampled chains, whatever the verifier, so that others can be compared offline.

One record per node of every candidate that begins at the root: the chain itself, each of several chains, the main and
the first side chains of a caterpillar. Candidates that begin further down start again from weight 1 (verification.md
3.7), so a ratio from the root on says nothing about them. Point masses have no ratios worth showing: none is written.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import torch

from specviz.engine.decode.overlap import Both
from specviz.engine.model.rows import Call, Tensor
from specviz.events import Chain, Event, six
from specviz.events.base import ZERO
from specviz.events.round import Finish
from specviz.probability.draft import Carry, Draft
from specviz.probability.plan import Draws, Outcome, Plan
from specviz.probability.rows import CertainRows, Rows
from specviz.verifiers import _joint
from specviz.verifiers._candidates import candidates

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


def chain_records(done: Round) -> Iterator[Chain]:
    """The records of a finished round, candidate by candidate, from the root on."""
    draft, rows = done.draft, done.target_probs
    if not draft.is_drawn or rows is None or isinstance(rows, CertainRows):
        return
    for path in candidates(draft):
        if path.shared == 0 and any(draft.row_of[node] >= 0 for node in path.nodes):
            part = _joint.chain(draft, path.nodes, rows)
            for node, position in zip(path.nodes, _joint.records(part), strict=True):
                yield _record(draft.ids[node], position)


def _record(node: int, at: _joint.Position) -> Chain:
    return Chain(
        node=node, log_r=_log(at.log_r), cap_at=at.cap_at, log_c=_log(at.log_c), d_pq=_six(at.d_pq),
        d_qp=_six(at.d_qp), dhat_pq=_six(at.dhat_pq), dhat_qp=_six(at.dhat_qp), h=at.h,
        credit_token=six(at.credit_token), credit_hsd=six(at.credit_hsd), credit_naive=six(at.credit_naive),
    )  # fmt: skip


def _log(x: float) -> float:
    return max(ZERO, six(x))


def _six(x: float | None) -> float | None:
    return None if x is None else six(x)
