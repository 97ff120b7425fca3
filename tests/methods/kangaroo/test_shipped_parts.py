"""The adapter and the skip set that ship with the embedded target: its own, and as good as their cards say."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from specviz.commands import Start
from specviz.engine.model.files.loading import Loaded, embedded, load
from specviz.engine.run.local import LocalRun, Pair
from specviz.events import Event, ExitRound, RoundEnd
from specviz.methods.kangaroo import adapter as adapter_files
from specviz.methods.self_skip import model as skip_files
from specviz.methods.self_skip.spec import SkipSet

PAIR = embedded("target").parent
PROMPTS = [path.read_text(encoding="utf-8") for path in sorted((PAIR.parents[1] / "prompts").glob("*.txt"))[::3]]
N = 64


@cache
def target() -> Loaded:
    return load(None, "target", None, None)


@cache
def decoded(method: str, **knobs: Any) -> tuple[float, float, list[str]]:
    """Over some prompts at temperature 0: tokens a round, layer calls a token, the texts."""
    tokens = n_rounds = calls = 0
    texts = []
    for prompt in PROMPTS:
        out: list[Event] = []
        knob_lists = {name: [value] if isinstance(value, str) else value for name, value in knobs.items()}
        start = Start(prompt=prompt, method=method, knobs={"max_new_tokens": N, **knob_lists}, level="summary")
        run = LocalRun(Pair(target(), None), start, out.append)
        list(run.rounds())
        texts.append(run.text)
        tokens += sum(event.n_emitted for event in out if isinstance(event, RoundEnd))
        n_rounds += sum(isinstance(event, RoundEnd) for event in out)
        calls += sum(event.layer_calls for event in out if isinstance(event, ExitRound))
    return tokens / n_rounds, calls / tokens, texts


def test_they_are_found_for_the_embedded_target() -> None:
    adapter = adapter_files.pick(target().adapter, None)
    assert adapter is not None
    assert adapter.adapter.n_params == 4 * 160**2 + 2 * 160
    skips, notice = skip_files.pick(target().adapter, [])
    assert notice is None
    assert 0 < len(skips) < 24


def test_the_adapter_drafts_better_than_the_lens_and_changes_no_text() -> None:
    """Fewer layer calls than plain decoding, too."""
    layer = str(adapter_files.pick(target().adapter, None).layer)  # type: ignore[union-attr]
    _, _, plain = decoded("ar")
    per_round, calls, texts = decoded("kangaroo")
    lens, lens_calls, _ = decoded("kangaroo", adapter="lens", exit_layers=layer)
    assert texts == plain
    assert per_round > max(lens, 1.6)
    assert calls < min(12, lens_calls)


def test_the_skip_set_drafts_and_changes_no_text() -> None:
    _, _, plain = decoded("ar")
    per_round, calls, texts = decoded("draft_and_verify")
    assert texts == plain
    assert per_round > 1.5
    assert calls < 12


@pytest.mark.parametrize("folder", ["kangaroo", "skip-set"])
def test_no_file_names_where_it_was_made(folder: str) -> None:
    files = list((PAIR / folder).iterdir())
    texts = [path.read_text(encoding="utf-8") for path in files if path.suffix != ".safetensors"]
    assert len(texts) >= 3
    assert not any(word in text for text in texts for word in ("/work", "/root", "/home", "/tmp"))
    assert sum(path.stat().st_size for path in files) < 2**20


def card(folder: str) -> dict[str, Any]:
    numbers: dict[str, Any] = json.loads(Path(PAIR / folder / "card.json").read_text(encoding="utf-8"))
    return numbers


def test_the_cards_agree_with_what_they_describe() -> None:
    kangaroo, skips = card("kangaroo"), card("skip-set")
    assert kangaroo["layer"] == adapter_files.pick(target().adapter, None).layer  # type: ignore[union-attr]
    assert kangaroo["windows"]["adapter"]["agreement"] > kangaroo["windows"]["lens"]["agreement"]
    assert all(row["tokens_per_round"] > row["tokens_per_round_lens"] for row in kangaroo["decoding"].values())
    assert skip_files.pick(target().adapter, [])[0] == SkipSet.parse([skips["left_out"]])
