"""Models that are read as they are stored are those that the library's own way gives, or are left to it."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from specviz.engine.model.files import loading
from specviz.engine.model.files.as_stored import read_as_stored
from specviz.errors import ModelError
from support.models import build, save

WEIGHTS = "model.safetensors"


def theirs(folder: Path, dtype: torch.dtype) -> Any:
    """By the library's own way."""
    return AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, use_safetensors=True, trust_remote_code=False)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("stored", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_model_is_the_librarys(tied: bool, stored: torch.dtype, dtype: torch.dtype, tmp_path: Path) -> None:
    """Weights, buffers, configs, what is shared, modes, logits; and it draws no number of a global generator."""
    save(build("llama", tie_word_embeddings=tied).to(stored), tmp_path)
    before = torch.random.get_rng_state()
    mine, wanted = read_as_stored(tmp_path, dtype), theirs(tmp_path, dtype)
    assert mine is not None
    assert type(mine) is type(wanted)
    for kind in ("named_parameters", "named_buffers"):
        own, other = (dict(getattr(model, kind)(remove_duplicate=False)) for model in (mine, wanted))
        assert list(own) == list(other)
        for name, tensor in own.items():
            assert tensor.dtype == other[name].dtype
            assert tensor.requires_grad == other[name].requires_grad
            assert torch.equal(tensor, other[name]), name
    assert (mine.get_output_embeddings().weight is mine.get_input_embeddings().weight) == tied
    assert mine.config.to_dict() == wanted.config.to_dict()
    assert mine.generation_config.to_dict() == wanted.generation_config.to_dict()
    assert mine.config._attn_implementation == wanted.config._attn_implementation
    assert not mine.training
    ids = torch.tensor([[1, 5, 2, 9, 3]])
    assert torch.equal(mine(ids).logits, wanted(ids).logits)
    assert torch.equal(before, torch.random.get_rng_state())


def rename(weights: dict[str, Any], config: dict[str, Any]) -> None:
    weights["model.layers.0.mlp.old_proj.weight"] = weights.pop("model.layers.0.mlp.up_proj.weight")


def drop(weights: dict[str, Any], config: dict[str, Any]) -> None:
    del weights["model.norm.weight"]


def add(weights: dict[str, Any], config: dict[str, Any]) -> None:
    weights["model.more.weight"] = torch.zeros(3)


def reshape(weights: dict[str, Any], config: dict[str, Any]) -> None:
    weights["model.norm.weight"] = weights["model.norm.weight"][:-1].clone()


def whole(weights: dict[str, Any], config: dict[str, Any]) -> None:
    weights["model.norm.weight"] = weights["model.norm.weight"].to(torch.int8)


def quantised(weights: dict[str, Any], config: dict[str, Any]) -> None:
    config["quantization_config"] = {"quant_method": "gptq", "bits": 4}


def coded(weights: dict[str, Any], config: dict[str, Any]) -> None:
    config["auto_map"] = {"AutoConfig": "own.Config"}


def other(weights: dict[str, Any], config: dict[str, Any]) -> None:
    config["model_type"] = "qwen2"


@pytest.mark.parametrize("spoil", [rename, drop, add, reshape, whole, quantised, coded, other])
def test_anything_odd_is_left_to_the_library(
    spoil: Callable[[dict[str, Any], dict[str, Any]], None], tmp_path: Path
) -> None:
    save(build("llama"), tmp_path)
    assert read_as_stored(tmp_path, torch.float32) is not None, "the control"
    weights, config = load_file(tmp_path / WEIGHTS), json.loads((tmp_path / "config.json").read_text())
    weights = {name: weight.clone() for name, weight in weights.items()}
    spoil(weights, config)
    save_file(weights, tmp_path / WEIGHTS, metadata={"format": "pt"})
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert loading._as_stored(str(tmp_path), torch.float32) is None


def test_files_beside_or_missing_are_left_to_the_library(tmp_path: Path) -> None:
    """Adapters, weights in several files, no settings of generation; and what is broken raises nothing here."""
    save(build("llama"), tmp_path / "good")
    changes: tuple[tuple[str, Callable[[Path], object]], ...] = (
        ("adapter", lambda folder: (folder / "adapter_config.json").write_text("{}")),
        ("parts", lambda folder: (folder / WEIGHTS).rename(folder / "model-00001-of-00001.safetensors")),
        ("silent", lambda folder: (folder / "generation_config.json").unlink()),
        ("broken", lambda folder: (folder / "config.json").write_text("{")),
        ("cut", lambda folder: (folder / WEIGHTS).write_bytes((folder / WEIGHTS).read_bytes()[:-9])),
    )
    for name, change in changes:
        folder = Path(shutil.copytree(tmp_path / "good", tmp_path / name))
        change(folder)
        assert loading._as_stored(str(folder), torch.float32) is None, name


def test_what_is_wrong_is_still_said_in_one_line(tmp_path: Path) -> None:
    save(build("llama"), tmp_path)
    weights = {name: weight.clone() for name, weight in load_file(tmp_path / WEIGHTS).items()}
    reshape(weights, {})
    save_file(weights, tmp_path / WEIGHTS, metadata={"format": "pt"})
    with pytest.raises(ModelError, match=r"tensor 'model\.norm\.weight' is"):
        loading.load(str(tmp_path), "target", "cpu", "float32")
