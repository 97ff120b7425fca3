"""Every supported architecture, saved to disk and loaded back: same logits and same greedy text as the library."""

from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from engine.driver import greedy, session
from engine.zoo import CONFIGS, blurred, build, save
from specviz.draft import ROOT
from specviz.engine.loading import load
from specviz.engine.rows import Rows

PLAIN = {"gemma2": "eager"}  # its only path with a soft cap; it rounds its softmax to float32 even in float64
PROMPT = [5, 77, 12, 5, 77, 12, 200, 31, 5]


@pytest.mark.parametrize("name", sorted(CONFIGS))
def test_loads_from_a_folder_and_equals_generate(name: str, tmp_path: Path) -> None:
    """Chain, tree and prompt lookup give the library's greedy tokens, past every sliding window."""
    folder = save(build(name, seed=3), tmp_path / name)
    adapter = load(folder, "target", "cpu", "float32").adapter
    draft = load(save(blurred(build(name, seed=3)), tmp_path / "draft"), "draft", "cpu", "float32").adapter
    want = greedy(load(folder, "target", "cpu", "float32").adapter.model, PROMPT, 40)
    assert session(adapter, draft, PROMPT, gamma=3).generate() == want
    assert session(adapter, draft, PROMPT, shape="tree", d_max=3, w_max=2, k_max=3).generate() == want
    assert session(adapter, None, PROMPT, method="ngram").generate() == want


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-4), (torch.float64, 1e-10)])
@pytest.mark.parametrize("name", sorted(CONFIGS))
def test_every_row_equals_an_uncached_forward(name: str, dtype: torch.dtype, tolerance: float, tmp_path: Path) -> None:
    """Rows of a tree over a cached prefix, after a rollback, against `model(ids)` of the library's own attention."""
    folder = save(build(name, seed=5, dtype=dtype), tmp_path / name)
    plain = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, attn_implementation=PLAIN.get(name, "sdpa"))
    adapter = load(folder, "target", "cpu", str(dtype).removeprefix("torch.")).adapter
    prefix = [(17 * k + 3) % 250 for k in range(30)]
    cache = adapter.new_cache(64)
    rows = Rows(adapter, cache)
    rows.add_line([*prefix[:-1], 1, 2, 3])
    rows.climb(adapter.n_layers)
    assert cache.follow(prefix) == prefix[-1:]  # rolled back over three rows
    rows = Rows(adapter, cache)
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
