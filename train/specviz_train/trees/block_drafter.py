"""`specviz train block-drafter`: SpecBlock's drafter. What all kinds share is in `train`.

Every input reaches the stream whole to begin with, and slots pass straight through. From N(0, .02) everywhere `fuse`
must first learn to keep condition and token apart, and `shifts` not to scramble the stream: on the embedded target's
text the first slot then stayed at 30 % right for 1,400 steps; from here, at lower rates and with block 1 learning
alone, it was at 63 % after 770. Nothing is fixed by this: all of it trains.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import nn

from specviz.engine.model.adapter import ModelAdapter
from specviz.methods.specblock.drafter import SpecBlock
from specviz.methods.specblock.losses import LossConfig
from specviz.methods.specblock.network import KIND, BlockConfig, BlockNetwork, Trained
from specviz.methods.trained.layers import LayerShape
from specviz.methods.trained.parts import fingerprint, taps
from specviz.methods.trained.vocabulary import Vocabulary
from specviz_train.common.own_text import OwnWindows
from specviz_train.common.training_text import Ids
from specviz_train.trees import card, train
from specviz_train.trees.card import HeldOutWindows, TreeCard
from specviz_train.trees.losses import BlockLoss
from specviz_train.trees.objective import DrafterBatches


@dataclass(frozen=True, slots=True)
class BlockDrafterRequest(train.TreeDrafterRequest):
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
    def how(self) -> LossConfig:
        """What the losses are made of."""
        return LossConfig(self.rank_loss, self.draft_loss, self.decay, self.valid_prefix, self.floor)  # type: ignore[arg-type]


def _begin(request: BlockDrafterRequest, adapter: ModelAdapter, windows: OwnWindows) -> Trained:
    """A network with seeded weights; its head begins at the target's own, in storage of its own."""
    vocabulary = vocabulary_of(adapter, windows.ids, request.draft_vocab)
    layer, width = layer_like(adapter, request.width), int(adapter.head.weight.shape[1])
    config = BlockConfig(
        target=fingerprint(adapter),
        target_name=adapter.name,
        target_layers=adapter.n_layers,
        target_width=width,
        embed_width=int(adapter.embedding.weight.shape[1]),
        taps=taps(adapter.n_layers),
        vocab=adapter.vocab,
        draft_vocab=vocabulary.n_draft,
        width=layer.width,
        heads=layer.heads,
        kv_heads=layer.kv_heads,
        head_dim=layer.head_dim,
        ff=layer.ff,
        rope_theta=layer.rope_theta,
        rope_mode=request.rope_mode,  # type: ignore[arg-type]
        slots=request.slots,
        n_layers=request.layers,
        shift=request.shift,
        broadcast=request.broadcast,
        trained_blocks=request.blocks,
    )
    rng = torch.Generator().manual_seed(request.seed)
    network = BlockNetwork(config.shape, rng)
    settle(network, rng)
    network = network.to(adapter.device)
    if layer.width == width:
        with torch.no_grad():
            network.head.weight.copy_(head_rows(adapter, vocabulary))
    return Trained(config, network.float(), vocabulary)


def _loss(request: BlockDrafterRequest, adapter: ModelAdapter, batches: DrafterBatches) -> BlockLoss:
    return BlockLoss(batches, adapter.embedding, request.how, request.alone)


def _known(adapter: ModelAdapter, trained: Trained, held: HeldOutWindows) -> dict[str, Any]:
    """How often each slot is right, and how well ranks are foreseen."""
    known = card.slots(adapter, trained, held.windows)
    return {
        "accuracy": [[round(x, 4) for x in row] for row in known.accuracy],
        "confusion": known.confusion,
        "recall": [None if x is None else round(x, 4) for x in known.recall],
        "precision": [None if x is None else round(x, 4) for x in known.precision],
    }


def _said(numbers: Mapping[str, Any]) -> dict[str, Any]:
    how, slots = numbers["settings"], range(numbers["config"]["slots"])
    left_out = [words for name, words in _ABLATIONS.items() if not how[name]]
    left_out += ["later blocks at the root's rotary positions"] * (how["rope_mode"] == "repeat")
    left_out += [f"rank loss {how['rank_loss']}"] * (how["rank_loss"] != "invsqrt")
    beyond = [f"block 1 learnt alone for {how['alone']:,} steps, or half of the time"] * bool(how["alone"])
    floor = f"a slot reached by less than {how['floor']:.0%} of the places that slot 0 has weighs accordingly less"
    beyond += [floor] * bool(how["floor"])
    confusion, precision = numbers["confusion"], numbers["precision"]
    return {
        "left_out": "; ".join(left_out),
        "beyond": "; ".join(beyond),
        "slots": [f"slot {k}" for k in slots],
        "rule": "---|" * len(slots),
        "blocks": list(enumerate(numbers["accuracy"], 1)),
        "buckets": [(name, [row[b] for row in confusion], precision[b]) for b, name in enumerate(BUCKETS)],
    }


BUCKETS = ("1", "2-4", "5-10", "lower")
_ABLATIONS = {
    "shift": "no shift between slots",
    "broadcast": "condition and token for the first slot alone",
    "valid_prefix": "no mask behind a wrong slot",
}
_TWO = {"blocks": 2}
CARD = TreeCard(
    "block-drafter",
    "specblock",
    SpecBlock,
    (
        {"blocks": 1},
        _TWO,
        {"blocks": 3},
        {**_TWO, "merge": False},
        {**_TWO, "width_mode": "fixed"},
        {"blocks": 1, "temperature": 1.0},
        {**_TWO, "temperature": 1.0},
    ),
    _known,
    _said,
    ("the first slot", "the last slot"),
)
RECIPE = train.DrafterRecipe(KIND, _begin, _loss, CARD)


LATE = 0.3  # the latest of the target's states is several times as long as the others


@torch.no_grad()
def settle(network: BlockNetwork, rng: torch.Generator) -> None:
    """Fill what stands before the layers and between them; the layers keep their seeded weights."""
    width, embed = network.shape.layer.width, network.shape.embed_width
    for place, part in enumerate(network.condition.weight.chunk(3, 1)):
        nn.init.orthogonal_(part, LATE if place == 2 else 1.0, generator=rng)
    nn.init.eye_(network.fuse.weight[:, :width])
    nn.init.orthogonal_(network.fuse.weight[:, width : width + embed], generator=rng)
    for shift in network.shifts:
        weight: torch.Tensor = shift.weight  # type: ignore[assignment]
        weight[:, :width] += torch.eye(width, device=weight.device)


def layer_like(adapter: ModelAdapter, width: int = 0) -> LayerShape:
    """A layer like the target's; with `width` a narrower one, heads and inner size in proportion."""
    theirs, full = adapter.config, int(adapter.head.weight.shape[1])
    own = width or full
    head_dim = int(getattr(theirs, "head_dim", None) or full // theirs.num_attention_heads)
    kv_heads = max(1, theirs.num_attention_heads * own // full // adapter.groups)
    heads = max(1, theirs.num_attention_heads * own // full // kv_heads) * kv_heads
    ff = int(getattr(theirs, "intermediate_size", None) or 4 * full) * own // full
    rope = getattr(theirs, "rope_parameters", None) or {}
    return LayerShape(own, heads, kv_heads, head_dim, ff, float(rope.get("rope_theta", 10_000.0)))


def vocabulary_of(adapter: ModelAdapter, ids: Ids, n: int) -> Vocabulary:
    """The `n` most frequent tokens of what the target wrote; 0: its whole vocabulary."""
    counts = torch.bincount(torch.from_numpy(ids.ravel()).long(), minlength=adapter.vocab)[: adapter.vocab]
    return Vocabulary.most_frequent(counts.to(adapter.device), n or adapter.vocab)


def head_rows(adapter: ModelAdapter, vocabulary: Vocabulary) -> torch.Tensor:
    """The target's head `[V_d, width]`, to be copied: a drafter's own must never share its storage."""
    return vocabulary.head(adapter.head.weight.detach())
