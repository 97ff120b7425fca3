"""Small real models: one of every supported architecture, planted bigrams, and the test fixtures' tokenizer."""

from pathlib import Path
from typing import Any

import torch
import transformers as hf
from tokenizers import Tokenizer
from tokenizers.decoders import ByteLevel as ByteLevelDecoder
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel

VOCAB = 260
COMMON = {
    "vocab_size": VOCAB,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 192,
    "initializer_range": 0.25,
    "bos_token_id": 256,
    "eos_token_id": 257,
    "pad_token_id": 258,
    "tie_word_embeddings": False,
}

CONFIGS: dict[str, Any] = {
    "llama": lambda: hf.LlamaConfig(**COMMON),
    "qwen2": lambda: hf.Qwen2Config(**COMMON, use_sliding_window=True, sliding_window=16, max_window_layers=1),
    "qwen3": lambda: hf.Qwen3Config(**COMMON, head_dim=16),
    "mistral": lambda: hf.MistralConfig(**COMMON, sliding_window=16),
    "gemma2": lambda: hf.Gemma2Config(**COMMON, head_dim=8, sliding_window=16, query_pre_attn_scalar=8),
    "gemma3": lambda: hf.Gemma3TextConfig(
        **COMMON,
        head_dim=8,
        sliding_window=16,
        query_pre_attn_scalar=8,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"],
    ),
    "phi3": lambda: hf.Phi3Config(**COMMON, sliding_window=16),
    "gpt2": lambda: hf.GPT2Config(
        vocab_size=VOCAB,
        n_embd=32,
        n_layer=3,
        n_head=4,
        n_positions=192,
        initializer_range=0.25,
        bos_token_id=256,
        eos_token_id=257,
        tie_word_embeddings=False,
    ),
    "gpt_neox": lambda: hf.GPTNeoXConfig(**{k: v for k, v in COMMON.items() if k != "num_key_value_heads"}),
}

MOE = {"num_local_experts": 4, "num_experts_per_tok": 2}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24}

ROUTED = {
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 24,
    "n_group": 1,
    "topk_group": 1,
    "first_k_dense_replace": 1,
}
LATENT = {"q_lora_rank": 16, "kv_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 12}

GRANITE = {"logits_scaling": 6.0, "embedding_multiplier": 12.0, "residual_multiplier": 0.2, "attention_multiplier": 0.1}


def _rope(kind: str, **more: Any) -> Any:
    parameters = {"rope_type": kind, "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 48, **more}
    return lambda: hf.LlamaConfig(**COMMON, rope_parameters=parameters)


# What nobody tried by hand: each either equals the library, as these do, or is refused.
MORE: dict[str, Any] = {
    "gpt_oss": lambda: hf.GptOssConfig(**COMMON, **MOE, head_dim=8, sliding_window=16),
    "mixtral": lambda: hf.MixtralConfig(**COMMON, **MOE),
    "qwen2_moe": lambda: hf.Qwen2MoeConfig(**COMMON, **EXPERTS, shared_expert_intermediate_size=24),
    "qwen3_moe": lambda: hf.Qwen3MoeConfig(**COMMON, **EXPERTS, head_dim=8),
    "gemma": lambda: hf.GemmaConfig(**COMMON, head_dim=8),
    "glm4_moe": lambda: hf.Glm4MoeConfig(**COMMON, **ROUTED, head_dim=8),
    "deepseek_v3": lambda: hf.DeepseekV3Config(**{**COMMON, "num_key_value_heads": 4}, **ROUTED, **LATENT),
    "qwen3_next full": lambda: hf.Qwen3NextConfig(
        **COMMON, **EXPERTS, head_dim=8, shared_expert_intermediate_size=24, layer_types=["full_attention"] * 3
    ),
    "olmo": lambda: hf.OlmoConfig(**COMMON),
    "olmo2": lambda: hf.Olmo2Config(**COMMON),
    "starcoder2": lambda: hf.Starcoder2Config(**COMMON, sliding_window=16),
    "stablelm": lambda: hf.StableLmConfig(**COMMON),
    "granite": lambda: hf.GraniteConfig(**COMMON, **GRANITE),
    "cohere": lambda: hf.CohereConfig(**COMMON, logit_scale=0.83),
    "cohere2": lambda: hf.Cohere2Config(**COMMON, sliding_window=16),
    "glm4": lambda: hf.Glm4Config(**COMMON, head_dim=8),
    "smollm3": lambda: hf.SmolLM3Config(**COMMON),
    "gpt_bigcode": lambda: hf.GPTBigCodeConfig(
        vocab_size=VOCAB,
        n_embd=32,
        n_layer=2,
        n_head=4,
        n_positions=192,
        initializer_range=0.25,
        bos_token_id=256,
        eos_token_id=257,
    ),
    "llama tied": lambda: hf.LlamaConfig(**{**COMMON, "tie_word_embeddings": True}),
    "llama yarn": _rope("yarn"),
    "llama dynamic": _rope("dynamic"),
    "llama llama3": _rope("llama3", low_freq_factor=1.0, high_freq_factor=4.0),
    "llama longrope": _rope("longrope", short_factor=[1.0] * 4, long_factor=[2.0] * 4),
}

REFUSED: dict[str, tuple[Any, str]] = {
    "gpt_neo": (
        lambda: hf.GPTNeoConfig(
            vocab_size=VOCAB,
            hidden_size=32,
            num_layers=2,
            num_heads=4,
            attention_types=[[["global", "local"], 1]],
            max_position_embeddings=192,
            window_size=16,
            initializer_range=0.25,
            bos_token_id=256,
            eos_token_id=257,
        ),
        r"does not support GPTNeoForCausalLM yet: layers of type GPTNeoBlock .*has attention_types .*may be sound",
    ),
    "bloom": (
        lambda: hf.BloomConfig(vocab_size=VOCAB, hidden_size=32, n_layer=2, n_head=4, eos_token_id=257),
        "BloomBlock cannot be driven",
    ),
    "qwen3_next": (lambda: hf.Qwen3NextConfig(**COMMON, **EXPERTS), "'linear_attention' cannot be rolled back"),
    "mamba": (
        lambda: hf.MambaConfig(vocab_size=VOCAB, hidden_size=16, state_size=4, num_hidden_layers=1),
        "no decoder layers found in MambaForCausalLM",
    ),
}


def _config(name: str) -> Any:
    return (CONFIGS | MORE | {refused: make for refused, (make, _) in REFUSED.items()})[name]()


def build(name: str, seed: int = 0, dtype: torch.dtype = torch.float32, **changes: Any) -> Any:
    """A model of that architecture with seeded random weights."""
    config = _config(name)
    for key, value in changes.items():
        setattr(config, key, value)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return hf.AutoModelForCausalLM.from_config(config).to(dtype).eval()


def blurred(model: Any, share: float = 0.05, seed: int = 9) -> Any:
    """The model with noise on its matrices: a draft model that is right most of the time."""
    noise = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.add_(torch.randn(parameter.shape, generator=noise) * parameter.std() * share)
    return model


def tokenizer() -> Any:
    """256 bytes and four special tokens: every text, two ids of nothing."""
    alphabet = sorted(ByteLevel.alphabet())
    fast = Tokenizer(BPE(vocab={c: k for k, c in enumerate(alphabet)}, merges=[]))
    fast.pre_tokenizer, fast.decoder = ByteLevel(add_prefix_space=False), ByteLevelDecoder()
    fast.add_special_tokens(["<s>", "</s>", "<pad>", "<x>"])
    return hf.PreTrainedTokenizerFast(tokenizer_object=fast, bos_token="<s>", eos_token="</s>", pad_token="<pad>")


def save(model: Any, folder: Path, tokens: Any = None) -> str:
    """`save_pretrained` of model and tokenizer; returns the folder."""
    model.save_pretrained(folder)
    (tokens or tokenizer()).save_pretrained(folder)
    return str(folder)


def planted(
    seed: int, wrong: float = 0.0, layers: int = 2, vocab: int = VOCAB, width: int = 64
) -> tuple[Any, list[int]]:
    """A Llama whose greedy next token is `perm[token]` by construction, and `perm`.

    The residual stream is dominated by the token's own embedding and the head row of `perm[v]` is the embedding of v.
    With `wrong` that share of ids gets another successor, so a draft model agrees with its target on the rest.
    """
    config = hf.LlamaConfig(
        **{**COMMON, "vocab_size": vocab, "hidden_size": width, "num_hidden_layers": layers, "eos_token_id": None}
    )
    shared = torch.Generator().manual_seed(1234)
    embedding = torch.randn(vocab, width, generator=shared)
    perm = torch.randperm(vocab, generator=shared)
    own = torch.Generator().manual_seed(seed)
    n_wrong = round(wrong * vocab)
    hit = torch.randperm(vocab, generator=own)[:n_wrong]
    perm[hit] = perm[hit.roll(1)]
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = hf.LlamaForCausalLM(config).eval()
    with torch.no_grad():
        for parameter in model.model.layers.parameters():
            if parameter.dim() > 1:
                parameter.mul_(0.02)
        model.model.embed_tokens.weight.copy_(embedding)
        model.lm_head.weight[perm] = embedding
    return model, perm.tolist()
