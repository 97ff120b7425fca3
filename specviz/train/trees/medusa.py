"""`specviz train medusa`: Medusa heads and the fixed tree that suits them. What all kinds share is in `drafter`."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from specviz.engine.model.adapter import ModelAdapter
from specviz.methods.medusa.network import KIND, Config, MedusaHeads, Trained
from specviz.methods.trained.parts import fingerprint
from specviz.train.common.job import Console
from specviz.train.trees import block_text, medusa_card, train
from specviz.train.trees.block_drafter import head_rows, vocabulary_of
from specviz.train.trees.loop import Held, Lesson
from specviz.train.trees.objectives import MedusaSteps, counted_ranks


@dataclass(frozen=True, slots=True)
class Request(train.Request):
    """What the command line asks for."""

    command_name: ClassVar[str] = "medusa"

    heads: int = 4


def train_medusa(request: Request, console: Console) -> dict[str, Any] | None:
    """Do what is not done yet; write heads and card; return the card's numbers."""
    return train.train(request, RECIPE, console)


def _begin(request: Request, adapter: ModelAdapter, windows: block_text.Windows) -> Trained:
    """Heads that say what the target's own says."""
    vocabulary = vocabulary_of(adapter, windows.ids, request.draft_vocab)
    width = int(adapter.head.weight.shape[1])
    config = Config(
        fingerprint(adapter), adapter.name, adapter.n_layers, width, adapter.vocab, vocabulary.n_draft, request.heads
    )
    network = MedusaHeads(request.heads, width, vocabulary.n_draft).to(adapter.device)
    return Trained(config, network.begin(head_rows(adapter, vocabulary)), vocabulary)


def _steps(request: Request, adapter: ModelAdapter, lesson: Lesson) -> MedusaSteps:
    return MedusaSteps(lesson, request.decay, request.draft_loss)  # type: ignore[arg-type]


def _with_tree(adapter: ModelAdapter, trained: Trained, held: Held) -> Trained:
    """The heads with how often each rank was right on greedy held-out text, from which the tree follows."""
    right = counted_ranks(adapter, trained, held.windows, held.answer_from)
    return Trained(replace(trained.config, right=right), trained.network, trained.vocabulary)


RECIPE = train.Recipe(
    KIND, _begin, _steps, medusa_card.write, _with_tree, held=block_text.GREEDY, checkpoint="heads.pt"
)
