"""`--timings`: stretches end where they are marked, the last two with the records of the run."""

import time

import psutil
import pytest
from msgspec.structs import replace

from specviz import lean
from specviz.cli.run.timings import Timings
from specviz.engine.memory import MemoryPlan
from specviz.engine.model.rows import PromptChunk
from specviz.events import Commit, Header, Prefill
from support.traces import make_events


def test_the_stretches_end_with_the_prompt_and_the_first_commit(capsys: pytest.CaptureFixture[str]) -> None:
    timings = Timings()
    timings.tell()
    assert capsys.readouterr().err == "", "no token came"
    for name in ("start", "imports", "models", "session"):
        timings.mark(name)
    events = make_events(new_tokens=8)
    for event in events[: next(k for k, event in enumerate(events) if isinstance(event, Commit))]:
        timings.sink(event)
    assert "prefill" in timings.stretches
    assert "first round" not in timings.stretches
    for event in events:
        timings.sink(event)
    first = dict(timings.stretches)
    timings.sink(next(event for event in events if isinstance(event, Prefill)))
    assert timings.stretches == first, "only the first of each counts"
    timings.tell()
    lines = capsys.readouterr().err.splitlines()
    stretches = ["start", "imports", "models", "session", "prefill", "first", "all"]
    assert [line.split()[0] for line in lines[1:-1]] == stretches
    assert lines[-1] == "computed by: lanes serial"
    plan, chunks = MemoryPlan(269_000_000, 200_000_000, 8592, 259_000_000), [PromptChunk(k, 9, 8, 9) for k in (0, 9)]
    timings.tell(plan, chunks)
    words = capsys.readouterr().err.splitlines()[len(lines) :]
    assert [line.split()[0] for line in words] == ["prompt,", "0", "9", "a", "memory:"]
    assert "weights 269 MB, caches 200 MB (8,592 slots), passes 259 MB: 459 MB predicted" in words[-1]


def test_a_process_of_our_own_is_counted_from_its_beginning(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Steps of loading have lines of their own, and all lines together are the whole."""
    monkeypatch.setattr(lean, "own_process", True)
    timings, began = Timings(), psutil.Process().create_time()
    least = time.time() - began
    steps = ("start", "imports", "target", "draft", "models", "session")
    for name in steps:
        timings.mark(name)
    for event in make_events(new_tokens=8):
        timings.sink(event)
    walls = [wall for wall, _ in timings.stretches.values()]
    assert all(wall is not None for wall in walls)
    whole, most = sum(wall or 0 for wall in walls), time.time() - began
    assert least - 0.05 <= whole <= most + 0.05, "since the process began, as the system says; clocks step by 10 ms"
    timings.tell()
    lines = capsys.readouterr().err.splitlines()
    assert [line.split()[0] for line in lines[1:-2]] == [*steps, "prefill", "first"]


def test_who_computed_is_told_and_what_a_probe_of_lanes_found(capsys: pytest.CaptureFixture[str]) -> None:
    events = make_events(new_tokens=8)
    env = {"threads": 2, "products": "compiled", "lanes_ms": {"serial": 1.9, "threads": 1.2}}
    timings = Timings()
    for event in events:
        timings.sink(replace(event, env=env, lanes="threads") if isinstance(event, Header) else event)
    timings.tell()
    assert (
        "computed by: 2 threads · the kernel · lanes threads (a round beside its drafting, probed: serial 1.90 ms, "
        "threads 1.20 ms)"
    ) in capsys.readouterr().err.splitlines()


def test_why_it_was_not_the_kernel_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    timings = Timings()
    env = {"threads": 1, "products": "torch", "no_kernel": "its layers see a window"}
    for event in make_events(new_tokens=8):
        timings.sink(replace(event, env=env) if isinstance(event, Header) else event)
    timings.tell()
    assert "· products of torch (no kernel: its layers see a window) ·" in capsys.readouterr().err
