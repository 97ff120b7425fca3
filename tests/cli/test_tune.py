"""`specviz tune`: a pair is tuned in seconds, and what it writes is taken by a run."""

import json
import tomllib
from pathlib import Path

import msgspec
import pytest

from cli.conftest import Cli
from specviz.cli.measure.tune import knob_file
from specviz.events import Header
from specviz.trace.reader import read_events
from specviz.tuning.measured import TuneReport


def _header(cli: Cli, folder: Path, *words: object) -> Header:
    """Of a run of a few tokens, as its trace has it."""
    trace = folder / "run.sv.jsonl"
    done = cli("run", *words, "--example", "code", "--max-new-tokens", "4", "--record", trace, "--force", "-q")
    assert done.code == 0, done.err
    header = read_events(folder / "run.sv.jsonl.gz")[0]
    assert isinstance(header, Header)
    return header


def test_a_pair_is_tuned_and_the_file_is_taken_by_run(cli: Cli, tmp_path: Path) -> None:
    out = tmp_path / "fast.toml"
    words = ["--vary", "gamma=1,3", "--limit", "4", "--minutes", "0.02", "--max-new-tokens", "12", "--out", out]
    done = cli("tune", *words)
    assert done.code == 0, done.err
    report = json.loads(done.out.splitlines()[-1])
    assert report["verdict"] in ("pays", "nothing pays", "cannot tell")
    assert (report["fresh"], report["n_confirmed"]) == (True, 2), "two of the four prompts were kept for the end"
    assert {json.dumps(trial["knobs"]) for trial in report["trials"]} == {"{}", '{"gamma": 1}', '{"gamma": 3}'}
    low, high = report["over_plain"]["interval"]
    assert low <= report["over_plain"]["value"] <= high
    assert done.out.startswith({"pays": "draft"}.get(report["verdict"], report["verdict"].split()[0]))
    whole = msgspec.convert(report, TuneReport)
    assert out.read_text() == knob_file(whole)
    paying = msgspec.structs.replace(whole, verdict="pays")
    assert tomllib.loads(knob_file(paying)) == {"method": "draft", **report["knobs"]}
    out.write_text(knob_file(paying))
    assert _header(cli, tmp_path, "--knobs", out).knobs["gamma"] == report["knobs"].get("gamma", 4)
    out.write_text(knob_file(msgspec.structs.replace(whole, verdict="nothing pays", fixed={"gamma": 3})))
    assert _header(cli, tmp_path, "--knobs", out).method == "ar", "the fastest is plain decoding, which has no gamma"


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--method", "ar"], "drafts nothing"),
        (["--vary", "foo=3"], "no knob of draft"),
        (["--vary", "gamma=900"], "0..64"),
        (["--minutes", "nan"], "no time"),
        (["--out", "missing/x.toml"], "missing"),
    ],
)
def test_bad_input_is_one_line(words: list[str], line: str, cli: Cli) -> None:
    assert line in cli("tune", *words).line


@pytest.mark.parametrize(
    ("text", "line"), [("gama = 3", "did you mean 'gamma'"), ("][", "no TOML"), (None, "specviz tune")]
)
def test_a_bad_knob_file_is_one_line(text: str | None, line: str, cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "knobs.toml"
    if text is not None:
        file.write_text(text)
    assert line in cli("run", "--knobs", file, "--example", "code").line


def test_what_is_typed_goes_before_the_file(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "knobs.toml"
    file.write_text('method = "draft"\ngamma = 2\n')
    assert _header(cli, tmp_path, "--knobs", file).knobs["gamma"] == 2
    assert _header(cli, tmp_path, "--knobs", file, "--gamma", "5").knobs["gamma"] == 5
