"""`RoundResult`: the plain record of one cycle, exactly one target pass; events, metrics and tests are made from it.

`StageClock` takes its times, `QueryStats` adds up the rounds of a query.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import torch

from specviz.engine.decode.overlap import Overlap
from specviz.engine.model.rows import Call, Tensor
from specviz.events import Event
from specviz.events.round import Finish
from specviz.probability.draft import Carry, Draft
from specviz.probability.host import READS
from specviz.probability.plan import Draws, Outcome, Plan
from specviz.probability.rows import Rows

Kind = Literal["accepted", "branch", "recovered", "bonus"]


class StreamMarks(Protocol):
    """Time marks put into device streams; read after the devices have passed them."""

    def mark(self) -> Any: ...

    def between(self, first: Any, last: Any) -> int:
        """Nanoseconds from one mark to another, of the device that took longest."""
        ...

    def settle(self) -> None:
        """Wait until the devices have done their work."""
        ...


class CudaMarks:
    """Events in the current stream of every device. To record one costs the host nothing that it would wait for."""

    def __init__(self, devices: tuple[torch.device, ...]) -> None:
        self._devices = devices

    def mark(self) -> Any:
        marks = []
        for device in self._devices:
            marks.append(torch.cuda.Event(enable_timing=True))  # type: ignore[no-untyped-call]
            marks[-1].record(torch.cuda.current_stream(device))
        return marks

    def between(self, first: Any, last: Any) -> int:
        for mark in last:
            mark.synchronize()  # passed already, by what was read behind it; but that is seen a moment later
        took: list[float] = [a.elapsed_time(b) for a, b in zip(first, last, strict=True)]  # milliseconds
        return round(max(took) * 1e6)

    def settle(self) -> None:
        for device in self._devices:
            torch.cuda.synchronize(device)
        READS.n_waits += 1


class StageClock:
    """Nanoseconds by stage, and the time spans in which each lane worked.

    Work on devices is timed by `marks` (device events), so no stage waits for its end. `read` collects them once the
    round has waited for its results anyway. Where target and drafter overlap no time is counted twice: what the drafter
    did during the target's pass is in the spans only.
    """

    def __init__(self, marks: StreamMarks | None = None) -> None:
        self.ns: dict[str, int] = {}
        self.spans: list[tuple[str, int, int]] = []
        self.by_device: set[str] = set()  # spans that a device timed
        self._marks = marks
        self._unread: list[tuple[str, int, Any, Any]] = []

    def settle(self) -> None:
        """Wait until the devices have done their work."""
        if self._marks is not None:
            self._marks.settle()

    @contextmanager
    def stage(self, name: str, on_host: bool = False) -> Iterator[None]:
        """Add the time of a block to a stage. `on_host`: no device is asked for anything before the round is over."""
        marks = None if on_host else self._marks
        first = None if marks is None else marks.mark()
        began = time.perf_counter_ns()
        try:
            yield
        finally:
            if marks is None:
                self._add(name, began, time.perf_counter_ns() - began)
            else:
                self._unread.append((name, began, first, marks.mark()))

    def read(self) -> None:
        """What the devices took; before that, stages that they timed are not there."""
        unread, self._unread = self._unread, []
        for name, began, first, last in unread:
            assert self._marks is not None
            self._add(name, began, self._marks.between(first, last))
            self.by_device.add(name)

    def _add(self, name: str, began: int, took: int) -> None:
        self.ns[name] = self.ns.get(name, 0) + took
        self.spans.append((name, began, took))

    def overlapped(self, overlap: Overlap[Any, Any]) -> None:
        """The target's pass and what was drafted meanwhile: the target's whole time, the drafter's where it stuck out.

        The stretch both took together is what passed from the first start to the last end.
        """
        if overlap.timed_by == "device":
            self.by_device |= {"target", "meanwhile"}
        began, took = overlap.target_work
        self.spans.append(("target", began, took))
        self.ns["target"] = self.ns.get("target", 0) + took
        if overlap.drafter_work is not None:
            also, beside = overlap.drafter_work
            self.spans.append(("meanwhile", also, beside))
            whole = max(began + took, also + beside) - min(began, also)
            self.ns["draft"] = self.ns.get("draft", 0) + whole - took


@dataclass(slots=True)
class RoundResult:
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
    clock: StageClock = field(default_factory=StageClock)
    kv_after: dict[str, int | None] = field(default_factory=dict)
    started_ns: int = 0
    ended_ns: int = 0
    observe_ns: int = 0  # what the drafter then took to write down its records: no part of the round

    @property
    def n_after(self) -> int:
        """Committed length after the round."""
        return self.n + len(self.tokens)


@dataclass(slots=True)
class QueryStats:
    """A query as it is served: times, tokens, and how many drafted tokens its rounds kept."""

    seconds: float = 0.0  # prefill included
    round_s: float = 0.0
    n_rounds: int = 0
    n_tokens: int = 0
    histogram: list[int] = field(default_factory=list)  # [j]: rounds that kept j drafted tokens

    def add(self, done: RoundResult) -> None:
        """Add a finished round. Time spent on recording does not count as serving."""
        took = (done.ended_ns - done.started_ns) / 1e9
        self.seconds += took
        self.round_s += took
        self.n_rounds += 1
        self.n_tokens += len(done.tokens)
        self.histogram += [0] * (done.n_accepted + 1 - len(self.histogram))
        self.histogram[done.n_accepted] += 1

    @property
    def mean_acceptance_length(self) -> float:
        """Tokens a round."""
        return self.n_tokens / self.n_rounds if self.n_rounds else 0.0
