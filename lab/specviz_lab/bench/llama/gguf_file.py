"""The weights of a loaded Llama as a GGUF file, so that llama.cpp computes with the very same numbers.

Prompts go to the server as token ids. So the file's vocabulary has to give text back, but never to split any.
"""

import json
from pathlib import Path
from typing import Any

import gguf
import torch

_NAMES = (
    ("model.embed_tokens", "token_embd"),
    ("model.norm", "output_norm"),
    ("lm_head", "output"),
    ("model.layers.", "blk."),
    ("input_layernorm", "attn_norm"),
    ("post_attention_layernorm", "ffn_norm"),
    ("self_attn.q_proj", "attn_q"),
    ("self_attn.k_proj", "attn_k"),
    ("self_attn.v_proj", "attn_v"),
    ("self_attn.o_proj", "attn_output"),
    ("mlp.gate_proj", "ffn_gate"),
    ("mlp.up_proj", "ffn_up"),
    ("mlp.down_proj", "ffn_down"),
)
_KINDS = {
    torch.float32: gguf.GGMLQuantizationType.F32,
    torch.bfloat16: gguf.GGMLQuantizationType.BF16,
    torch.float16: gguf.GGMLQuantizationType.F16,
}
_PACKED = {"q8_0": gguf.GGMLQuantizationType.Q8_0, "q4_0": gguf.GGMLQuantizationType.Q4_0}
_NORMAL, _CONTROL, _UNUSED = 1, 3, 5  # kinds of a token


def unwritable(config: Any) -> str | None:
    """Why a model of this configuration is not written; None when it is."""
    if config.model_type != "llama":
        return f"only Llamas are written for it, and this is '{config.model_type}'"
    if config.attention_bias or config.mlp_bias:
        return "only Llamas without biases are written for it"
    if config.hidden_act != "silu" or config.rope_parameters.get("rope_type", "default") != "default":
        return "only Llamas with plain rotation and SiLU are written for it"
    return None


def write_gguf_file(path: Path, model: Any, tokenizer: Any, packed: str | None = None) -> None:
    """Write a model that `unwritable` has nothing against, in its own dtype; norms in float32, as llama.cpp asks.

    `packed`: "q8_0" or "q4_0" in place of the dtype. Beside q4_0 the embedding, which often is the head, takes q8_0.
    """
    config = model.config
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(config.head_dim)
    writer.add_value_length(config.head_dim)
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_rope_freq_base(float(config.rope_parameters["rope_theta"]))
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(config.vocab_size)
    _vocabulary(writer, tokenizer, config.vocab_size)
    for name, tensor in model.state_dict().items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue  # the same numbers as the embedding, which it then reads twice
        tensor = permuted(name, tensor.cpu(), config)
        at_most = "q8_0" if packed and ("embed_tokens" in name or "lm_head" in name) else packed
        matrix = _PACKED[at_most] if at_most else _KINDS[tensor.dtype]
        kind = matrix if tensor.ndim > 1 else gguf.GGMLQuantizationType.F32
        writer.add_tensor(tensor_name(name), gguf.quantize(tensor.float().numpy(), kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _vocabulary(writer: Any, tokenizer: Any, size: int) -> None:
    merges = json.loads(tokenizer.backend_tokenizer.to_str())["model"].get("merges") or [["a", "b"]]
    special = set(tokenizer.all_special_ids)
    words = tokenizer.convert_ids_to_tokens(list(range(min(size, len(tokenizer)))))
    kinds = [_CONTROL if place in special else _NORMAL for place in range(len(words))]
    n_spare = size - len(words)  # rows that no word has
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list([*words, *(f"<unused{k}>" for k in range(n_spare))])
    writer.add_token_types([*kinds, *[_UNUSED] * n_spare])
    writer.add_token_merges([merge if isinstance(merge, str) else " ".join(merge) for merge in merges])
    writer.add_eos_token_id(tokenizer.eos_token_id or 0)
    writer.add_bos_token_id(tokenizer.bos_token_id or 0)
    writer.add_add_bos_token(False)


def tensor_name(name: str) -> str:
    """What llama.cpp calls a tensor of the library's Llama."""
    for ours, theirs in _NAMES:
        name = name.replace(ours, theirs)
    return name


def permuted(name: str, tensor: Any, config: Any) -> Any:
    """Rows of queries and keys as llama.cpp's rotation wants them: pairs side by side."""
    heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
    n_heads = next((n for part, n in heads.items() if part in name), None)
    if n_heads is None:
        return tensor.contiguous()
    rows = tensor.reshape(n_heads, 2, tensor.shape[0] // n_heads // 2, *tensor.shape[1:])
    return rows.swapaxes(1, 2).reshape(tensor.shape).contiguous()
