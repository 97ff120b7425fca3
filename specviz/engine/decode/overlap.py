"""`OverlapLanes`: where target and drafter run, and when each was at work. Lanes never change tokens.

* `serial`: one after the other, the target first.
* `threads`: the target's pass in a thread of its own. Arithmetic lets go of the interpreter lock, the rest does not.
* `streams`: one thread, two CUDA streams, the target launched first, so the device is never without its work.
* `two_device`: the same with two devices; where the target's is the host itself, a thread.

An exception of either side comes through once neither works any more: only then may caches be put in order.
"""

import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Generic, Literal, Protocol, TypeVar

import torch

from specviz.probability.host import READS

A = TypeVar("A")
B = TypeVar("B")
Work = tuple[int, int]  # began, took: nanoseconds on the host's clock
Settle = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Overlap(Generic[A, B]):
    """What the two lanes made, and when each was at work; None for a drafter that had nothing to do."""

    target: A
    drafter: B | None
    target_work: Work
    drafter_work: Work | None
    timed_by: Literal["host", "device"] = "host"


class OverlapLanes(Protocol):
    """`run` makes the target's pass and, beside it, what the drafter does meanwhile; both are over when it returns.

    `settle` waits for the device that work was given to.
    """

    name: str

    def run(self, target: Callable[[], A], drafter: Callable[[], B] | None, settle: Settle) -> Overlap[A, B]: ...


def timed(work: Callable[[], A], settle: Settle) -> tuple[A, Work]:
    """The result of some work, and when it was done."""
    began = time.perf_counter_ns()
    result = work()
    settle()
    return result, (began, time.perf_counter_ns() - began)


class Serial:
    """One after the other, the target first."""

    name = "serial"

    def run(self, target: Callable[[], A], drafter: Callable[[], B] | None, settle: Settle) -> Overlap[A, B]:
        result, work = timed(target, settle)
        if drafter is None:
            return Overlap(result, None, work, None)
        drafted, beside = timed(drafter, settle)
        return Overlap(result, drafted, work, beside)


class Threads:
    """The target in a thread of its own, the drafter here. Torch's threads are counted per thread: both get as many."""

    def __init__(self, name: str = "threads") -> None:
        self.name = name

    def run(self, target: Callable[[], A], drafter: Callable[[], B] | None, settle: Settle) -> Overlap[A, B]:
        """Both at once; also an interrupt waits for the target's pass, which has an end."""
        if drafter is None:
            return Serial().run(target, None, settle)
        n_threads, pending = torch.get_num_threads(), Future[tuple[A, Work]]()

        @torch.inference_mode()  # a mode of the thread, not of the process
        def beside() -> tuple[A, Work]:
            if torch.get_num_threads() != n_threads:
                torch.set_num_threads(n_threads)
            return timed(target, settle)

        try:
            _helper().put((pending, beside))
            drafted, work = timed(drafter, settle)
            _outlast(pending)
        except BaseException:
            if not pending.cancel():
                _outlast(pending)
            raise
        result, target_work = pending.result()
        return Overlap(result, drafted, target_work, work)


Job = tuple["Future[Any]", Callable[[], Any]]
_jobs: "queue.SimpleQueue[Job] | None" = None
_lock = threading.Lock()


def _helper() -> "queue.SimpleQueue[Job]":
    """The queue of the one thread that works beside this one; started when first wanted, idle at the end."""
    global _jobs
    with _lock:
        if _jobs is None:
            _jobs = queue.SimpleQueue()
            threading.Thread(target=_serve, args=(_jobs,), name="target lane", daemon=True).start()
        return _jobs


def _serve(jobs: "queue.SimpleQueue[Job]") -> None:
    while True:
        pending, work = jobs.get()
        if pending.set_running_or_notify_cancel():
            try:
                pending.set_result(work())
            except BaseException as error:
                pending.set_exception(error)
        del pending, work  # nothing of a round is held until the next one


def _outlast(pending: "Future[Any]") -> None:
    """Wait until the work is over. An interrupt meanwhile is raised then: a half-done pass must not be left behind."""
    interrupt: BaseException | None = None
    while not pending.done():
        try:
            pending.exception()
        except BaseException as error:  # of the wait: those of the work are returned
            if not isinstance(error, KeyboardInterrupt):
                raise
            interrupt = error
    if interrupt is not None:
        raise interrupt


class Launched:
    """Work launched on devices without waiting: two streams of one device, or two devices. The target is launched
    first.

    Each side allocates on its own stream, and waits for the other's earlier work before it begins: memory that one side
    frees is never reused by the other while it is still read.
    """

    def __init__(self, name: str, target: torch.device, drafter: torch.device) -> None:
        self.name = name
        self._target, self._drafter = _Side(target, name == "streams"), _Side(drafter, name == "streams")

    def run(self, target: Callable[[], A], drafter: Callable[[], B] | None, settle: Settle) -> Overlap[A, B]:
        """Launch target and drafter without waiting, then wait for both."""
        if drafter is None:
            return Serial().run(target, None, settle)
        try:
            result = self._target.launch(target)
            drafted = self._drafter.launch(drafter)
        finally:
            READS.n_waits += self._target.finish() | self._drafter.finish()
        return Overlap(result, drafted, self._target.work, self._drafter.work, "device")


class _Side:
    """One side of `Launched`. On CUDA its time is taken by events of the device, else by the host."""

    def __init__(self, device: torch.device, own_stream: bool) -> None:
        self._cuda = device.type == "cuda"
        self._device = device
        self._stream: Any = torch.cuda.Stream(device) if self._cuda and own_stream else None  # type: ignore[no-untyped-call]
        self._marks: tuple[Any, Any] | None = None
        self.work: Work = (0, 0)

    def launch(self, work: Callable[[], A]) -> A:
        """Launch the work on this side's stream; on a CPU it runs at once."""
        if not self._cuda:
            result, self.work = timed(work, lambda: None)
            return result
        self._marks = None
        with torch.cuda.device(self._device), self._on_stream():
            marks: Any = [torch.cuda.Event(enable_timing=True) for _ in range(2)]  # type: ignore[no-untyped-call]
            began = time.perf_counter_ns()
            marks[0].record()
            result = work()
            marks[1].record()
        self._marks, self.work = (marks[0], marks[1]), (began, 0)
        return result

    def _on_stream(self) -> AbstractContextManager[Any]:
        if self._stream is None:
            return nullcontext()
        self._stream.wait_stream(torch.cuda.current_stream(self._device))
        return torch.cuda.stream(self._stream)

    def finish(self) -> bool:
        """Wait for the launched work, also after an exception; returns whether a device had to be waited for."""
        if not self._cuda:
            return False
        (self._stream or torch.cuda.current_stream(self._device)).synchronize()
        if self._stream is not None:
            torch.cuda.current_stream(self._device).wait_stream(self._stream)
        if self._marks is not None:  # both were recorded, and the stream has passed them
            self.work = (self.work[0], round(self._marks[0].elapsed_time(self._marks[1]) * 1e6))
        return True
