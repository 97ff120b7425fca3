"""`specviz train eagle3`: an EAGLE-3-style drafter (specblock.md 10). What all kinds share is in `drafter`."""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from specviz.engine.model.adapter import ModelAdapter
from specviz.methods.eagle3.network import KIND, Config, EagleNetwork, Trained
from specviz.methods.trained.parts import fingerprint, taps
from specviz.train.common.job import Console
from specviz.train.trees import eagle_card, train
from specviz.train.trees.block_drafter import head_rows, layer_like, vocabulary_of
from specviz.train.trees.block_text import Windows
from specviz.train.trees.loop import Lesson
from specviz.train.trees.objectives import EagleSteps


@dataclass(frozen=True, slots=True)
class Request(train.Request):
    """What the command line asks for. `steps`: levels unrolled in training."""

    command_name: ClassVar[str] = "eagle3"

    steps: int = 7


def train_eagle3(request: Request, console: Console) -> dict[str, Any] | None:
    """Do what is not done yet; write drafter and card; return the card's numbers."""
    return train.train(request, RECIPE, console)


def _begin(request: Request, adapter: ModelAdapter, windows: Windows) -> Trained:
    """A network with seeded weights; its head begins at the target's own, in storage of its own."""
    vocabulary = vocabulary_of(adapter, windows.ids, request.draft_vocab)
    layer = layer_like(adapter)
    config = Config(
        target=fingerprint(adapter), target_name=adapter.name, target_layers=adapter.n_layers,
        target_width=layer.width, taps=taps(adapter.n_layers), vocab=adapter.vocab, draft_vocab=vocabulary.n_draft,
        heads=layer.heads, kv_heads=layer.kv_heads, head_dim=layer.head_dim, ff=layer.ff, rope_theta=layer.rope_theta,
        trained_steps=request.steps,
    )  # fmt: skip
    network = EagleNetwork(config.shape, torch.Generator().manual_seed(request.seed)).to(adapter.device)
    with torch.no_grad():
        network.head.weight.copy_(head_rows(adapter, vocabulary))
    return Trained(config, network.float(), vocabulary)


def _steps(request: Request, adapter: ModelAdapter, lesson: Lesson) -> EagleSteps:
    return EagleSteps(lesson, adapter.embedding, request.decay, request.draft_loss)  # type: ignore[arg-type]


RECIPE = train.Recipe(KIND, _begin, _steps, eagle_card.write)
