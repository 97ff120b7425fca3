"""Start-up proof of an adapter: its logits against `model(ids)`, on a chain and on a small tree.

Cheap (a few rows), and it turns every architecture the adapter misreads into a refusal instead of wrong text.
"""

import torch

from specviz.draft import ROOT
from specviz.engine.model import ModelAdapter
from specviz.engine.rows import Rows
from specviz.errors import ModelError

PARENTS = (ROOT, ROOT, 0, 1)  # two branches of two nodes


def tolerance(dtype: torch.dtype) -> float:
    """Largest allowed difference, relative to the spread of the logits."""
    return {torch.float64: 1e-9, torch.float32: 1e-3}.get(dtype, 0.15)


@torch.inference_mode()
def self_test(adapter: ModelAdapter) -> None:
    """Raises ModelError with the layer type's name when the adapter's logits are not the model's."""
    vocab = adapter.vocab
    ids = [(7 * k + 3) % vocab for k in range(6)]
    nodes = [(11 * k + 5) % vocab for k in range(len(PARENTS))]
    kind = type(adapter.layers[0]).__name__
    try:
        cache = adapter.new_cache(16)
        rows = Rows(adapter, cache)
        rows.add_line(ids)
        got = [rows.take()]
        rows = _next(adapter, cache, ids)
        for token, parent in zip(nodes, PARENTS, strict=True):
            rows.add(token, 0 if parent == ROOT else parent + 1)
        got.append(rows.take())
        want = [_plain(adapter, ids), torch.stack([_plain(adapter, ids + p)[-1] for p in _paths(nodes)])]
    except ModelError:
        raise
    except Exception as error:
        raise ModelError(f"{adapter.name}: layers of type {kind} cannot be driven one by one: {error}") from error
    for name, mine, theirs in zip(("a chain", "a tree"), got, want, strict=True):
        gap = float((mine - theirs).abs().max() / theirs.std().clamp(min=1e-6))
        if not gap < tolerance(adapter.dtype):
            raise ModelError(
                f"{adapter.name}: layers of type {kind} are not supported: logits of {name} differ by {gap:.2g}"
            )


def _next(adapter: ModelAdapter, cache: "object", ids: list[int]) -> Rows:
    cache.follow(ids[:-1])  # type: ignore[attr-defined]
    rows = Rows(adapter, cache)  # type: ignore[arg-type]
    rows.add(ids[-1], -1)
    return rows


def _paths(nodes: list[int]) -> list[list[int]]:
    paths: list[list[int]] = [[]]
    for token, parent in zip(nodes, PARENTS, strict=True):
        paths.append([*paths[parent + 1], token])
    return paths


def _plain(adapter: ModelAdapter, ids: list[int]) -> torch.Tensor:
    out: torch.Tensor = adapter.model(torch.tensor([ids], device=adapter.device), use_cache=False).logits[
        0, :, : adapter.vocab
    ]
    return out if out.dtype == torch.float64 else out.float()
