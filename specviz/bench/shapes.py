"""Pairs of a known shape with random weights: what a round costs at a size that no embedded model has.

Made on the fly, nothing is downloaded. Text and acceptance mean nothing, times of the stages do: they depend on shapes
alone. Texts are split by the embedded tokenizer, whose ids are the first of the larger vocabulary.
"""

from typing import Any

import torch

from specviz.engine.model.adapter import ModelAdapter
from specviz.engine.model.loading import Loaded, embedded, pick_device, pick_dtype
from specviz.engine.run.local import Pair
from specviz.events import ModelInfo

VOCAB = 32768
# layers, width, inner width, heads, heads of keys and values; a half-billion target as Qwen2.5 has it
SIZES: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "0.5b": ((24, 896, 4864, 14, 2), (4, 448, 1216, 7, 1)),
    "tiny": ((2, 64, 128, 4, 2), (1, 32, 64, 2, 1)),
}


def shaped_pair(shape: str, device: str | None, dtype: str | None) -> Pair:
    """Target and draft model of that shape."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(str(embedded("target")), trust_remote_code=False)
    place = pick_device(device)
    target, draft = (
        _loaded(f"random/{shape}/{role}", size, tokenizer, place, pick_dtype(dtype, place))
        for role, size in zip(("target", "draft"), SIZES[shape], strict=True)
    )
    return Pair(target, draft)


def _loaded(name: str, size: tuple[int, ...], tokenizer: Any, device: torch.device, dtype: torch.dtype) -> Loaded:
    from transformers import LlamaConfig, LlamaForCausalLM

    layers, width, inner, heads, kv_heads = size
    config = LlamaConfig(
        vocab_size=VOCAB,
        hidden_size=width,
        intermediate_size=inner,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        max_position_embeddings=4096,
        tie_word_embeddings=True,
        eos_token_id=None,
        bos_token_id=None,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = LlamaForCausalLM(config).to(device=device, dtype=dtype).eval().requires_grad_(False)
    adapter = ModelAdapter(model, name=name)
    n_params = sum(p.numel() for p in model.parameters())
    info = ModelInfo(
        name=name,
        arch="LlamaForCausalLM",
        n_layers=layers,
        width=width,
        n_params=n_params,
        vocab=VOCAB,
        dtype=str(dtype).removeprefix("torch."),
        device=str(device),
    )
    return Loaded(adapter, tokenizer, info)
