"""Start-up proof of an adapter: its logits against the untouched model's, on a chain and on a small tree.

Cheap (a few rows), and it turns every architecture the adapter misreads into a refusal instead of wrong text. What is
compared with is taken before the adapter replaces anything in the model: afterwards both sides would be wrong alike.
"""

from dataclasses import dataclass
from typing import Any

import torch

from specviz.engine.model.adapter import ModelAdapter
from specviz.engine.model.rows import Rows
from specviz.errors import ModelError
from specviz.model_folder import line_of
from specviz.probability.draft import ROOT

PARENTS = (ROOT, ROOT, 0, 1)  # two branches of two nodes


def tolerance(dtype: torch.dtype, parted: bool = False) -> float:
    """Largest allowed difference, relative to the spread of the logits.

    In float64 too it is that of float32: where the library spells attention out, its softmax is taken in float32.
    `parted`: layers whose sums are added up over processes. In 16 bits every part of a sum is rounded there: .23 on
    SmolLM2 over three of them. A row that sees another branch is 1.5 away, one at the next position .5.
    """
    return {torch.float64: 1e-5, torch.float32: 1e-3}.get(dtype, 0.45 if parted else 0.15)


@dataclass(frozen=True, slots=True)
class Reference:
    """Logits of the library's own model, untouched: of every row of a chain, and of root and nodes of a tree."""

    chain: torch.Tensor  # [6, vocab]
    tree: torch.Tensor  # [1 + 4, vocab]


@torch.inference_mode()
def reference(model: Any, name: str, vocab: int) -> Reference:
    """The logits that an adapter must reproduce, taken before it changes the model's attention and norms.

    Raises ModelError when the model gives no logits for plain ids.
    """
    vocab = min(vocab, getattr(model.config.get_text_config(), "vocab_size", vocab))
    ids, nodes = _probe(vocab)
    try:
        # A row sees what is before it alone, so one text shows every path that begins it.
        found: dict[tuple[int, ...], torch.Tensor] = {}
        for path in sorted(_paths(nodes), key=len, reverse=True):
            if tuple(path) not in found:
                logits = _plain(model, ids + path, vocab)
                for n in range(len(path) + 1):
                    found[tuple(path[:n])] = logits[: len(ids) + n]
        chain = found[()]
        tree = torch.stack([found[tuple(path)][-1] for path in _paths(nodes)])
    except Exception as error:
        raise ModelError(
            f"{name}: a {type(model).__name__} gives no logits for plain text: {line_of(error)}"
        ) from error
    for logits in (chain, tree):
        if bool(logits.isnan().any()):
            raise ModelError(f"{name}: its logits are not numbers (NaN): the weights are damaged; try --dtype float32")
    return Reference(chain, tree)


@torch.inference_mode()
def self_test(adapter: ModelAdapter, want: Reference, parted: bool = False) -> None:
    """Raises ModelError with the layer type's name when the adapter's logits are not the untouched model's."""
    ids, nodes = _probe(adapter.vocab)
    kind = type(adapter.layers[0]).__name__
    try:
        cache = adapter.new_cache(16)
        rows = Rows(adapter, cache)
        rows.add_line(ids)
        got = [rows.take()]
        cache.follow(ids[:-1])
        rows = Rows(adapter, cache)
        rows.add(ids[-1], -1)
        for token, parent in zip(nodes, PARENTS, strict=True):
            rows.add(token, 0 if parent == ROOT else parent + 1)
        got.append(rows.take())
    except ModelError as error:
        raise ModelError(f"{adapter.name}: layers of type {kind}: {error}") from None
    except Exception as error:
        raise ModelError(
            f"{adapter.name}: layers of type {kind} cannot be driven one by one: {line_of(error)}"
        ) from error
    for name, mine, theirs in zip(("a chain", "a tree"), got, (want.chain, want.tree), strict=True):
        apart = torch.where(mine == theirs, 0.0, mine - theirs).abs().max()  # equal infinities are equal
        gap = float(apart / theirs[theirs.isfinite()].std().clamp(min=1e-6))
        if not gap < tolerance(adapter.dtype, parted):
            raise ModelError(
                f"{adapter.name}: layers of type {kind} are not supported: logits of {name} differ by {gap:.2g}"
            )


def _paths(nodes: list[int]) -> list[list[int]]:
    paths: list[list[int]] = [[]]
    for token, parent in zip(nodes, PARENTS, strict=True):
        paths.append([*paths[parent + 1], token])
    return paths


def _probe(vocab: int) -> tuple[list[int], list[int]]:
    """The chain's ids, and those of the tree's nodes behind it."""
    return [(7 * k + 3) % vocab for k in range(6)], [(11 * k + 5) % vocab for k in range(len(PARENTS))]


def _plain(model: Any, ids: list[int], vocab: int) -> torch.Tensor:
    device = next(model.parameters()).device
    out: torch.Tensor = model(torch.tensor([ids], device=device), use_cache=False).logits[0, :, :vocab]
    return out if out.dtype == torch.float64 else out.float()
