"""`specviz stats`: data on standard output, narration on standard error, exit codes."""

import json
from pathlib import Path

import pytest

from specviz.cli import main
from specviz.events import Calibration, End, Header, ModelInfo, Models, encode
from specviz.metrics import METRICS, measure
from specviz.runlog.fold import fold
from specviz.trace import Recorder
from specviz.view import Player
from support.branch_trace import worked
from support.judged import judged_run, many
from support.traces import Recipe, make_events, make_header, plain_round, write_trace

EVENTS = make_events(temperature=1.0, new_tokens=60)
OF_SOME = {
    "branch_hit_rate",
    "branch_mass",
    "hrad_confusion",
    "layer_calls_per_token",
    "cells_per_token",
    "head_tests_per_token",
    "exit_rate",
    "mean_exit_layer",
    "wrong_exit_rate",
    "draft_precision",
    "modelled",
    "modelled_speedup",
    "bucket_confusion",
    "bucket_accuracy",
    "coverage",
    "slot_accuracy",
    "block_counts",
    "depth_counts",
    "adapted",
}
Captured = pytest.CaptureFixture[str]


def test_tables_hold_every_metric_and_every_position(tmp_path: Path, capsys: Captured) -> None:
    assert main(["stats", str(write_trace(tmp_path / "run", EVENTS))]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    metrics = measure(EVENTS)
    shown = {line.split()[0] for line in out.splitlines() if line.strip()}
    unseen = {"stage_ms", "accepted_histogram", "share_above", "survival", "position_acceptance", "depth_acceptance"}
    unseen |= {"overlap_efficiency"}  # null on serial lanes
    unseen |= {"over_plain"}  # in the line on top, and nowhere else
    unseen |= {name for name in METRICS if name in OF_SOME and metrics[name] is None}
    assert set(METRICS) - unseen <= shown
    assert metrics.depth_acceptance is not None
    for heading in ("survival", "position_acceptance", "depth_acceptance", "share_above", "95 % interval"):
        assert heading in out
    rows = [line.split() for line in out.splitlines()]
    assert any(row[:1] == ["n_accepted"] and row[1] == str(metrics.n_accepted) for row in rows)
    estimate = metrics.mean_acceptance_length
    assert estimate is not None
    assert estimate.interval is not None
    expected = ["mean_acceptance_length", f"{estimate.value:.2f}", f"{estimate.interval[0]:.2f}", ".."]
    assert any(row[:4] == expected for row in rows)


def test_what_only_some_methods_have_is_shown_where_there_is(tmp_path: Path, capsys: Captured) -> None:
    calibration = Calibration(t_ns=1_000_000, c=4.0, kappa_q=0.0, kappa_p=0.0)
    header = make_header(level="summary", method="specbranch", knobs={"gamma": 4})
    events = [header, calibration, *(event for records in worked() for event in records), End(reason="done")]
    assert main(["stats", str(write_trace(tmp_path / "run", events))]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert any(row[:2] == ["branch_mass", ".500"] for row in rows)
    assert any(row[:2] == ["1", "0"] for row in rows)  # k = 1: one match, a miss
    assert ["said", "2", "0", "1", "0", "0", "%"] in rows
    assert ["recall", "—", "0", "%", "—"] in rows
    assert any(row[:3] == ["modelled", "clock", "value"] for row in rows)
    assert any(row[:2] == ["modelled.elapsed_s", ".015"] for row in rows)  # 15 forwards of a millisecond


def test_one_model_alone_has_no_two_lanes(tmp_path: Path, capsys: Captured) -> None:
    """Nothing is said of bubbles, overlap or draft forwards; the unit of its modelled clock is the target's pass."""
    header = make_header(level="none", method="lookahead", knobs={}, models=Models(target=ModelInfo(name="t")))
    costs = Calibration(target_ns=[4_000_000], widths=[1], kappa_p=0.0)
    events = [header, costs, *plain_round(1, 5, 0, 0, closing="bonus"), End(reason="done")]
    assert main(["stats", str(write_trace(tmp_path / "run", events))]) == 0
    out = capsys.readouterr().out
    rows = [line.split() for line in out.splitlines()]
    assert any(row[:2] == ["modelled.t_s", ".00400"] and "target" in row for row in rows)
    for word in ("bubble", "overlap", "wasted", "draft forward", "kappa_q", "classifier"):
        assert word not in out


def test_json_is_one_object_with_the_names_of_the_contract(tmp_path: Path, capsys: Captured) -> None:
    path = write_trace(tmp_path / "run", EVENTS)
    assert main(["stats", str(path), "--json", "--check"]) == 0
    out, err = capsys.readouterr()
    report = json.loads(out)
    assert err == ""
    assert report["file"] == str(path)
    assert (report["method"], report["verifier"], report["end"], report["torn"]) == (
        "draft",
        "tokenwise",
        "done",
        False,
    )
    assert list(report["metrics"]) == list(METRICS)
    rate = measure(EVENTS).draft_acceptance_rate
    assert rate is not None
    assert rate.interval is not None
    assert report["metrics"]["draft_acceptance_rate"] == {
        "value": rate.value,
        "interval": list(rate.interval),
        "n": rate.n,
    }
    assert set(report["metrics"]["survival"]) == {"1", "2", "3", "4"}


def test_several_files_are_several_sections(tmp_path: Path, capsys: Captured) -> None:
    paths = [str(write_trace(tmp_path / name, make_events(Recipe(shape=name)))) for name in ("chain", "tree", "none")]
    assert main(["stats", *paths]) == 0
    out = capsys.readouterr().out
    assert [line for line in out.splitlines() if line in paths] == paths
    assert main(["stats", *paths, "--json"]) == 0
    runs = json.loads(capsys.readouterr().out)["runs"]
    assert [run["method"] for run in runs] == ["draft", "draft", "ar"]
    assert runs[2]["metrics"]["draft_acceptance_rate"] is None


def test_one_bad_file_of_several_prints_nothing_on_standard_output(tmp_path: Path, capsys: Captured) -> None:
    good = write_trace(tmp_path / "run", EVENTS)
    assert main(["stats", str(good), str(tmp_path / "rum")]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "did you mean 'run'" in err
    assert err.count("\n") == 1


def test_a_cut_off_recording_is_measured_and_said(tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "cut.sv.jsonl"
    path.write_bytes(b"".join(encode(event) + b"\n" for event in EVENTS[:60]) + b'{"ev":"no')
    assert main(["stats", str(path), "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["end"] is None
    assert json.loads(out)["torn"] is True
    assert err.splitlines() == [
        f"specviz: {path}: cut off, there is no end record",
        f"specviz: {path}: the last line is torn and was left out",
    ]


def test_a_growing_recording_is_measured_as_far_as_it_goes(tmp_path: Path, capsys: Captured) -> None:
    recorder = Recorder(tmp_path / "run")
    for event in EVENTS[:60]:
        recorder.write(event)
    assert main(["stats", str(recorder.path)]) == 0
    assert "still being recorded" in capsys.readouterr().err
    recorder.close()


def test_an_early_end_is_told_with_its_reason(tmp_path: Path, capsys: Captured) -> None:
    recorder = Recorder(tmp_path / "run")
    for event in EVENTS[:60]:
        recorder.write(event)
    recorder.close("core_lost", "SIGKILL - probably out of memory")
    assert main(["stats", str(recorder.path)]) == 0
    assert "ended early (core_lost: SIGKILL - probably out of memory)" in capsys.readouterr().err


def test_check_finds_a_changed_file(tmp_path: Path, capsys: Captured) -> None:
    recorder = Recorder(tmp_path / "run")
    for event in EVENTS:
        recorder.write(event)
    import gzip

    plain = tmp_path / "changed.sv.jsonl"
    plain.write_bytes(gzip.decompress(recorder.path.read_bytes()).replace(b" cat", b" dog"))
    assert main(["stats", str(plain)]) == 0
    assert main(["stats", str(plain), "--check"]) == 2
    assert "was changed after it was recorded" in capsys.readouterr().err


def test_hostile_names_in_a_header_do_not_reach_the_terminal(tmp_path: Path, capsys: Captured) -> None:
    header = EVENTS[0]
    assert isinstance(header, Header)
    assert header.models.target is not None
    events = make_events(temperature=1.0)
    assert isinstance(events[0], Header)
    assert events[0].models.target is not None
    events[0].models.target.name = "[red]evil\x1b[2Jmodel"
    events[0].method = "dr\x1b]0;aft"
    assert main(["stats", str(write_trace(tmp_path / "run", events))]) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "[red]evil" in out, "markup is shown, not obeyed"


@pytest.mark.parametrize("arguments", [["stats"], ["stats", "--jason", "x"]])
def test_wrong_usage_is_one_line_and_exit_code_2(arguments: list[str], capsys: Captured) -> None:
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1


def test_what_stands_out_is_said_before_the_tables_with_a_way_to_it(tmp_path: Path, capsys: Captured) -> None:
    """As the screens say it, though no round is kept while the file is read."""
    events = judged_run(many(200, [0.8] * 4, [2, 2, 2, 2, 4, 1]))
    judgement = Player(fold(events), animate=False).frame().judgement
    path = write_trace(tmp_path / "run", events)
    assert main(["stats", str(path), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)["judgement"]
    assert report["line"] == judgement.line
    assert [finding["detector"] for finding in report["findings"]] == [
        finding.detector for finding in judgement.findings
    ]
    for entry, finding in zip(report["findings"], judgement.findings, strict=True):
        assert entry["claim"] == finding.claim
        assert entry["evidence"] == list(dict.fromkeys(place.at for place in finding.places))
    assert any(finding["evidence"] for finding in report["findings"])
    assert main(["stats", str(path)]) == 0
    words = " ".join(capsys.readouterr().out.split())
    assert words.index(judgement.findings[0].headline) < words.index("whole run")
    assert f"--at {judgement.findings[0].places[0].at})" in words
