"""llama.cpp with SmolLM2, drafted for by its own four-bit file: its text is ours, and its rounds are what it counts."""

import json
import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from engines.conftest import LlamaPair, llama_serving
from specviz.cli import main
from specviz.cli.look.stats import measure_file
from specviz.events import Commit, RoundEnd
from specviz.runlog.fold import Run, fold
from specviz.trace import read_events
from support.llama_server import OVER, LlamaServer
from support.real import smollm2

__all__ = ["smollm2"]

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]
PROMPTS = ("Once upon a time, in a lighthouse by the sea,", "def add(a, b):", "The capital of France is")
N = 32


@pytest.fixture(scope="module")
def whole(smollm2: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LlamaServer]:
    pytest.importorskip("xllamacpp")
    from transformers import AutoConfig

    from support.gguf_whole import write_whole

    folder = tmp_path_factory.mktemp("smollm2")
    target = write_whole(folder / "whole.gguf", smollm2, AutoConfig.from_pretrained(smollm2))
    with llama_serving(LlamaPair(target, smollm2 / "model.gguf", None), folder / "server.log") as server:
        yield server
    target.unlink()


@pytest.fixture(scope="module")
def recordings(whole: LlamaServer, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """What `attach` wrote of every prompt, greedily."""
    folder = tmp_path_factory.mktemp("told")
    words = ["--max-new-tokens", str(N)]
    paths = [folder / str(k) for k in range(len(PROMPTS))]
    for prompt, path in zip(PROMPTS, paths, strict=True):
        assert main(["attach", whole.url, prompt, "-o", str(path), *words]) == 0
    return paths


def _counts(run: Run) -> list[tuple[int, int, int]]:
    return [(end.n_drafted, end.n_accepted, end.n_emitted) for r in run.rounds for end in r.every(RoundEnd)]


def test_its_greedy_text_is_ours(recordings: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    for prompt, path in zip(PROMPTS, recordings, strict=True):
        theirs = [token for r in fold(read_events(path)).rounds for c in r.every(Commit) for token in c.tokens]
        words = ["run", "--target", "smollm2", "--raw", "--method", "ar", "--dtype", "float32", "--temperature", "0"]
        capsys.readouterr()
        assert main([*words, "--prompt", prompt, "--max-new-tokens", str(N), "--json"]) == 0
        ours = json.loads(capsys.readouterr().out)["tokens"]
        assert theirs == ours[: len(theirs)]
        assert len(theirs) >= len(ours) - 1  # the token that ends a text is none of llama.cpp's


def test_answers_and_log_and_counters_tell_the_same_rounds(
    whole: LlamaServer, recordings: list[Path], tmp_path: Path
) -> None:
    assert whole.settled().count(OVER) >= len(PROMPTS)
    (tmp_path / "log").write_text(whole.log.read_text("utf-8", "replace"))
    assert main(["import", str(tmp_path / "log"), "-o", str(tmp_path / "logged")]) == 0
    answered = [counts for path in recordings for counts in _counts(fold(read_events(path)))]
    assert _counts(fold(read_events(tmp_path / "logged"))) == answered
    drafted, accepted, _ = (sum(column) for column in zip(*answered, strict=True))
    metrics = urllib.request.urlopen(f"{whole.url}/metrics").read().decode()
    counters = dict(re.findall(r"^llamacpp:spec_decode_num_(\w+)_total (\d+)", metrics, re.MULTILINE))
    assert (int(counters["draft_tokens"]), int(counters["accepted_tokens"])) == (drafted, accepted)
    assert 0.5 * drafted < accepted < drafted
    header = fold(read_events(tmp_path / "logged")).header
    assert header is not None
    assert [model.name for model in (header.models.target, header.models.draft) if model] == [
        "whole.gguf",
        "model.gguf",
    ]
    for path in (*recordings, tmp_path / "logged"):
        card = measure_file(path).judgement.card
        assert card is not None
        assert not card.violations


def test_its_counters_are_watched(
    whole: LlamaServer, recordings: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert recordings
    assert main(["watch", whole.url, "--looks", "1", "--json"]) == 0
    seen = json.loads(capsys.readouterr().out)
    counts = [event for path in recordings for event in _counts(fold(read_events(path)))]
    assert (seen["n_drafted"], seen["n_accepted"]) == (sum(d for d, *_ in counts), sum(a for _, a, _ in counts))
    assert seen["length"] > 3
