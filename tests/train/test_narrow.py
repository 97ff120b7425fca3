"""The draft model's beginning: exact when no axis is dropped, close to the target when some are."""

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from specviz_train.draft_pair import models
from specviz_train.draft_pair.tokenizer import VOCAB_SIZE

WINDOWS = torch.arange(4 * 32).reshape(4, 32) % VOCAB_SIZE


def wide(**changes: int) -> LlamaConfig:
    """The draft model's architecture at the target's width."""
    return LlamaConfig(**{**models.draft_config().to_dict(), "hidden_size": 160, **changes})


@pytest.fixture(scope="module")
def target() -> LlamaForCausalLM:
    """Fresh weights with norms that matter; the last norm's gains alike, so that turning it loses nothing."""
    model = models.build(models.target_config(), seed=3)
    rng = torch.Generator().manual_seed(4)
    with torch.no_grad():
        for name, param in model.named_parameters():
            if "layernorm" in name:
                param.copy_(0.5 + torch.rand(param.shape, generator=rng))
        model.model.norm.weight.fill_(1.7)
    return model.eval()


@torch.no_grad()
def test_all_axes_kept_is_the_target_without_the_other_layers(target: LlamaForCausalLM) -> None:
    narrow_model = models.narrowed(target, wide(), WINDOWS, seed=0).eval()
    short = models.build(wide(), seed=1).eval()
    short.load_state_dict(
        {name: value for name, value in target.state_dict().items() if ".layers." not in name}
        | {
            name.replace(f".{layer}.", f".{number}.", 1): value
            for number, layer in enumerate(models.LAYERS)
            for name, value in target.state_dict().items()
            if f".layers.{layer}." in name
        }
    )
    assert torch.allclose(narrow_model(WINDOWS).logits, short(WINDOWS).logits, atol=1e-4)
    assert not torch.allclose(narrow_model.model.embed_tokens.weight, short.model.embed_tokens.weight, atol=1e-2)


@torch.no_grad()
def test_the_shipped_width_keeps_most_of_the_embedding(target: LlamaForCausalLM) -> None:
    narrow_model = models.narrowed(target, models.draft_config(), WINDOWS, seed=0)
    kept, whole = (model.model.embed_tokens.weight.square().sum() for model in (narrow_model, target))
    assert 128 / 160 < kept / whole < 1  # more than axes chosen blindly would keep
    assert narrow_model.lm_head.weight is narrow_model.model.embed_tokens.weight
