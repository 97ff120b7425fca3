"""llama.cpp's server as a contestant, on the embedded pair: same greedy text, counts, no process left."""

import subprocess
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from specviz.errors import SpecvizError
from specviz_lab.bench.llama import arm as served
from specviz_lab.bench.results import Report
from specviz_lab.bench.settings import BenchSettings, contestants
from specviz_lab.bench.speed import bench

ARMS = "ar,llama-plain,llama-draft,llama-ngram"
N = 24


def settings_of(arms: str) -> BenchSettings:
    return BenchSettings(contestants(arms), max_new_tokens=N, repeats=1, limit=2, threads=1, dtype="float32")


def watch_starts(patch: pytest.MonkeyPatch) -> list[Any]:
    """A list that grows by every process that is started for an arm."""
    started: list[Any] = []
    popen = subprocess.Popen

    def starting(*args: Any, **more: Any) -> Any:
        process = popen(*args, **more)
        if "specviz_lab.bench.llama.serve" in args[0]:
            started.append(process)
        return process

    patch.setattr(subprocess, "Popen", starting)
    return started


@pytest.fixture(scope="module")
def measured() -> Iterator[tuple[Report, list[Any]]]:
    """A whole measurement, and every server process that it started."""
    pytest.importorskip("xllamacpp")
    with pytest.MonkeyPatch.context() as patch:
        started = watch_starts(patch)
        yield bench(settings_of(ARMS), "", lambda _: None), started


def test_the_same_weights_write_the_same_greedy_text(measured: tuple[Report, list[Any]]) -> None:
    """Where two texts part, rounding decided: the two highest logits are as good as equal there."""
    same = {equality.arm: equality for equality in measured[0].equality}
    assert set(same) == set(ARMS.split(",")[1:])
    for equality in same.values():
        assert equality.n == 2
        assert equality.worst is None or equality.worst.margin < 1e-3


def test_counts_are_the_server_s_and_add_up(measured: tuple[Report, list[Any]]) -> None:
    arms = {arm.name: arm for arm in measured[0].arms}
    assert arms["llama-plain"].n_drafted == 0
    assert arms["llama-plain"].tokens_per_round == 1
    assert 0 < arms["llama-draft"].n_accepted < arms["llama-draft"].n_drafted
    assert all(arms[name].stage_ms["server"] > 0 for name in ARMS.split(",")[1:])
    ratios = {(ratio.arm, ratio.base): ratio for ratio in measured[0].ratios}
    assert ratios["ar", "llama-plain"].cpu is None  # the processor's time of this process says nothing of a server's


def test_no_server_outlives_the_measurement(measured: tuple[Report, list[Any]]) -> None:
    assert len(measured[1]) == 3
    assert all(process.poll() is not None for process in measured[1])


def test_ctrl_c_stops_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("xllamacpp")
    started = watch_starts(monkeypatch)

    def interrupt(line: str) -> None:
        if line.startswith("repeat"):
            assert [process.poll() for process in started] == [None]  # it serves
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bench(settings_of("llama-plain"), "", interrupt)
    assert [process.poll() is None for process in started] == [False]


def test_without_the_wheel_its_rows_say_so_and_the_others_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served, "find_spec", lambda _: None)
    report = bench(settings_of("ar,llama-plain"), "", lambda _: None)
    assert [arm.name for arm in report.arms] == ["ar"]
    assert any(
        note.startswith("llama-plain was not measured: llama.cpp's server needs the extra 'lab': pip install")
        for note in report.notes
    )
    with pytest.raises(SpecvizError, match="nothing is left to measure: llama-plain"):
        bench(settings_of("llama-plain"), "", lambda _: None)


def test_fewer_bits_are_another_model_and_may_draft_for_the_whole_one() -> None:
    """No text is promised of packed weights; of drafts by them the target's own is."""
    pytest.importorskip("xllamacpp")
    packed = "llama-plain:q8_0,llama-plain:q4_0"
    settings = settings_of(f"ar,{packed},llama-draft")
    report = bench(replace(settings, draft="self:int4"), "", lambda _: None)
    arms = {arm.name: arm for arm in report.arms}
    assert set(packed.split(",")) < set(arms)
    assert {equality.arm for equality in report.equality} == {"llama-draft"}
    assert 0 < arms["llama-draft"].n_accepted < arms["llama-draft"].n_drafted
    assert {("llama-plain:q8_0", "ar"), ("llama-plain:q4_0", "ar")} < {(r.arm, r.base) for r in report.ratios}


def test_other_formats_are_refused_with_the_nearest() -> None:
    with pytest.raises(SpecvizError, match=r"no format 'q4_1'.*q4_0"):
        contestants("llama-plain:q4_1")
    with pytest.raises(SpecvizError, match="only our own methods can be recorded"):
        contestants("llama-plain:q4_0+full")
