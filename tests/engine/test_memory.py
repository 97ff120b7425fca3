"""Memory is told before it is taken: caches to the byte, what does not fit in one line; long prompts go by chunks."""

import contextlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from specviz.cli.run.timings import growth
from specviz.commands import Start
from specviz.engine import memory
from specviz.engine.memory import free_bytes, plan_of, refuse_run, refuse_weights
from specviz.engine.model import rows
from specviz.engine.model.adapter import ModelAdapter
from specviz.engine.model.exact.proof import make_exact
from specviz.engine.model.pair import Pair, load_pair
from specviz.engine.model.rows import ForwardBatch, PromptChunk, fill
from specviz.engine.run.local import LocalRun
from specviz.errors import ModelError, SpecvizError
from specviz.events import End, Event, Header, Warn
from support.backends import kernel_of
from support.models import build

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def pair() -> Pair:
    return load_pair(needs_draft=False, threads=1)


@torch.inference_mode()
@pytest.mark.parametrize(("arch", "exact"), [("llama", True), ("qwen3", False), ("gpt2", False), ("gemma2", False)])
def test_caches_take_what_was_predicted(arch: str, exact: bool) -> None:
    for dtype in (torch.float32, torch.bfloat16):
        adapter = ModelAdapter(build(arch, dtype=dtype))
        if exact:
            adapter = adapter.with_backend(make_exact(adapter)[0])
        plan = plan_of([adapter], 77, 3)
        cache = adapter.new_cache(77)
        fed = ForwardBatch(adapter, cache)
        fed.add_line([1, 2, 3])
        fed.take()
        assert cache._buffer is not None
        assert plan.caches == cache._buffer.nbytes
        shared = {weight.data_ptr(): weight.nbytes for weight in adapter.model.parameters()}
        assert sum(shared.values()) <= plan.weights <= 1.5 * sum(shared.values())
        twice = plan_of([adapter, adapter], 77, 3)
        assert (twice.weights, twice.caches) == (plan.weights, 2 * plan.caches), "weights that are shared count once"


@torch.inference_mode()
@pytest.mark.parametrize("length", [1, 40, 900])
def test_the_kernel_works_in_what_was_predicted(pair: Pair, length: int) -> None:
    """No scores of a whole prompt: a long one would be refused for memory that nobody takes."""
    adapter, taken = pair.target.adapter, []
    if adapter.products == "torch":  # no compiler here
        return
    kernel = kernel_of(adapter)
    own = kernel._functions

    def working(*args: Any) -> int:
        taken.append(own.forward_bytes(*args))
        return int(taken[-1])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernel, "_functions", replace(own, forward_bytes=working))
        fill(adapter, adapter.new_cache(length), [7] * length)
    seen = length * length
    assert max(taken) <= plan_of([adapter], length, length).work + 50_000 <= 2 * max(taken) + 3 * seen + 50_000


def test_what_does_not_fit_is_one_line(monkeypatch: pytest.MonkeyPatch, pair: Pair) -> None:
    monkeypatch.setattr(memory, "free_bytes", lambda device: 1_500_000)
    with pytest.raises(
        ModelError, match=r"^--target big: its weights take 280\.0 GB in float32, and 2 MB are free: use "
    ):
        refuse_weights("--target big", {"BF16": 70_000_000_000, "I64": 9}, torch.float32, CPU)
    refuse_weights("--target small", {"F32": 300_000}, torch.float32, CPU)
    with pytest.raises(
        SpecvizError, match=r"^a prompt of \d+ tokens and 500 new ones take \d+ MB beside the models \("
    ):
        LocalRun(pair, Start(prompt="a b c", method="ar", knobs={"max_new_tokens": 500}), lambda event: None)
    monkeypatch.setattr(memory, "free_bytes", lambda device: None)
    refuse_run(plan_of([pair.target.adapter], 10**9, 10), 10, 10, CPU)


def test_a_container_s_limit_is_the_free_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(memory, "_CGROUP", tmp_path)
    machine = free_bytes(CPU)
    assert machine
    for limit, wanted in (("5000", 3000), ("1000", 0), ("max", None)):
        (tmp_path / "memory.max").write_text(limit)
        (tmp_path / "memory.current").write_text("2000")
        free = free_bytes(CPU)
        assert free == wanted if wanted is not None else free and free > 5000
    assert free_bytes(torch.device("meta")) is None


def events_of(pair: Pair, prepare: Callable[[LocalRun], Any], **knobs: Any) -> list[Event]:
    events: list[Event] = []
    run = LocalRun(pair, Start(prompt="def add(a, b):\n" * 8, method="ar", knobs=knobs), events.append)
    prepare(run)
    with contextlib.suppress(KeyboardInterrupt):
        list(run.rounds())
    return events


def test_a_prompt_is_told_by_chunks_and_left_between_them(monkeypatch: pytest.MonkeyPatch, pair: Pair) -> None:
    monkeypatch.setattr(rows, "BLOCK", 16)
    progress: list[tuple[int, int]] = []
    runs: list[LocalRun] = []

    def watch(run: LocalRun) -> None:
        run.on_prompt = lambda done, total: progress.append((done, total))
        runs.append(run)

    events = events_of(pair, watch, max_new_tokens=2)
    fed = len(runs[0].session.prompt) - 1
    assert progress == [(min(fed, 16 * k), fed) for k in range(1, -(-fed // 16) + 1)]
    assert [(chunk.before, chunk.n_rows) for chunk in runs[0].session.chunks] == [
        (before, min(16, fed - before)) for before in range(0, fed, 16)
    ]
    assert not [event for event in events if isinstance(event, Warn) and event.code != "kernel"]

    def leave(run: LocalRun) -> None:
        run.on_prompt = lambda done, total: run.stop("cancelled") if done == 32 else progress.append((done, total))

    progress.clear()
    events = events_of(pair, leave, max_new_tokens=2)
    assert progress == [(16, fed)], "nothing was fed behind"
    assert isinstance(events[-1], End)
    assert events[-1].reason == "cancelled"


def test_a_text_that_the_positions_cut_short_is_told_before_it_begins(pair: Pair) -> None:
    context = pair.target.adapter.context
    runs: list[LocalRun] = []

    def stop(run: LocalRun) -> None:
        runs.append(run)
        run.stop()

    events = events_of(pair, stop, max_new_tokens=context)
    header = events[0]
    assert isinstance(header, Header)
    assert header.env["memory"]["slots"] == runs[0].session.cache.capacity
    room = context - len(runs[0].session.prompt)
    warned = [event.message for event in events if isinstance(event, Warn) and event.code != "kernel"]
    assert warned == [f"the target has {context:,} positions: the prompt leaves {room:,} of {context:,} new tokens"]


def test_growth_is_the_line_through_the_chunks() -> None:
    chunks = [PromptChunk(k, 1000, 0, round(1000 * (2e6 + (k + 500) * 500))) for k in (0, 1000, 2000)]
    assert growth(chunks) == pytest.approx((2.0, 0.5))
    assert growth(chunks[:1])[1] == 0
