"""Start-up proof of an adapter: layer by layer against the untouched model, on a chain and on a small tree.

Cheap (a few rows), and it turns every architecture the adapter misreads into a refusal instead of wrong text. What is
compared with is taken before the adapter replaces anything in the model: afterwards both sides would be wrong alike.

Every layer is given the library's own states of the layer before. Over a whole model 16 bits round so much that no
bound tells a wrong layer from rounding: two right ways to compute SmolLM2's logits were up to 1.7 of their spread
apart, one that left a layer's attention out .6. Of what one layer adds it is .005 at most, against .25.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from specviz.engine.model.adapter import ModelAdapter, decoder
from specviz.engine.model.cache import KVCache
from specviz.engine.model.rows import ForwardBatch
from specviz.errors import ModelError
from specviz.model_folder import line_of, shown
from specviz.probability.draft import ROOT

PARENTS = (ROOT, ROOT, 0, 1)  # two branches of two nodes


def tolerance(dtype: torch.dtype) -> float:
    """Largest allowed difference, relative to the spread of the logits; of what a layer adds, a third of it.

    In float64 too it is that of float32: where the library spells attention out, its softmax is taken in float32.
    A row that sees another branch is 1.5 away, one at the next position .5.
    """
    return {torch.float64: 1e-5, torch.float32: 1e-3}.get(dtype, 0.15)


States = tuple[torch.Tensor, ...]  # [n, width] at the entry of every layer, and behind the last


@dataclass(frozen=True, slots=True)
class Reference:
    """What the library's own model, untouched, makes of every row of a chain, and of root and nodes of a tree."""

    chain: torch.Tensor  # logits [6, vocab]
    tree: torch.Tensor  # [1 + 4, vocab]
    chain_states: States
    tree_states: States


@torch.inference_mode()
def reference(model: Any, name: str, vocab: int) -> Reference:
    """What an adapter must reproduce, taken before it changes the model's attention and norms.

    Raises ModelError when the model gives no logits for plain ids.
    """
    vocab = min(vocab, getattr(model.config.get_text_config(), "vocab_size", vocab))
    ids, nodes = _probe(vocab)
    try:
        # A row sees what is before it alone, so one text shows every path that begins it.
        by_path: dict[tuple[int, ...], States] = {}
        for path in sorted(_paths(nodes), key=len, reverse=True):
            if tuple(path) not in by_path:
                logits, states = _plain(model, ids + path, vocab)
                for n in range(len(path) + 1):
                    by_path[tuple(path[:n])] = tuple(rows[: len(ids) + n] for rows in (logits, *states))
        chain, *chain_states = by_path[()]
        tree, *tree_states = (
            torch.stack([rows[-1] for rows in every])
            for every in zip(*(by_path[tuple(path)] for path in _paths(nodes)), strict=True)
        )
    except Exception as error:
        raise ModelError(
            f"{name}: a {type(model).__name__} gives no logits for plain text: {line_of(error)}"
        ) from error
    for logits in (chain, tree):
        if bool(logits.isnan().any()):
            raise ModelError(
                _damage(name, model)
                or f"{name}: its logits are not numbers (NaN) in this precision; try --dtype float32"
            )
    return Reference(chain, tree, tuple(chain_states), tuple(tree_states))


@torch.inference_mode()
def self_test(adapter: ModelAdapter, want: Reference) -> None:
    """Raises ModelError, with the layer type, when the adapter's layers or logits are not the untouched model's."""
    kind = type(adapter.layers[0]).__name__
    try:
        unlike = _unlike(adapter, want, tolerance(adapter.dtype))
    except ModelError as error:
        raise ModelError(f"{adapter.name}: layers of type {kind}: {error}") from None
    except Exception as error:
        raise ModelError(
            f"{adapter.name}: layers of type {kind} cannot be driven one by one: {line_of(error)}"
        ) from error
    if unlike is not None:
        raise ModelError(_damage(adapter.name, adapter.model) or _unsupported(adapter, kind, unlike))


def _unlike(adapter: ModelAdapter, want: Reference, bound: float) -> str | None:
    """What is not as the untouched model has it, None where nothing is."""
    ids, nodes = _probe(adapter.vocab)
    cache = adapter.new_cache(16)
    for name, branches, logits, states in (
        ("a chain", [], want.chain, want.chain_states),
        ("a tree", nodes, want.tree, want.tree_states),
    ):
        rows = _rows(adapter, cache, ids, branches)
        entering = _apart(rows.climb(0)[0], states[0], states[0])
        layer, gap = furthest(rows, states[:-1], states[1:])
        if not entering < bound / 3:
            return f"what enters the first of them for {name} differs by {entering:.2g}"
        if not gap < bound / 3:
            return f"what layer {layer + 1} adds to {name} differs by {gap:.2g}"
        mine = adapter.logits(states[-1][None])
        apart = torch.where(mine == logits, 0.0, mine - logits).abs().max()  # equal infinities are equal
        finite = logits[logits.isfinite()]
        gap = float(apart / finite.std().clamp(min=1e-6)) if len(finite) > 1 else float("nan")
        if not gap < bound:
            return f"logits of {name} differ by {gap:.2g}"
    return None


def _rows(adapter: ModelAdapter, cache: KVCache, ids: list[int], nodes: list[int]) -> ForwardBatch:
    """The chain's rows, or with `nodes` those of its last token and of the tree behind it."""
    if nodes:
        cache.follow(ids[:-1])
    rows = ForwardBatch(adapter, cache)
    rows.add_line(ids[-1:] if nodes else ids)
    for token, parent in zip(nodes, PARENTS[: len(nodes)], strict=True):
        rows.add(token, 0 if parent == ROOT else parent + 1)
    return rows


def furthest(rows: ForwardBatch, before: Sequence[torch.Tensor], behind: Sequence[torch.Tensor]) -> tuple[int, float]:
    """The layer, from 0, that adds to these rows what is furthest from what the library's layer adds, and how far.

    `before`, `behind`: the library's states `[n, width]` at the entry of each layer of `rows.model` and at its end.
    """
    rows.climb(0)
    gaps = []
    for layer, (hidden, wanted) in enumerate(zip(before, behind, strict=True)):
        rows.waiting[layer] = hidden[None]
        gaps.append(_apart(rows.climb(layer + 1)[0], wanted, wanted.double() - hidden.to(wanted.device).double()))
    rows.waiting[len(gaps)] = None
    # NaN compares with nothing: it is the furthest of all.
    return max(enumerate(gaps), key=lambda gap: (gap[1] != gap[1], gap[1]), default=(0, 0.0))


def _apart(rows: torch.Tensor, wanted: torch.Tensor, added: torch.Tensor) -> float:
    """How far rows `[n, width]` are from those wanted, as a share of what was added to the worst of them.

    What one rounding of a number takes is none: single states of real models are a thousand times all others, and are
    rounded by more than a layer adds elsewhere.
    """
    rows = rows.to(wanted.device)
    rounding = torch.finfo(wanted.dtype).eps * wanted.double().abs()
    apart = torch.where(rows == wanted, 0.0, rows.double() - wanted.double()).abs() - rounding
    return float((apart.clamp(min=0).norm(dim=-1) / added.double().norm(dim=-1).clamp(min=1e-6)).max())


def _damage(name: str, model: Any) -> str | None:
    """What to say of weights that are not finite; None: all are. Attention may hide them from the library's logits."""
    for tensor, weight in model.named_parameters():
        if not weight.is_meta and weight.is_floating_point() and not bool(weight.isfinite().all()):
            return f"{name}: the weights are damaged: tensor '{tensor}' holds NaN or infinite numbers; fetch it again"
    return None


def _unsupported(adapter: ModelAdapter, kind: str, unlike: str) -> str:
    """What to say of a model whose layers compute something that the adapter does not."""
    has = ", ".join(f"{key} {shown(value)}" for key, value in _unknown(adapter.config.to_dict()))
    named = f"; config.json has {has}" if has else ""
    return (
        f"{adapter.name}: specviz does not support {type(adapter.model).__name__} yet: layers of type {kind} compute "
        f"what it does not ({unlike}{named}); the model itself may be sound: take one of another family"
    )


# What a config names where a family does more than attention, products and norms, and what of that is done here.
_MORE = re.compile(r"multiplier|scaling$|scale$|alibi|parallel|shared_layers|lora_rank|attention_types")
_DONE = (
    "rope_scaling",
    "attention_multiplier",
    "embedding_multiplier",
    "logit_scale",
    "logits_scaling",
    "residual_multiplier",
)


def _unknown(config: dict[str, Any]) -> list[tuple[str, Any]]:
    return [
        (key, value)
        for key, value in config.items()
        if _MORE.search(key) and key not in _DONE and value not in (None, False, 1, 0)
    ]


def _paths(nodes: list[int]) -> list[list[int]]:
    paths: list[list[int]] = [[]]
    for token, parent in zip(nodes, PARENTS, strict=True):
        paths.append([*paths[parent + 1], token])
    return paths


def _probe(vocab: int) -> tuple[list[int], list[int]]:
    """The chain's ids, and those of the tree's nodes behind it."""
    return [(7 * k + 3) % vocab for k in range(6)], [(11 * k + 5) % vocab for k in range(len(PARENTS))]


def _plain(model: Any, ids: list[int], vocab: int) -> tuple[torch.Tensor, States]:
    device = next(model.parameters()).device
    with passing(decoder(model)[1] or ()) as states:
        out: torch.Tensor = model(torch.tensor([ids], device=device), use_cache=False).logits[0, :, :vocab]
    return (out if out.dtype == torch.float64 else out.float()), states()


@contextmanager
def passing(layers: Sequence[Any]) -> Iterator[Callable[[], States]]:
    """What passes the library's layers while its model runs: a function that gives the states of its last forward."""
    kept: dict[int, torch.Tensor] = {}

    def entered(index: int, module: Any, args: Any, kw: Any) -> None:
        kept[index] = (args[0] if args else kw["hidden_states"])[0]

    def left(module: Any, args: Any, out: Any) -> None:
        kept[len(layers)] = (out[0] if isinstance(out, tuple) else out)[0]

    hooks = [layer.register_forward_pre_hook(partial(entered, k), with_kwargs=True) for k, layer in enumerate(layers)]
    hooks += [layer.register_forward_hook(left) for layer in layers[-1:]]
    try:
        yield lambda: tuple(kept[k] for k in sorted(kept))
    finally:
        for hook in hooks:
            hook.remove()
