"""Profiles of torch: spans of an engine's stages become rounds on the screen Lanes, and nothing is said of tokens."""

import gzip
import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from specviz.cli import main
from specviz.cli.look.stats import measure_file
from specviz.engines.rounds.files import import_file
from specviz.events import Span
from specviz.runlog.fold import Run, fold
from specviz.trace import read_events
from specviz.view import Cursor, Feed, Options
from specviz.view.panels import opening
from specviz.view.panels.lanes.build import LanesPanel
from specviz.view.play.build import FrameBuilder
from specviz.view.words.palette import Phase
from support.traces import make_events

Captured = pytest.CaptureFixture[str]
VLLM = [f"gpu_model_runner: {stage}" for stage in ("preprocess", "forward", "sample", "draft", "bookkeep")]
SGLANG = ["draft", "verify", "draft_extend"]


def _profiled(path: Path, stages: list[str], n_steps: int) -> Path:
    """A real profile: torch's own, of work under those names."""
    import torch
    from torch.profiler import ProfilerActivity, profile, record_function

    with profile(activities=[ProfilerActivity.CPU]) as taken:
        for _ in range(n_steps):
            for stage in stages:
                with record_function(stage):
                    torch.ones(8, 8) @ torch.ones(8, 8)
    taken.export_chrome_trace(str(path))
    return path


def _event(name: str, ts: float, dur: float, cat: str = "user_annotation", **more: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": 1, "ts": ts, "dur": dur, **more}


def _saved(path: Path, events: list[Any]) -> Path:
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    return path


def _rounds(run: Run) -> list[list[tuple[str, str]]]:
    return [[(span.lane, span.name) for span in record.every(Span)] for record in run.rounds]


@pytest.mark.parametrize(("stages", "lanes"), [(VLLM, "sync target sync draft sync"), (SGLANG, "draft target draft")])
def test_a_real_profile_is_rounds_on_the_lanes(tmp_path: Path, stages: list[str], lanes: str) -> None:
    file = _profiled(tmp_path / "worker.json", stages, 3)
    assert main(["import", str(file), "-o", str(tmp_path / "a")]) == 0
    assert main(["stats", str(tmp_path / "a"), "--check"]) == 0
    run = fold(read_events(tmp_path / "a"))
    assert opening(run) is LanesPanel
    assert opening(fold(make_events())) is None
    names = [stage.removeprefix("gpu_model_runner: ") for stage in stages]
    assert _rounds(run) == [list(zip(lanes.split(), names, strict=True))] * 3
    exact = [(e["ts"], e["dur"]) for e in json.loads(file.read_text())["traceEvents"] if e["name"] in stages]
    spans = [span for record in run.rounds for span in record.every(Span)]
    for (ts, dur), span in zip(sorted(exact), spans, strict=True):
        assert abs(span.t0 - 1 - (ts - exact[0][0]) * 1e3) <= 1
        assert abs(span.dur_ns - dur * 1e3) <= 1
    found = LanesPanel.of(FrameBuilder(run).frame(Cursor(2, Phase.COMMIT, 0), LanesPanel.choose(Options()), Feed()))
    assert found is not None
    assert found.chart is not None
    assert {block.shown for block in found.chart.blocks if block.kind != "idle"} == set(names)
    measured = measure_file(tmp_path / "a")
    assert measured.metrics.n_drafted is None
    assert measured.metrics.stage_ms.keys() == ({"draft", "target", "other"})
    assert measured.judgement.tokens.partition(":")[0].endswith("ms a round")


def test_spans_of_a_device_go_before_those_of_the_program_and_the_busiest_worker_before_others(tmp_path: Path) -> None:
    def step(ts: float, cat: str, **more: Any) -> list[dict[str, Any]]:
        return [_event(name, ts + 10 * k, 5, cat, **more) for k, name in enumerate(VLLM)]

    program = [*step(0, "user_annotation"), *step(100, "user_annotation"), *step(0, "user_annotation", pid=2)]
    file = _saved(tmp_path / "host.json", list(reversed(program)))
    assert main(["import", str(file), "-o", str(tmp_path / "host")]) == 0
    run = fold(read_events(tmp_path / "host"))
    assert [len(record.every(Span)) for record in run.rounds] == [5, 5]
    assert [warning.code for warning in run.warnings] == ["other_ranks"]
    device = [*program, *step(400, "gpu_user_annotation", pid=0, tid=7)]  # one pass, but where it ran
    assert main(["import", str(_saved(tmp_path / "both.json", device)), "-o", str(tmp_path / "both")]) == 0
    spans = [s for record in fold(read_events(tmp_path / "both")).rounds for s in record.every(Span)]
    assert [(span.clock, span.dur_ns) for span in spans] == [("device", 5000)] * 5


def test_a_profile_that_was_cut_keeps_what_was_read(tmp_path: Path) -> None:
    text = json.dumps(
        {"traceEvents": [_event(name, 100 * k + n, 1) for k in range(9) for n, name in enumerate(SGLANG)]}
    )
    for name, data in (
        ("plain.json", text[: len(text) * 2 // 3].encode()),
        ("zipped.json.gz", gzip.compress(text.encode(), mtime=0)[:-40]),
    ):
        (tmp_path / name).write_bytes(data)
        assert main(["import", str(tmp_path / name), "-o", str(tmp_path / "cut"), "--force"]) == 0
        run = fold(read_events(tmp_path / "cut"))
        assert run.warnings[-1].code == "cut_short"
        assert 0 < len(run.rounds) <= 9


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('{"traceEvents": []}', "SGLang writes 'draft' and 'verify'"),
        ('{"traceEvents": [{"ph": "X", "cat": "user_annot', "cut off"),
        (json.dumps({"traceEvents": [_event("draft", 1, 1)]}), "a pass of the target"),
        (json.dumps({"traceEvents": [_event("verify", 1, -1), 7, _event(VLLM[1], 1, 1, "cpu_op")]}), "a stage of an"),
        ('{"traceEvents": [{"ph": nonsense}]}', "a stage of an engine"),
    ],
)
def test_a_profile_of_something_else_is_refused_in_a_line(
    tmp_path: Path, capsys: Captured, content: str, words: str
) -> None:
    (tmp_path / "p.json").write_text(content)
    assert main(["import", str(tmp_path / "p.json"), "-o", str(tmp_path / "a")]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1
    assert not list(tmp_path.glob("a.*"))


def test_a_profile_of_any_size_takes_little_memory(tmp_path: Path) -> None:
    """One line of 8 MB, as programs write it that read and write profiles again."""
    others = ",".join(json.dumps(_event("aten::mm", k, 1, "cpu_op", args={"External id": k})) for k in range(1000))
    with (tmp_path / "big.json").open("w") as file:
        file.write('{"traceEvents": [')
        while file.tell() < 8 << 20:
            file.write(others + ",")
        file.write(",".join(json.dumps(_event(name, k, 1)) for k, name in enumerate(SGLANG)) + "]}")
    tracemalloc.start()
    try:
        made = import_file(tmp_path / "big.json", tmp_path / "a", None, None)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    made.trace.close()
    assert len(fold(read_events(tmp_path / "a")).rounds) == 1
    assert most < 6 << 20
