"""The numbers of the model card, on models whose answers are known, and the card itself."""

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from specviz.engine.model.adapter import ModelAdapter
from specviz_train.cards import page as cards
from specviz_train.cards.page import page as drawn
from specviz_train.common import own_text
from specviz_train.draft_model import card as draft_card
from specviz_train.draft_pair import card

VOCAB = 32


def _successor_model(next_token: list[int]) -> LlamaForCausalLM:
    """A model with silent layers whose greedy next token after `v` is `next_token[v]`."""
    config = LlamaConfig(
        vocab_size=VOCAB,
        hidden_size=VOCAB,
        intermediate_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=512,
        tie_word_embeddings=False,
    )
    model = LlamaForCausalLM(config).eval()
    with torch.no_grad():
        model.model.layers[0].self_attn.o_proj.weight.zero_()
        model.model.layers[0].mlp.down_proj.weight.zero_()
        model.model.embed_tokens.weight.copy_(torch.eye(VOCAB))
        model.lm_head.weight.zero_()
        for token, following in enumerate(next_token):
            model.lm_head.weight[following, token] = 1.0
    return model


CYCLE = [(token + 1) % VOCAB for token in range(VOCAB)]


def kept(target, draft, prompts: list[list[int]]) -> float:
    """The share of drafts that is kept behind prompts."""
    return draft_card.drafted(ModelAdapter(target), ModelAdapter(draft), prompts)["kept"]


def test_equal_models_accept_everything():
    target, draft = _successor_model(CYCLE), _successor_model(CYCLE)
    assert kept(target, draft, [[1, 2, 3], [9, 10, 11]]) == 1.0
    assert card.agreement(target, draft, torch.arange(VOCAB)[None]) == 1.0


def test_a_draft_that_is_always_wrong_is_never_accepted():
    target, draft = _successor_model(CYCLE), _successor_model([0] * VOCAB)
    assert kept(target, draft, [[5]]) <= 0.02  # only where the cycle passes token 0


def test_acceptance_counts_the_tokens_before_the_first_error():
    wrong_after_seven = [0 if token == 7 else CYCLE[token] for token in range(VOCAB)]
    target, draft = _successor_model(CYCLE), _successor_model(wrong_after_seven)
    # From 4: rounds emit 5 tokens until one drafts 8 after 7; each lap of 32 has one such round.
    assert 0.8 < kept(target, draft, [[3]]) < 1.0
    assert card.agreement(target, draft, torch.arange(9)[None]) == 7 / 8


def test_own_text_follows_the_target_greedily_in_even_rows():
    prompts = [iter([row]) for row in ([1, 2], [1, 2], [30, 31], [30, 31])]
    rng = torch.Generator().manual_seed(0)
    grown = torch.from_numpy(own_text.continued(_successor_model(CYCLE), prompts, own_text.PAIR, rng).ids)
    assert grown.shape == (4, own_text.PAIR.length)
    steps = grown.diff() % VOCAB
    assert (steps[::2] == 1).all()
    assert (steps[1::2, 2:] != 1).any()  # sampled: these logits are nearly flat


def test_step_time_is_positive_and_the_ratio_is_target_over_draft():
    assert draft_card.PairSpeed(target_ms=6.0, draft_ms=1.5).ratio == 4.0
    assert draft_card.step_ms(ModelAdapter(_successor_model(CYCLE)), context=4, n_steps=12) > 0


@pytest.mark.parametrize(
    ("continuation", "n_lines"),
    [
        ("\n    if n < 2:\n        return n\n    return n\nx", 3),
        ("\n    a = (1,\n    b\nc", 0),
        ('\n    """Open\n    and never closed.\nx', 0),
        ("\n\n    return n\n    return 'open\nx", 1),
        ("", 0),
    ],
)
def test_python_lines_are_those_of_the_longest_accepted_beginning(continuation, n_lines):
    assert card.n_python_lines("def f(n):", continuation) == n_lines


def test_plot_is_one_svg_with_a_path_for_each_curve():
    text = cards.loss_plot(
        "a < b", [cards.Line("x", [(1.0, 5.0), (2.0, 3.0)]), cards.Line("y", [(1.0, 9.0)], dashed=True)]
    )
    assert text.startswith("<svg ")
    assert text.count('fill="none"') == 2
    assert "a &lt; b" in text
    assert "nan" not in text


def test_card_page_states_what_was_measured():
    ledger = {"steps": 2, "tokens": 4_096, "minutes": 0.5, "curve": []}
    row = {"target_loss": 2.5, "draft_loss": 3.25, "agreement": 0.5, "chain_acceptance": 0.625}
    numbers = {
        "target_params": 4_000_000,
        "draft_params": 500_000,
        "speed_ratio": 4.5,
        "target_step_ms": 2.0,
        "draft_step_ms": 0.4,
        "gamma": 4,
        "domains": {"code": row},
        "sample": {"prompt": "def f(n):", "continuation": "\n    return n\n", "n_python_lines": 1},
        "options": {"seed": 0, "packages": True, "texts": ["gsm8k_train.jsonl"], "arithmetic": True},
        "command": "specviz train pair --minutes 3",
        "mix": {"code": 0.6, "sums": 0.4},
        "corpus_tokens": {"train": {"code": 10}, "held_out": {"code": 1}},
        "training": {"target": ledger},
        "versions": {"python": "3.11.7", "torch": "2.13.0"},
        "threads": 2,
    }
    page = drawn("pair", {**numbers, **card.page_facts(numbers)})
    assert "| code | 2.500 | 3.250 | 0.500 | 0.625 |" in page
    assert "GSM8K, MIT" in page
    assert "c = 4.5" in page
    assert "specviz train pair --minutes 3" in page
