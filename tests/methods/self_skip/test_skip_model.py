"""The draft model of `draft_and_verify` is the library's model with those sublayers' outputs gone, and nothing else."""

import copy
from typing import Any

import pytest
import torch
from torch import nn

from specviz.engine.model.adapter import ModelAdapter
from specviz.engine.model.rows import ForwardBatch, fill
from specviz.errors import ModelError
from specviz.methods.self_skip.model import ATTENTION, MLP, Borrowed, SkippedModel, _name
from specviz.methods.self_skip.spec import SkipSet
from support.models import CONFIGS, build

IDS = [5, 77, 12, 200, 31, 9, 54, 3]
SETS = ["a1", "m2", "a2 m2", "a1 a3 m1 m2", "a1 a2 a3 m1 m2 m3"]


def adapter_of(name: str, **changes: Any) -> ModelAdapter:
    return ModelAdapter(build(name, seed=3, dtype=torch.float64, **changes))


def edited(target: ModelAdapter, skips: SkipSet) -> Any:
    """A deep copy of the library's model, the last projection of every left-out sublayer set to zero."""
    model = copy.deepcopy(target.model)
    layers = ModelAdapter(model).layers
    with torch.no_grad():
        for names, numbers in ((ATTENTION, skips.attention), (MLP, skips.mlp)):
            for number in numbers:
                layer = layers[number - 1]
                sublayer = getattr(layer, _name(layer, names, "copy"))
                last = [m for m in sublayer.modules() if hasattr(m, "weight") and m.weight.dim() == 2][-1]
                last.weight.zero_()
                if getattr(last, "bias", None) is not None:
                    last.bias.zero_()
    return model


def parsed(text: str) -> SkipSet:
    skips = SkipSet.parse([text])
    assert skips is not None
    return skips


@torch.inference_mode()
def through(model: Any, ids: list[int]) -> torch.Tensor:
    """By rows that go one by one and in a block."""
    rows = ForwardBatch(model, model.new_cache(16))
    row = rows.add_line(ids[:4])
    outputs = [rows.take()]
    for token in ids[4:]:
        row = rows.add(token, row)
        outputs.append(rows.take())
    return torch.cat(outputs)


@pytest.mark.parametrize("name", list(CONFIGS))
@pytest.mark.parametrize("text", SETS)
def test_it_is_the_edited_library_model(name: str, text: str) -> None:
    target = adapter_of(name)
    ours = through(SkippedModel(target, parsed(text)), IDS)
    with torch.inference_mode():
        want = edited(target, parsed(text))(torch.tensor([IDS])).logits[0, :, : target.vocab]
        whole = target.model(torch.tensor([IDS])).logits[0, :, : target.vocab]
    close = 1e-5 if name.startswith("gemma") else 1e-9  # the library's Gemma rounds to float32 inside
    assert torch.allclose(ours, want, atol=close)
    assert not torch.allclose(ours, whole, atol=1e-3)  # something is gone


def test_nothing_left_out_is_the_target() -> None:
    target = adapter_of("llama")
    model = SkippedModel(target, SkipSet())
    assert model.n_layers == 3
    assert torch.allclose(through(model, IDS), through(target, IDS), atol=1e-12)


def test_a_layer_without_both_is_not_run() -> None:
    assert SkippedModel(adapter_of("llama"), parsed("a2 m2 a3")).n_layers == 2


def test_the_targets_own_layers_stay_whole() -> None:
    target = adapter_of("llama")
    before = through(target, IDS)
    layers = target.layers
    SkippedModel(target, parsed("a1 a2 m3"))
    assert target.layers is layers
    assert torch.equal(through(target, IDS), before)
    assert not any(module._forward_hooks for module in target.model.modules())


@torch.inference_mode()
@pytest.mark.parametrize("name", ["llama", "qwen2", "gpt2"])
def test_a_draft_reads_the_targets_committed_keys(name: str) -> None:
    """Against the library: the edited model over a cache that the whole model filled."""
    target, skips, n = adapter_of(name), parsed("a2 m1"), 5
    cache = target.new_cache(32)
    fill(target, cache, IDS[:n])
    rows = ForwardBatch(SkippedModel(target, skips), Borrowed(cache))
    row = rows.add_line(IDS[n : n + 1])
    outputs = [rows.take()]
    for token in IDS[n + 1 :]:
        row = rows.add(token, row)
        outputs.append(rows.take())
    past = target.model(torch.tensor([IDS[:n]]), use_cache=True).past_key_values
    want = edited(target, skips)(torch.tensor([IDS[n:]]), past_key_values=past).logits[0, :, : target.vocab]
    assert torch.allclose(torch.cat(outputs), want, atol=1e-9)
    alone = through(SkippedModel(target, skips), IDS)[n:]
    assert not torch.allclose(torch.cat(outputs), alone, atol=1e-6)  # its own prefill would be another model


@torch.inference_mode()
def test_what_a_draft_writes_is_void() -> None:
    """The owner's committed slots are untouched, and its next rows are as if nobody had drafted."""
    target = adapter_of("llama")
    caches = [target.new_cache(32) for _ in range(2)]
    for cache in caches:
        fill(target, cache, IDS[:5])
    rows = ForwardBatch(SkippedModel(target, parsed("a2")), Borrowed(caches[0]))
    rows.add_line(IDS[4:])
    rows.take()
    assert caches[0].filled == caches[1].filled
    assert caches[0].tokens == caches[1].tokens
    logits = []
    for cache in caches:
        rows = ForwardBatch(target, cache)
        rows.add_line(IDS[5:])
        logits.append(rows.take())
    assert torch.equal(*logits)
    with pytest.raises(AssertionError, match="keeps nothing"):
        Borrowed(caches[0]).follow(IDS)


def test_what_is_refused_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Layers that are not there, layers without such parts, and layers that do not add what a sublayer gives."""
    target = adapter_of("llama")
    with pytest.raises(ModelError, match="layer 4 is not there, the target has 3 layers"):
        SkippedModel(target, parsed("a4"))
    kept = target.layers[0]._modules.pop("mlp")
    with pytest.raises(ModelError, match="no mlp in a layer of type LlamaDecoderLayer"):
        SkippedModel(target, parsed("m1"))
    target.layers[0]._modules["mlp"] = kept

    class Loud(nn.Module):
        def forward(self, hidden: torch.Tensor) -> torch.Tensor:
            return hidden

    monkeypatch.setattr("specviz.methods.self_skip.model.Silent", lambda pair: Loud())
    with pytest.raises(ModelError, match="LlamaDecoderLayer cannot be run in part") as caught:
        SkippedModel(target, parsed("m1"))
    assert "\n" not in str(caught.value)
