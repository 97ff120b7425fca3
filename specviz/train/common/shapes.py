"""The architecture of the pair: two Llamas, one deep and one shallow, sized by what two CPU cores can train.

Heads are 64 wide and few: on a CPU the time of attention goes by the number of heads, and two heads of 64 train a
third faster than five of 32.
"""

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from specviz.train.common.vocabulary import VOCAB_SIZE

CONTEXT = 1_024


def target_config() -> LlamaConfig:
    """12 layers, width 160, two query heads sharing one key/value head: 4.3M parameters."""
    return _config(layers=12, width=160, heads=2, head_dim=64, inner=512)


def draft_config() -> LlamaConfig:
    """2 layers, width 128, heads and inner width of the target's: 1.0M parameters, half of them the embedding."""
    return _config(layers=2, width=128, heads=2, head_dim=64, inner=512)


def _config(layers: int, width: int, heads: int, head_dim: int, inner: int) -> LlamaConfig:
    return LlamaConfig(
        vocab_size=VOCAB_SIZE,
        hidden_size=width,
        intermediate_size=inner,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=1,
        head_dim=head_dim,
        max_position_embeddings=CONTEXT,
        tie_word_embeddings=True,
        bos_token_id=0,
        eos_token_id=0,
        pad_token_id=0,
    )


def build(config: LlamaConfig, seed: int) -> LlamaForCausalLM:
    """A model with fresh weights; the global generator is put back as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return LlamaForCausalLM(config)
