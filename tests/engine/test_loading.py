"""What a model folder can get wrong, each as one clear line."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import AddedToken

from specviz.engine.model.adapter import ModelAdapter
from specviz.engine.model.files.dtypes import pick_dtype
from specviz.engine.model.files.loading import compare_tokenizers, load, pick_device, stop_tokens
from specviz.engine.model.selftest import _paths, _probe, reference, self_test, tolerance
from specviz.engine.run.local import load_pair
from specviz.errors import ModelError
from support.models import build, save, tokenizer


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that loads."""
    folder = tmp_path_factory.mktemp("models") / "good"
    save(build("llama"), folder)
    return folder


def copy(good: Path, tmp_path: Path) -> Path:
    """A copy to spoil."""
    return Path(shutil.copytree(good, tmp_path / "spoilt"))


def refused(folder: Path | str, **rest: Any) -> str:
    """The one line a load is refused with."""
    with pytest.raises(ModelError) as caught:
        load(str(folder), "target", **{"device": "cpu", "dtype": "float32", **rest})
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_folders_that_are_none(tmp_path: Path, good: Path) -> None:
    """Missing, empty, a file."""
    assert "no such folder" in refused(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    assert "it holds nothing" in refused(tmp_path / "empty")
    assert "this file is not GGUF" in refused(good / "config.json")


def test_spoilt_files(good: Path, tmp_path: Path) -> None:
    """No weights, pickled weights, broken config, cut weights, an unknown architecture."""
    folder = copy(good, tmp_path)
    weights = folder / "model.safetensors"
    content = weights.read_bytes()
    weights.write_bytes(content[: len(content) // 2])
    assert "cannot be loaded" in refused(folder)
    weights.unlink()
    assert "no weights" in refused(folder)
    (folder / "pytorch_model.bin").write_bytes(b"\x80\x04.")
    assert "pickled" in refused(folder)
    weights.write_bytes(content)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "model_type": "nosuch", "architectures": ["NoSuch"]}))
    assert "nosuch" in refused(folder)
    (folder / "config.json").write_text("{")
    assert "not JSON" in refused(folder)


def test_layer_types_that_cannot_be_rolled_back(good: Path) -> None:
    """A recurrent layer is refused by name."""
    model = build("qwen3")
    model.config.layer_types = ["full_attention", "linear_attention", "full_attention"]
    with pytest.raises(ModelError, match="'linear_attention' cannot be rolled back"):
        ModelAdapter(model, "mixed")


def test_self_test_catches_a_layer_that_is_misread() -> None:
    """An architecture whose forward does more than its layers (here: a scaled embedding) is refused."""
    model = build("llama")
    model.model.embed_tokens.register_forward_hook(lambda m, args, out: out * 1.5)
    want = reference(model, "llama", 260)
    self_test(ModelAdapter(model), want)  # seen by both sides: fine
    model = build("llama")
    want = reference(model, "llama", 260)
    adapter = ModelAdapter(model)
    adapter.embedding = torch.nn.Embedding.from_pretrained(model.model.embed_tokens.weight * 1.5)
    with pytest.raises(ModelError, match="layers of type LlamaDecoderLayer compute what it does not"):
        self_test(adapter, want)


@torch.inference_mode()
def test_sixteen_bits_that_round_otherwise_are_no_other_model() -> None:
    """Many layers round further apart than any bound on their logits; a layer without its attention is still seen."""

    def deep(rounded: bool) -> Any:
        """24 layers; `rounded`: the same model with a factor of three moved from weights into norms."""
        model = build("llama", seed=2, num_hidden_layers=24, layer_types=None)
        for layer in model.model.layers if rounded else ():
            layer.post_attention_layernorm.weight.mul_(3)
            for linear in (layer.mlp.gate_proj, layer.mlp.up_proj):
                linear.weight.div_(3)
            layer.input_layernorm.weight.mul_(3)
            for linear in (layer.self_attn.q_proj, layer.self_attn.k_proj, layer.self_attn.v_proj):
                linear.weight.div_(3)
        return model.to(torch.bfloat16)

    want, here = reference(deep(rounded=True), "deep", 260), reference(deep(rounded=False), "deep", 260)
    apart = float((want.chain - here.chain).abs().max() / want.chain.std())
    assert apart > tolerance(torch.bfloat16), "the control: their logits are far apart"
    self_test(ModelAdapter(deep(rounded=False)), want)
    model = deep(rounded=False)
    model.model.layers[17].self_attn.o_proj.weight.zero_()
    with pytest.raises(ModelError, match="what layer 18 adds to a chain differs"):
        self_test(ModelAdapter(model), want)


def test_what_an_adapter_is_held_against_is_the_untouched_models() -> None:
    """Rows of one text serve for all paths that begin it; each is what that path gives by itself."""
    model = build("llama")
    ids, nodes = _probe(260)
    want = reference(model, "llama", 260)
    alone = [model(torch.tensor([[*ids, *path]])).logits[0].detach() for path in _paths(nodes)]
    assert torch.allclose(want.chain, alone[0], atol=1e-5)
    assert torch.allclose(want.tree, torch.stack([logits[-1] for logits in alone]), atol=1e-5)
    assert not torch.allclose(want.tree[1], want.tree[2], atol=1e-3), "the control: branches differ"


def test_devices_and_dtypes() -> None:
    """Names that are none, devices that are not here."""
    for name, words in (("gpu", "no device name"), ("cuda:99", "cuda"), ("meta", "not available here")):
        with pytest.raises(ModelError, match=words):
            pick_device(name)
    with pytest.raises(ModelError, match="use float32"):
        pick_dtype("fp8", torch.device("cpu"))


def test_tokenizers_are_compared() -> None:
    """Sizes, numbering, and splitting."""
    first, second = tokenizer(), tokenizer()
    compare_tokenizers(first, second)
    second.add_tokens([AddedToken("hello")])
    with pytest.raises(ModelError, match="260 against 261 tokens"):
        compare_tokenizers(first, second)
    third = tokenizer()
    third.add_tokens([AddedToken("world")])
    with pytest.raises(ModelError, match=r"token '(hello|world)' is 260"):
        compare_tokenizers(second, third)


def test_own_target_needs_its_own_draft(good: Path) -> None:
    """The embedded draft model does not go with another target."""
    with pytest.raises(ModelError, match="name it with --draft"):
        load_pair(str(good), None)


def test_stop_tokens_come_from_the_model(good: Path) -> None:
    """One id or several; out of range ids are dropped."""
    loaded = load(str(good), "target", "cpu", None)
    assert stop_tokens(loaded) == {257}
    loaded.adapter.model.generation_config.eos_token_id = [257, 12, 99999]
    assert stop_tokens(loaded) == {257, 12}
