"""`specviz train medusa`: Medusa heads and the fixed tree that suits them. What all kinds share is in `train`."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from specviz.engine.model.adapter import ModelAdapter
from specviz.methods.medusa.drafter import KIND, Medusa, MedusaConfig, MedusaHeads, Trained
from specviz.methods.trained.parts import fingerprint
from specviz.methods.trained.rank_shapes import best_paths, expected
from specviz_train.common.own_text import OwnWindows
from specviz_train.trees import train
from specviz_train.trees.block_drafter import head_rows, vocabulary_of
from specviz_train.trees.card import HeldOutWindows, TreeCard
from specviz_train.trees.losses import PlacesLoss, counted_ranks, heads_of, medusa_loss
from specviz_train.trees.objective import DrafterBatches


@dataclass(frozen=True, slots=True)
class MedusaRequest(train.TreeDrafterRequest):
    """What the command line asks for."""

    command_name: ClassVar[str] = "medusa"

    heads: int = 4


def _begin(request: MedusaRequest, adapter: ModelAdapter, windows: OwnWindows) -> Trained:
    """Heads that say what the target's own says."""
    vocabulary = vocabulary_of(adapter, windows.ids, request.draft_vocab)
    width = int(adapter.head.weight.shape[1])
    config = MedusaConfig(
        fingerprint(adapter), adapter.name, adapter.n_layers, width, adapter.vocab, vocabulary.n_draft, request.heads
    )
    network = MedusaHeads(request.heads, width, vocabulary.n_draft).to(adapter.device)
    return Trained(config, network.begin(head_rows(adapter, vocabulary)), vocabulary)


def _loss(request: MedusaRequest, adapter: ModelAdapter, batches: DrafterBatches) -> PlacesLoss:
    return medusa_loss(batches, request.decay, request.draft_loss)  # type: ignore[arg-type]


def _with_tree(adapter: ModelAdapter, trained: Trained, held: HeldOutWindows) -> Trained:
    """The heads with how often each rank was right on greedy held-out text, from which the tree follows."""
    right = counted_ranks(adapter, trained, held.windows, lambda seen: heads_of(trained, seen))
    return Trained(replace(trained.config, right=right), trained.network, trained.vocabulary)


def _known(adapter: ModelAdapter, trained: Trained, held: HeldOutWindows) -> dict[str, Any]:
    """Where the target's token stands in each head, and the tree that follows."""
    right = trained.config.right
    tree = best_paths(right, TREE)
    return {"right": right, "tree": tree, "expected": round(expected(right, tree), 3)}


def _said(numbers: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "firsts": _FIRSTS,
        "rule": "---|" * len(_FIRSTS),
        "heads": [(j, [sum(row[:n]) for n in _FIRSTS]) for j, row in enumerate(numbers["right"], 1)],
        "n_paths": TREE,
    }


TREE = 63
_FIRSTS = (1, 2, 3, 5, 10)
CARD = TreeCard(
    "medusa",
    "medusa",
    Medusa,
    ({}, {"node_budget": 24}, {"temperature": 1.0}),
    _known,
    _said,
    ("the first head", "the last head"),
)
RECIPE = train.DrafterRecipe(KIND, _begin, _loss, CARD, _with_tree, temperatures=(0.0,), checkpoint="heads.pt")
