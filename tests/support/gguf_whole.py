"""SmolLM2's stored weights as a GGUF file in full precision: its own file holds them in four bits, and llama.cpp then
rounds what it multiplies with them as well, so that texts part at near ties.
"""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gguf
import torch
from gguf.scripts.gguf_new_metadata import copy_with_new_metadata
from safetensors import safe_open

from specviz_lab.bench.llama.gguf_file import permuted, tensor_name


def write_whole(path: Path, folder: Path, config: Any) -> Path:
    """Metadata and tokenizer of the folder's `model.gguf`, every tensor from its `model.safetensors` in float32."""
    reader = gguf.GGUFReader(folder / "model.gguf")
    with safe_open(folder / "model.safetensors", "pt") as stored:
        names = {tensor_name(name): name for name in stored.keys()}  # noqa: SIM118 -- no mapping
        tensors = []
        for there in reader.tensors:
            name = names[there.name]
            data = permuted(name, stored.get_tensor(name).to(torch.float32), config).numpy()
            kind = gguf.GGMLQuantizationType.F32
            tensors.append(SimpleNamespace(name=there.name, data=data, tensor_type=kind, n_bytes=data.nbytes))
    reader.tensors = tensors  # type: ignore[assignment]
    writer = gguf.GGUFWriter(path, "llama", endianess=reader.endianess)
    copy_with_new_metadata(reader, writer, {}, [])
    return path
