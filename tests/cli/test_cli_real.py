"""`specviz run` with real weights: planted bigrams saved to disk, and every way a model can be wrong."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from cli.conftest import Cli
from specviz import events
from specviz.trace import Trace
from support.models import planted, save, tokenizer

PROMPT = "abcabc"
RUN = ("run", "--prompt", PROMPT, "--max-new-tokens", "24")


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """`--target .. --draft ..`: planted bigrams, the draft model wrong about a quarter of them."""
    folder = tmp_path_factory.mktemp("pair")
    target, _ = planted(seed=1)
    draft, _ = planted(seed=2, wrong=0.25)
    return "--target", save(target, folder / "t"), "--draft", save(draft, folder / "d")


def _bigrams(n: int) -> list[int]:
    """The greedy text after the prompt, known by construction."""
    _, successor = planted(seed=1)
    token, out = tokenizer()(PROMPT)["input_ids"][-1], []
    for _ in range(n):
        token = successor[token]
        out.append(token)
    return out


@pytest.mark.parametrize("method", ["ar", "ngram", "draft"])
def test_every_method_writes_the_text_that_the_weights_hold(method: str, cli: Cli, pair: tuple[str, ...]) -> None:
    done = cli(*RUN, *(pair if method == "draft" else pair[:2]), "--method", method, "--json")
    report = json.loads(done.out)
    assert done.code == 0
    assert report["tokens"] == _bigrams(24)
    assert (report["finish"], report["metrics"]["n_emitted"]) == ("length", 24)
    if method == "ar":
        assert report["rounds"] == 24


def test_text_on_standard_output_is_the_text_of_the_object(cli: Cli, pair: tuple[str, ...]) -> None:
    assert cli(*RUN, *pair).out == json.loads(cli(*RUN, *pair, "--json").out)["text"]


def test_a_recorded_run_is_whole_and_every_decision_can_be_made_again(
    cli: Cli, pair: tuple[str, ...], tmp_path: Path
) -> None:
    flags = ("--temperature", "1", "--shape", "chain", "--rounds", "--verbose", "--record", tmp_path / "a")
    assert cli(*RUN, *pair, *flags).code == 0
    with Trace(tmp_path / "a", check=True) as trace:
        kinds = {type(event) for event in trace.poll()}
        assert trace.end is not None
        assert trace.end.reason == "done"
    assert {events.Header, events.Prefill, events.Node, events.Verify, events.Closing, events.Commit} <= kinds


def _without(folder: str, name: str, to: Path) -> str:
    to.mkdir()
    for file in Path(folder).iterdir():
        if file.name != name:
            (to / file.name).write_bytes(file.read_bytes())
    return str(to)


def test_folders_that_are_no_models(cli: Cli, pair: tuple[str, ...], tmp_path: Path) -> None:
    _, target, *draft = pair
    assert "no such folder" in cli(*RUN, "--target", tmp_path / "none", *draft).line
    (tmp_path / "empty").mkdir()
    assert "no config.json in it (it holds nothing)" in cli(*RUN, "--target", tmp_path / "empty", *draft).line
    without = _without(target, "model.safetensors", tmp_path / "no weights")
    assert "no .safetensors file in it" in cli(*RUN, "--target", without, *draft).line
    broken = Path(_without(target, "config.json", tmp_path / "broken"))
    (broken / "config.json").write_text("{")
    assert "config.json is not JSON" in cli(*RUN, "--target", broken, *draft).line


def test_a_draft_model_with_another_tokenizer_is_refused_saying_what_differs(
    cli: Cli, pair: tuple[str, ...], tmp_path: Path
) -> None:
    other = tokenizer()
    other.add_tokens(["<more>"])
    model, _ = planted(seed=2, vocab=264)
    line = cli(*RUN, *pair[:2], "--draft", save(model, tmp_path / "other", other)).line
    assert "different tokenizers (260 against 261 tokens)" in line


def test_a_layer_type_that_cannot_be_driven_is_refused_by_name(cli: Cli, pair: tuple[str, ...], tmp_path: Path) -> None:
    from transformers import MambaConfig, MambaForCausalLM

    config = MambaConfig(vocab_size=260, hidden_size=16, state_size=4, num_hidden_layers=1)
    folder = save(MambaForCausalLM(config), tmp_path / "mamba")
    line = cli(*RUN, "--target", folder, *pair[2:]).line
    assert "Mamba" in line


def test_a_target_of_one_s_own_needs_its_draft_model(cli: Cli, pair: tuple[str, ...]) -> None:
    assert "--draft" in cli(*RUN, *pair[:2], "--method", "draft").line
    assert cli(*RUN, *pair[:2]).code == 0  # unless a method was named that drafts by one: then one without is taken


def test_a_prompt_longer_than_the_context(cli: Cli, pair: tuple[str, ...], tmp_path: Path) -> None:
    file = tmp_path / "long.txt"
    file.write_text("x" * 400)
    line = cli("run", "--prompt-file", file, *pair, "--record", tmp_path / "a").line
    assert "the prompt has 400 tokens" in line
    assert "192" in line
    assert list(tmp_path.iterdir()) == [file]  # no trace of a run that never began


def test_a_tokenizer_without_a_chat_template(cli: Cli, pair: tuple[str, ...]) -> None:
    assert "no chat template" in cli(*RUN, *pair, "--chat").line


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device here")
def test_a_device_that_is_not_there(cli: Cli, pair: tuple[str, ...]) -> None:
    assert "device 'cuda' is not available here" in cli(*RUN, *pair, "--device", "cuda").line


def _process(pair: tuple[str, ...], trace: Path) -> "subprocess.Popen[bytes]":
    """A long run of the command in a process of its own."""
    pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
    args = ("run", "--prompt", PROMPT, "--max-new-tokens", "150", "--gamma", "1", "--record", str(trace), *pair)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "specviz", *args]
    return subprocess.Popen(command, env=env, stdin=nothing, stdout=pipe, stderr=pipe)


def _ended(trace: Path) -> str:
    with Trace(trace, check=True) as recording:
        for _ in recording.poll():
            pass
        assert recording.end is not None
        return recording.end.reason


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_run_and_leaves_a_whole_trace(
    sent: signal.Signals, code: int, pair: tuple[str, ...], tmp_path: Path
) -> None:
    with _process(pair, tmp_path / "a") as process:
        assert process.stdout is not None
        assert process.stdout.read(1)  # decoding has begun
        process.send_signal(sent)
        _, err = process.communicate(timeout=60)
    assert process.returncode == code, err.decode()
    assert b"Traceback" not in err
    assert _ended(tmp_path / "a") == "cancelled"


def test_a_reader_that_goes_away_is_no_error(pair: tuple[str, ...], tmp_path: Path) -> None:
    with _process(pair, tmp_path / "a") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.read(1)
        process.stdout.close()
        err = process.stderr.read()
    assert process.returncode == 141, err.decode()
    assert b"Traceback" not in err
    assert b"Exception ignored" not in err
    assert _ended(tmp_path / "a") == "cancelled"
