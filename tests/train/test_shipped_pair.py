"""The embedded pair as shipped: loads with transformers alone and meets the bars of its card."""

import argparse
import inspect
import json
import re
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from specviz_train.draft_pair.card import SAMPLE_PROMPT, n_python_lines, sample

PAIR = Path(__file__).parents[2] / "assets" / "specviz_assets" / "models" / "pair"
MAX_BYTES = 40 * 2**20


@pytest.fixture(scope="module")
def card():
    """The numbers of the card."""
    return json.loads((PAIR / "card.json").read_text(encoding="utf-8"))


def _load(name: str):
    return AutoModelForCausalLM.from_pretrained(PAIR / name, dtype=torch.float32).eval()


def test_models_load_with_the_shape_that_was_promised():
    target, draft = _load("target"), _load("draft")
    for model in (target, draft):
        assert model.config.model_type == "llama"
        assert model.config.vocab_size == 4_096
        assert model.config.tie_word_embeddings
        assert model.config.max_position_embeddings >= 1_024
    assert (target.config.num_hidden_layers, draft.config.num_hidden_layers) == (12, 2)
    assert target.config.num_key_value_heads < target.config.num_attention_heads
    assert draft.config.hidden_size < target.config.hidden_size
    assert 3.5e6 < target.num_parameters() < 6e6
    assert 0.3e6 < draft.num_parameters() < 1.5e6


def test_both_folders_hold_the_same_tokenizer():
    assert (PAIR / "target/tokenizer.json").read_bytes() == (PAIR / "draft/tokenizer.json").read_bytes()
    tokenizer = AutoTokenizer.from_pretrained(PAIR / "target")
    assert len(tokenizer) == 4_096
    assert tokenizer.eos_token == "<|endoftext|>"
    text = "\x1b[31m 日本\u202e\r\n\t½ <b>"
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_fibonacci_continues_as_python():
    continuation = sample(_load("target"), AutoTokenizer.from_pretrained(PAIR / "target"))
    assert n_python_lines(SAMPLE_PROMPT, continuation) >= 3, continuation


def test_card_meets_the_bars(card):
    code = card["domains"]["code"]
    assert code["target_loss"] < 2.9
    assert code["target_loss"] < code["draft_loss"] - 0.3
    assert card["speed_ratio"] >= 4
    assert code["chain_acceptance"] <= 0.85


def test_card_meets_the_bar_of_chain_acceptance(card):
    """Accepted / drafted on code, gamma 4, T = 0."""
    assert card["domains"]["code"]["chain_acceptance"] >= 0.4
    assert {"code", "prose", "sums"} <= set(card["domains"])


def test_size_stays_small():
    files = [path for path in PAIR.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < MAX_BYTES
    assert {path.suffix for path in files} <= {".json", ".safetensors", ".md", ".svg", ".jinja"}


def test_no_file_names_the_machine_it_was_made_on():
    path_like = re.compile(r"/(?:work|root|tmp|home|Users|usr)/")
    for path in [*PAIR.glob("*.*"), *PAIR.glob("*/*config.json")]:
        assert not path_like.search(path.read_text(encoding="utf-8")), path.name


@torch.no_grad()
def test_both_models_read_as_far_as_they_promise():
    """Loss on late positions of a long text against early ones; a model trained on short windows alone collapses."""
    source = inspect.getsource(argparse)
    ids = AutoTokenizer.from_pretrained(PAIR / "target")(source, verbose=False)["input_ids"]
    windows = torch.tensor([ids[start : start + 1_001] for start in range(0, 16_000, 2_000)])
    for name in ("target", "draft"):
        logits = _load(name)(input_ids=windows[:, :-1]).logits
        losses = torch.nn.functional.cross_entropy(logits.mT, windows[:, 1:], reduction="none").mean(0)
        assert losses[600:].mean() < losses[100:250].mean() + 0.7, name
