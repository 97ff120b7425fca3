"""The exit heads that ship with the embedded target: its own, better than the lens, and as good as their card says."""

import json
from functools import cache
from typing import Any

import pytest

from specviz.commands import Start
from specviz.engine.model.files.loading import Loaded, embedded, load, stop_tokens
from specviz.engine.run.local import LocalRun, Pair
from specviz.events import Event, ExitRound, RoundEnd
from specviz.methods.early_exit.heads import LogitLens, TrainedHeads, pick

FOLDER = embedded("target").parent / "heads"
PROMPTS = [path.read_text(encoding="utf-8") for path in sorted((FOLDER.parents[2] / "prompts").glob("code-*.txt"))]
N = 96


@cache
def target() -> Loaded:
    return load(None, "target", None, None)


def tokens_per_round(**knobs: Any) -> tuple[float, float, list[str]]:
    """Over the code prompts at temperature 0: tokens a round, layer calls a token, the texts."""
    tokens = n_rounds = calls = 0
    texts = []
    for prompt in PROMPTS:
        out: list[Event] = []
        start = Start(prompt=prompt, method="specbound", knobs={"max_new_tokens": N, **knobs}, level="summary")
        run = LocalRun(Pair(target(), None), start, out.append)
        list(run.rounds())
        texts.append(run.text)
        tokens += sum(event.n_emitted for event in out if isinstance(event, RoundEnd))
        n_rounds += sum(isinstance(event, RoundEnd) for event in out)
        calls += sum(event.layer_calls for event in out if isinstance(event, ExitRound))
    return tokens / n_rounds, calls / tokens, texts


def test_they_are_found_for_the_embedded_target() -> None:
    heads = pick(target().adapter, None)
    assert isinstance(heads, TrainedHeads)
    assert heads.layers == tuple(range(1, 12))
    assert stop_tokens(target())


def test_they_commit_what_was_promised_on_code() -> None:
    """With default knobs at temperature 0: 1.8 tokens a round or more, more than the lens, for fewer layer calls."""
    assert len(PROMPTS) == 3
    per_round, calls, texts = tokens_per_round()
    lens, lens_calls, lens_texts = tokens_per_round(heads=["lens"])
    assert texts == lens_texts
    assert per_round >= 1.8
    assert per_round > lens
    assert calls < min(12, lens_calls)


def test_the_card_says_so_too() -> None:
    card = json.loads((FOLDER / "card.json").read_text(encoding="utf-8"))
    code = card["replay"]["code"]
    assert code["heads"]["tokens_per_round"] > code["lens"]["tokens_per_round"]
    for row in card["layers"].values():
        assert row["heads"]["agreement"] >= row["lens"]["agreement"]
        assert row["heads"]["calibration_error"] < 0.2


def test_no_file_names_where_it_was_made() -> None:
    texts = [path.read_text(encoding="utf-8") for path in FOLDER.iterdir() if path.suffix != ".safetensors"]
    assert len(texts) == 4
    assert not any(word in text for text in texts for word in ("/work", "/root", "/home", "/tmp"))
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 2 * 2**20


@pytest.mark.parametrize("layer", [1, 6, 11])
def test_the_lens_is_the_fallback_beside_them(layer: int) -> None:
    adapter = target().adapter
    assert isinstance(pick(adapter, "lens"), LogitLens)
    assert layer in pick(adapter, None).layers
