"""`specviz run --stream`: many prompts, one drafter, one trace; what a bad file and an interrupt leave behind."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import Cli
from methods.online.stage import trained
from specviz import events
from specviz.engine.run.local import load_pair
from specviz.methods.specblock.network import KIND
from specviz.metrics import Tally
from specviz.trace import Trace, read_events
from support.models import build, save

PROMPTS = (("ab ab ab", "code"), ("xyz x", "code"), ("the cat", "prose"), ("12 12 1", "prose"))
EAGER = ("--adapt", "on", "--adapt-cost-scale", "0", "--adapt-budget", "1", "--adapt-caution", "0")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small target with a random block drafter beside it."""
    root = tmp_path_factory.mktemp("model")
    pair = load_pair(save(build("llama", seed=1), root / "target"), needs_draft=False, dtype="float32", threads=1)
    KIND.write(root / "blocks", trained(pair.target.adapter))
    return root


@pytest.fixture
def stream(tmp_path: Path) -> Path:
    path = tmp_path / "prompts.jsonl"
    path.write_text("".join(json.dumps({"prompt": text, "domain": kind}) + "\n" for text, kind in PROMPTS))
    return path


def args(model: Path, stream: Path | str, *more: Any) -> tuple[Any, ...]:
    return ("run", "--stream", stream, "--target", model / "target", "--max-new-tokens", 16, *more)


def learning(model: Path, stream: Path | str, *more: Any) -> tuple[Any, ...]:
    return args(model, stream, "--method", "specblock", "--drafter", model / "blocks", *EAGER, *more)


def test_a_line_a_query_and_one_a_domain(cli: Cli, model: Path, stream: Path) -> None:
    """Standard output holds the table, standard error the setting and the whole."""
    done = cli(*args(model, stream, "--method", "ar"))
    head, *rest = done.out.splitlines()
    assert done.code == 0
    assert head.split() == ["q", "domain", "tokens", "rounds", "tok/round", "kept", "tok/s"]
    assert [line.split()[:5] for line in rest[:4]] == [
        [str(q), kind, "16", "16", "1"] for q, (_, kind) in enumerate(PROMPTS)
    ]
    assert rest[4] == ""
    assert rest[5].split() == ["domain", "queries", "tokens", "tok/round", "kept", "tok/s"]
    assert [line.split()[:3] for line in rest[6:]] == [["code", "2", "32"], ["prose", "2", "32"]]
    assert "4 queries: 64 tokens in 64 rounds" in done.err
    assert "learning" not in done.err


def test_the_bandit_at_work(cli: Cli, model: Path, stream: Path, tmp_path: Path) -> None:
    """A line tells what was done, why, at what price; the trace has it all, the summary adds up."""
    done = cli(*learning(model, stream, "--record", tmp_path / "a", "-v"))
    assert done.code == 0, done.err
    steps = [event for event in read_events(tmp_path / "a.gz", check=True) if isinstance(event, events.Adapt)]
    lines = [line for line in done.out.splitlines()[1:] if line[:1].isdigit()]
    assert len(steps) == len(lines) == 4
    for line, record in zip(lines, steps, strict=True):
        assert line.split()[:2] == [str(record.q), record.domain]
        assert f" {record.action} " in line
        assert f"v{record.version_after}" in line
    thoughts = [line for line in done.out.splitlines() if line.startswith("      ")]
    assert len(thoughts) == sum(len(record.arms) for record in steps) > 0
    kept = sum(record.action != "skip" and not record.reverted for record in steps)
    updates = sum(record.action != "skip" for record in steps)
    assert f"{kept} of {updates} updates kept" in done.err
    assert updates >= 1
    assert "given up by the bandit's own estimates, over 4 queries" in done.err
    assert done.out.splitlines()[-1].split()[-8:-6] == ["skip", str(sum(r.action == "skip" for r in steps[2:]))]


def test_json_has_queries_domains_and_what_was_learnt(cli: Cli, model: Path, stream: Path, tmp_path: Path) -> None:
    done = cli(*learning(model, stream, "--json", "--adapt-regret", "replay", "--record", tmp_path / "a"))
    report = json.loads(done.out)
    assert done.out.count("\n") == 1
    assert done.err.splitlines()[3].startswith("q ")  # the lines are narration now, behind what is recorded
    plain = json.loads(cli(*args(model, stream, "--method", "ar", "--json")).out)
    assert [domain["tokens"] for domain in report["queries"]] == [domain["tokens"] for domain in plain["queries"]]
    assert [(domain["q"], domain["domain"], domain["prompt"]) for domain in report["queries"]] == [
        (q, kind, text) for q, (text, kind) in enumerate(PROMPTS)
    ]
    assert [domain["seed"] for domain in report["queries"]] == [0, 1, 2, 3]
    assert all(len(domain["adapt"]["replays"]) == 3 for domain in report["queries"] if domain["adapt"]["arms"])
    learnt = report["learning"]
    records = [domain["adapt"] for domain in report["queries"]]
    assert learnt["regret_s"] == pytest.approx(sum(domain["regret"] or 0 for domain in records))
    assert learnt["replay_regret_s"] >= 0
    assert learnt["n_updates"] == sum(domain["action"] != "skip" for domain in records)
    assert learnt["serving_s"] == pytest.approx(sum(domain["seconds"] for domain in records))
    assert report["domains"]["code"]["n_queries"] == 2
    assert sum(domain["metrics"]["n_emitted"] for domain in report["domains"].values()) == 64
    whole = Tally().add_all(read_events(tmp_path / "a.gz")).summary()
    assert report["metrics"]["n_accepted"] == whole.n_accepted
    assert report["timings"]["adapt"] > 0
    assert (plain["learning"], plain["trace"]) == (None, None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"prompt": "a"}\n\n{"domain": "x"}\n', "prompts.jsonl line 3 has none of prompt, turns, question"),
        ('{"prompt": "a"}\n{nope\n', "prompts.jsonl line 2 is not JSON"),
        ('["a"]\n', "prompts.jsonl line 1 is no JSON object"),
        ('{"prompt": "a"}\n{"prompt": ""}\n', "prompts.jsonl line 2: prompt holds no text"),
        ("\n", "the prompts 'prompts.jsonl' hold no line"),
        ('{"prompt": "a"}\n{"prompt": "' + "word " * 3000 + '"}\n', "prompts.jsonl line 2: the prompt has"),
    ],
)
def test_a_bad_line_is_one_line_and_loses_nothing(
    cli: Cli, model: Path, tmp_path: Path, text: str, message: str
) -> None:
    """By its number, before anything is decoded; a trace that lies there stays."""
    (tmp_path / "prompts.jsonl").write_text(text)
    kept = tmp_path / "old.sv.jsonl"
    cli("run", "--prompt", "ab", "--target", model / "target", "--method", "ar", "--record", kept)
    before = Path(f"{kept}.gz").read_bytes()
    done = cli(*args(model, tmp_path / "prompts.jsonl", "--method", "ar", "--record", kept, "--force"))
    assert (done.code, done.out) == (2, "")
    assert message in done.err
    assert done.err.splitlines()[-1].startswith("specviz: ")
    assert Path(f"{kept}.gz").read_bytes() == before
    assert not kept.exists()


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--prompt", "x"), "--stream brings its prompts: leave out --prompt"),
        (("--method", "eagle3", "--adapt", "on"), "method eagle3 has no knob --adapt; methods that have it: specblock"),
        (("--method", "specblock", "--adapt-budget", "2"), "knob adapt_budget: '2' is not a number in 0..1"),
        (("--method", "specblock", "--adapt", "maybe"), "knob adapt: no value 'maybe'"),
        (("--method", "specblock", "--adapt-steps", "0"), "knob adapt_steps: '0' is not a whole number in 1..32"),
        (("--method", "specblock", "--adapt-lr-head", "0"), "knob adapt_lr_head: '0' is not a number in above 0..1"),
    ],
)
def test_what_does_not_go_together(cli: Cli, stream: Path, more: tuple[str, ...], message: str) -> None:
    assert message in cli("run", "--stream", stream, *more).line


def test_a_file_that_is_not_there(cli: Cli, tmp_path: Path) -> None:
    assert "cannot read the prompts" in cli("run", "--stream", tmp_path / "none.jsonl").line


def test_standard_input_and_bundled_prompts(cli: Cli, model: Path) -> None:
    raw = b'{"prompt": "ab"}\n{"prompt": "xy", "domain": "b"}\n'
    done = cli(*args(model, "-", "--method", "ar", "--json"), stdin=raw)
    assert [query["domain"] for query in json.loads(done.out)["queries"]] == ["stream", "b"]
    done = cli(*args(model, "bundled", "--method", "ar", "--json", "--max-new-tokens", 2))
    assert set(json.loads(done.out)["domains"]) == {"code", "prose", "sums"}


def test_hostile_domains_cannot_steer_a_terminal(cli: Cli, model: Path, tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text(json.dumps({"prompt": "ab", "domain": "a\x1b[2J\nb" + "漢" * 40}) + "\n")
    done = cli(*args(model, path, "--method", "ar", "--rounds"))
    assert "\x1b" not in done.out
    assert "\x1b" not in done.err
    assert len(done.out.splitlines()) == 5


def test_an_interrupt_leaves_a_whole_trace_and_the_queries_so_far(model: Path, tmp_path: Path) -> None:
    """Ctrl-C: the round in hand is finished, the trace ends as cancelled, exit code 130."""
    path = tmp_path / "p.jsonl"
    path.write_text("".join(json.dumps({"prompt": "ab ab", "domain": "a"}) + "\n" for _ in range(400)))
    trace = tmp_path / "t.sv.jsonl"
    command = [
        sys.executable,
        "-c",
        "from specviz.cli import main; import sys; sys.exit(main())",
        *map(str, args(model, path, "--method", "ar", "--record", trace)),
    ]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
    assert running.stdout is not None
    for _ in range(3):  # the heading and two queries
        assert running.stdout.readline()
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=120)
    assert running.returncode == 130, err
    assert "Traceback" not in err
    with Trace(tmp_path / "t.sv.jsonl.gz", check=True) as recording:
        polled = list(recording.poll())
        assert recording.end is not None
        assert recording.end.reason == "cancelled"
    n = sum(isinstance(event, events.Prefill) for event in polled)
    assert 2 <= n < 400
    assert f"{n} queries" in err
    assert "queries" in out
