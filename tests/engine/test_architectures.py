"""Every supported architecture, saved to disk and loaded back: same logits and same greedy text as the library."""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM
from transformers.models.gpt_oss import modeling_gpt_oss

from specviz.engine.model.adapter import ModelAdapter
from specviz.engine.model.files.loading import load
from specviz.engine.model.layers import attention
from specviz.engine.model.rows import ForwardBatch
from specviz.errors import ModelError
from specviz.methods.early_exit.heads import FinalHead
from specviz.probability.draft import ROOT
from support.driver import greedy, session
from support.models import CONFIGS, MORE, REFUSED, blurred, build, save

PLAIN = {"gemma2": "eager"}  # its only path with a soft cap; it rounds its softmax to float32 even in float64
PROMPT = [5, 77, 12, 5, 77, 12, 200, 31, 5]


def untouched(folder: str) -> Any:
    """The library's own model of a folder, with the attention it chooses itself."""
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, trust_remote_code=False).eval()


@pytest.mark.parametrize("name", sorted(CONFIGS))
def test_loads_from_a_folder_and_equals_generate(name: str, tmp_path: Path) -> None:
    """Chain, tree and prompt lookup give the library's greedy tokens, past every sliding window."""
    folder = save(build(name, seed=3), tmp_path / name)
    adapter = load(folder, "target", "cpu", "float32").adapter
    draft = load(save(blurred(build(name, seed=3)), tmp_path / "draft"), "draft", "cpu", "float32").adapter
    want = greedy(untouched(folder), PROMPT, 40)
    assert session(adapter, draft, PROMPT, gamma=3).generate() == want
    assert session(adapter, draft, PROMPT, shape="tree", d_max=3, w_max=2, k_max=3).generate() == want
    assert session(adapter, None, PROMPT, method="ngram").generate() == want


@pytest.mark.parametrize("name", sorted(MORE))
def test_what_nobody_tried_equals_the_untouched_library_too(name: str, tmp_path: Path) -> None:
    """Experts, attention sinks, other norms and rotary tables: greedy text on a chain, a tree and prompt lookup."""
    folder = save(build(name, seed=3), tmp_path / "target")
    adapter = load(folder, "target", "cpu", "float32").adapter
    draft = load(save(blurred(build(name, seed=3)), tmp_path / "draft"), "draft", "cpu", "float32").adapter
    want = greedy(untouched(folder), PROMPT, 40)
    assert session(adapter, None, PROMPT, method="ar").generate() == want
    assert session(adapter, draft, PROMPT, shape="tree", d_max=3, w_max=2, k_max=3).generate() == want
    assert session(adapter, draft, PROMPT, method="specbranch").generate() == want


@pytest.mark.parametrize("name", ["granite", "cohere", "gemma2"])
def test_a_head_for_states_inside_scales_and_caps_as_the_model_does(name: str) -> None:
    adapter = ModelAdapter(build(name))
    states = torch.randn(1, 3, 32, generator=torch.Generator().manual_seed(1))
    want = adapter.logits(states)
    assert torch.allclose(FinalHead(adapter).scores(adapter.normed(states)[0]), want)
    assert not torch.allclose(adapter.head(adapter.normed(states))[0, :, : adapter.vocab], want), "the control"


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_the_adapter_misreads_is_refused_in_one_line(name: str, tmp_path: Path) -> None:
    """Scaled logits, positions in the scores, recurrent layers: never text of another model."""
    folder = save(build(name, seed=3), tmp_path / "target")
    with pytest.raises(ModelError, match=REFUSED[name][1]) as caught:
        load(folder, "target", "cpu", "float32")
    assert "\n" not in str(caught.value)


def test_the_reference_is_the_model_before_anything_was_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An attention of ours that is wrong shows, though the model it was put into is wrong alike."""
    folder = save(build("llama", seed=3), tmp_path / "llama")
    right = attention.packed_attention

    def wrong(*args: Any, **kwargs: Any) -> Any:
        out, weights = right(*args, **kwargs)
        return out * 1.05, weights

    monkeypatch.setattr(attention, "packed_attention", wrong)
    with pytest.raises(ModelError, match="layers of type LlamaDecoderLayer compute what it does not"):
        load(folder, "target", "cpu", "float32")
    monkeypatch.setattr(attention, "packed_attention", right)
    load(folder, "target", "cpu", "float32")  # which also registers the right one again


def test_attention_sinks_take_their_share() -> None:
    """Against the library's own function for them, grouped heads and a mask of a tree included."""
    noise = torch.Generator().manual_seed(2)
    query, key, value = (torch.randn(1, heads, n, 8, generator=noise) for heads, n in ((4, 3), (2, 7), (2, 7)))
    layer = build("gpt_oss").model.layers[0].self_attn
    mask = torch.rand(1, 1, 3, 7, generator=noise) > 0.4
    mask[..., 0] = True
    added = torch.zeros(1, 1, 3, 7).masked_fill(~mask, float("-inf"))
    want, _ = modeling_gpt_oss.eager_attention_forward(layer, query, key, value, added, layer.scaling)
    got, _ = attention.packed_attention(layer, query, key, value, mask, scaling=layer.scaling, s_aux=layer.sinks)
    assert torch.allclose(got, want, atol=1e-6)
    without, _ = attention.packed_attention(layer, query, key, value, mask, scaling=layer.scaling)
    assert not torch.allclose(without, want, atol=1e-3)


@pytest.mark.parametrize(
    "arguments", [{"block_indices": torch.zeros(1)}, {"position_bias": torch.zeros(1)}, {"is_causal": False}]
)
def test_an_unknown_argument_of_the_attention_is_refused_by_name(arguments: dict[str, Any]) -> None:
    """Left out in silence it would give wrong text; what is without effect, or None, is taken."""
    row = torch.ones(1, 2, 3, 4)
    with pytest.raises(ModelError, match=f"'{next(iter(arguments))}', which is not supported"):
        attention.packed_attention(None, row, row, row, None, **arguments)
    attention.packed_attention(None, row, row, row, None, sliding_window=4, is_causal=True, block_indices=None)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-4), (torch.float64, 1e-10)])
@pytest.mark.parametrize("name", sorted(CONFIGS))
def test_every_row_equals_an_uncached_forward(name: str, dtype: torch.dtype, tolerance: float, tmp_path: Path) -> None:
    """Rows of a tree over a cached prefix, after a rollback, against `model(ids)` of the library's own attention."""
    folder = save(build(name, seed=5, dtype=dtype), tmp_path / name)
    plain = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, attn_implementation=PLAIN.get(name, "sdpa"))
    adapter = load(folder, "target", "cpu", str(dtype).removeprefix("torch.")).adapter
    prefix = [(17 * k + 3) % 250 for k in range(30)]
    cache = adapter.new_cache(64)
    rows = ForwardBatch(adapter, cache)
    rows.add_line([*prefix[:-1], 1, 2, 3])
    rows.climb(adapter.n_layers)
    assert cache.follow(prefix) == prefix[-1:]  # rolled back over three rows
    rows = ForwardBatch(adapter, cache)
    root = rows.add(prefix[-1], -1)
    tokens, parents = [40, 41, 42, 43, 44], [ROOT, ROOT, 0, 1, 2]
    for token, parent in zip(tokens, parents, strict=True):
        rows.add(token, root if parent == ROOT else root + 1 + parent)
    got = rows.take()
    paths: list[list[int]] = []
    for token, parent in zip(tokens, parents, strict=True):
        paths.append([*(paths[parent] if parent != ROOT else []), token])
    for row, path in enumerate([[], *paths]):
        with torch.no_grad():
            want = plain(torch.tensor([prefix + path]), use_cache=False).logits[0, -1]
        limit = 1e-5 if name in PLAIN else tolerance
        assert float((got[row] - want).abs().max()) < max(limit, tolerance) * max(1.0, float(want.abs().max()))
