"""Real servers of llama.cpp: two small random Llamas whose text is plain letters, written once for all tests."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from support import llama_server
from support.llama_server import LlamaServer


@dataclass(frozen=True)
class LlamaPair:
    """The files, and the target as the library has it."""

    target: Path
    draft: Path
    model: Any


@contextmanager
def llama_serving(pair: LlamaPair, log: Path, mode: str = "draft") -> Iterator[LlamaServer]:
    """A server of the pair in a process of its own. `mode`: see `support.llama_server`."""
    with log.open("w") as sink:
        command = [sys.executable, llama_server.__file__, str(pair.target), str(pair.draft), mode]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=sink, text=True)
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        try:
            assert address, log.read_text("utf-8", "replace")[-2000:]
            yield LlamaServer(address, log, pair.model)
        finally:
            process.kill()
            process.communicate()


@pytest.fixture(scope="session")
def llama_pair(tmp_path_factory: pytest.TempPathFactory) -> LlamaPair:
    pytest.importorskip("xllamacpp")
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    from support.gguf_files import write_gguf

    folder = tmp_path_factory.mktemp("llama")
    torch.manual_seed(1)
    config = LlamaConfig(
        vocab_size=260,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=512,
        rope_theta=10_000.0,
        tie_word_embeddings=False,
        initializer_range=0.3,
    )
    model = LlamaForCausalLM(config)
    with torch.no_grad():
        letters = torch.zeros(260)
        letters[:94] = 1  # of the byte alphabet: printable ASCII
        model.lm_head.weight.mul_(letters[:, None])
    write_gguf(folder / "target.gguf", model, template="")
    kept = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.add_(torch.randn_like(parameter) * 0.01 * (parameter != 0))
    write_gguf(folder / "draft.gguf", model, template="")
    model.load_state_dict(kept)
    return LlamaPair(folder / "target.gguf", folder / "draft.gguf", model.eval())


@pytest.fixture(scope="session")
def llama(llama_pair: LlamaPair, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LlamaServer]:
    with llama_serving(llama_pair, tmp_path_factory.mktemp("served") / "server.log") as server:
        yield server
