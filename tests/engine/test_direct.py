"""Layers in their direct form: the library's numbers bit for bit, or the library's layers."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from specviz.engine.model.adapter import ModelAdapter
from specviz.engine.model.layers import direct_layer
from specviz.engine.model.layers.direct_layer import direct_backend, direct_layers
from specviz.engine.model.pair import load_pair
from specviz.engine.model.rows import ForwardBatch
from support.models import build

WHOLE = 64  # numbers that a step of vector code takes: what is left behind the last is rounded otherwise
TEXT = [(11 * k + 5) % 250 for k in range(40)]


@torch.inference_mode()
def logits(adapter: ModelAdapter) -> torch.Tensor:
    """Of a prompt, a chain and a tree, `[n, V]`."""
    cache, out = adapter.new_cache(90), []
    for widths in ([17], [1], [5]):
        rows = ForwardBatch(adapter, cache)
        start = cache.length
        rows.add_line(TEXT[start : start + widths[0]])
        out.append(rows.take())
        cache.follow(TEXT[: start + widths[0]])
    rows = ForwardBatch(adapter, cache)
    root = rows.add(TEXT[cache.length], -1)
    for token in (3, 9, 27):
        rows.add(token, rows.add(token + 1, root))
    out.append(rows.take())
    return torch.cat(out)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("arch", ["llama", "mistral", "qwen2", "qwen3"])
def test_it_gives_the_library_s_numbers_to_the_last_bit(arch: str, dtype: torch.dtype) -> None:
    adapter = ModelAdapter(build(arch, seed=1, dtype=dtype, intermediate_size=WHOLE))
    before, before_weights = (
        logits(adapter),
        {name: weights.clone() for name, weights in adapter.model.state_dict().items()},
    )
    backend = direct_backend(adapter)
    assert backend is not None
    assert torch.equal(logits(adapter.with_backend(backend)), before)
    assert all(torch.equal(weights, before_weights[name]) for name, weights in adapter.model.state_dict().items())


@pytest.mark.parametrize("arch", ["gemma2", "gpt2", "gpt_neox", "phi3"])
def test_a_layer_of_another_kind_stays_the_library_s(arch: str) -> None:
    adapter = ModelAdapter(build(arch, seed=1, dtype=torch.float32))
    before = logits(adapter)
    assert direct_backend(adapter) is None
    assert torch.equal(logits(adapter), before)


def test_weights_lie_in_memory_once_and_are_saved_as_they_were(tmp_path: Path) -> None:
    adapter = ModelAdapter(build("llama", seed=1, dtype=torch.float32, intermediate_size=WHOLE))
    wanted = {name: weights.clone() for name, weights in adapter.model.state_dict().items()}
    backend = direct_backend(adapter)
    assert backend is not None
    direct, attention = direct_layers(backend)[0], adapter.layers[0].self_attn
    joined = direct.dense[0].weight.untyped_storage().data_ptr()
    parts = (attention.q_proj, attention.k_proj, attention.v_proj)
    assert {part.weight.untyped_storage().data_ptr() for part in parts} == {joined}
    save_file(
        {name: weights.contiguous() for name, weights in adapter.model.state_dict().items()}, tmp_path / "weights"
    )
    tensors = load_file(tmp_path / "weights")
    assert all(torch.equal(weights, wanted[name]) for name, weights in tensors.items())


class _Sloppy(direct_layer.DirectLayer):
    """One that is a bit off."""

    def __call__(self, hidden: torch.Tensor, *args: Any, **named: Any) -> torch.Tensor:
        out = super().__call__(hidden, *args, **named)
        return torch.nextafter(out, out + 1)


def test_one_bit_of_difference_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    adapter = ModelAdapter(build("llama", seed=1, dtype=torch.float32, intermediate_size=WHOLE))
    monkeypatch.setattr(direct_layer, "DirectLayer", _Sloppy)
    assert direct_backend(adapter) is None


def test_a_loaded_pair_runs_so() -> None:
    pair = load_pair(threads=1)
    assert pair.draft is not None
    for adapter in (pair.target.adapter, pair.draft.adapter):
        assert len(direct_layers(adapter.backend.plain)) == adapter.n_layers
