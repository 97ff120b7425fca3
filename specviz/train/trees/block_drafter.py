"""`specviz train block-drafter`: SpecBlock's drafter (specblock.md 7). What all kinds share is in `drafter`."""

from dataclasses import dataclass
from typing import Any, ClassVar, get_args

import torch

from specviz.engine.model.adapter import ModelAdapter
from specviz.methods.specblock.files import KIND, Config, Trained
from specviz.methods.specblock.losses import How, RankLoss
from specviz.methods.specblock.network import BlockNetwork, RopeMode
from specviz.methods.trained.fit import taps
from specviz.methods.trained.part_files import fingerprint
from specviz.train.common.console import Console
from specviz.train.trees import block_card, train
from specviz.train.trees.block_loop import BlockSteps
from specviz.train.trees.block_sizes import head_rows, layer_like, vocabulary_of
from specviz.train.trees.block_start import settle
from specviz.train.trees.block_text import Windows
from specviz.train.trees.loop import Lesson


@dataclass(frozen=True, slots=True)
class Request(train.Request):
    """What the command line asks for. `shift`, `broadcast`, `valid_prefix` off: what the paper's parts are worth.

    `floor`, `alone`: what our recipe adds to the paper's; 0 leaves it out.
    """

    command_name: ClassVar[str] = "block-drafter"

    slots: int = 4
    layers: int = 2
    blocks: int = 3
    width: int = 0
    rope_mode: str = "offset"
    rank_loss: str = "invsqrt"
    shift: bool = True
    broadcast: bool = True
    valid_prefix: bool = True
    floor: float = 0.25
    alone: int = 1200

    @property
    def how(self) -> How:
        """What the losses are made of."""
        return How(self.rank_loss, self.draft_loss, self.decay, self.valid_prefix, self.floor)  # type: ignore[arg-type]


def train_block_drafter(request: Request, console: Console) -> dict[str, Any] | None:
    """Do what is not done yet; write drafter and card; return the card's numbers."""
    for name, value, known in (
        ("rope-mode", request.rope_mode, get_args(RopeMode)), ("rank-loss", request.rank_loss, get_args(RankLoss)),
    ):  # fmt: skip
        train.refuse_unknown(name, value, known)
    return train.train(request, RECIPE, console)


def _begin(request: Request, adapter: ModelAdapter, windows: Windows) -> Trained:
    """A network with seeded weights; its head begins at the target's own, in storage of its own."""
    vocabulary = vocabulary_of(adapter, windows.ids, request.draft_vocab)
    layer, width = layer_like(adapter, request.width), int(adapter.head.weight.shape[1])
    config = Config(
        target=fingerprint(adapter), target_name=adapter.name, target_layers=adapter.n_layers, target_width=width,
        embed_width=int(adapter.embedding.weight.shape[1]), taps=taps(adapter.n_layers), vocab=adapter.vocab,
        draft_vocab=vocabulary.n_draft, width=layer.width, heads=layer.heads, kv_heads=layer.kv_heads,
        head_dim=layer.head_dim, ff=layer.ff, rope_theta=layer.rope_theta,
        rope_mode=request.rope_mode,  # type: ignore[arg-type]
        slots=request.slots, n_layers=request.layers, shift=request.shift, broadcast=request.broadcast,
        trained_blocks=request.blocks,
    )  # fmt: skip
    rng = torch.Generator().manual_seed(request.seed)
    network = BlockNetwork(config.shape, rng)
    settle(network, rng)
    network = network.to(adapter.device)
    if layer.width == width:
        with torch.no_grad():
            network.head.weight.copy_(head_rows(adapter, vocabulary))
    return Trained(config, network.float(), vocabulary)


def _steps(request: Request, adapter: ModelAdapter, lesson: Lesson) -> BlockSteps:
    return BlockSteps(lesson, adapter.embedding, request.how, request.alone)


RECIPE = train.Recipe(KIND, _begin, _steps, block_card.write)
