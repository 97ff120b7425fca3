"""`specviz train dflash`: a parallel block drafter for a frozen target. What all kinds share is in `train`.

Blocks stand at random places of every window and are filled in one forward. A place weighs less the further ahead it
is. The confidence head learns beside it, on states that it does not move: whether a place's best token is the target's,
asked only where all places before were right, as its chances are multiplied.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from specviz.engine.model.adapter import ModelAdapter
from specviz.methods.dflash.drafter import MaskedBlock
from specviz.methods.dflash.network import KIND, MaskedBlockNetwork, MaskedConfig, Trained, packed_blocks
from specviz.methods.trained.parts import fingerprint, taps
from specviz_train.common.own_text import OwnWindows
from specviz_train.trees import levels, train
from specviz_train.trees.block_drafter import layer_like, vocabulary_of
from specviz_train.trees.card import HeldOutWindows, TreeCard
from specviz_train.trees.losses import PlaceResult, behind_right, placed
from specviz_train.trees.objective import DrafterBatches, PartResult, TargetOutputs, read_target

EVERY = 4  # held-out windows are asked at every so many pairs


@dataclass(frozen=True, slots=True)
class DflashRequest(train.TreeDrafterRequest):
    """What the command line asks for. `slots`: masked places of a block; `anchors`: blocks a window in training."""

    command_name: ClassVar[str] = "dflash"

    slots: int = 8
    layers: int = 2
    anchors: int = 48


def _begin(request: DflashRequest, adapter: ModelAdapter, windows: OwnWindows) -> Trained:
    vocabulary = vocabulary_of(adapter, windows.ids, request.draft_vocab)
    config = MaskedConfig.describing(
        adapter,
        fingerprint(adapter),
        taps(adapter.n_layers),
        vocabulary.n_draft,
        layer_like(adapter),
        slots=request.slots,
        n_layers=request.layers,
    )
    rng = torch.Generator().manual_seed(request.seed)
    network = MaskedBlockNetwork(config.shape, rng).to(adapter.device).float()
    network.join(adapter, vocabulary)
    settle(network, adapter)
    return Trained(config, network, vocabulary)


@torch.no_grad()
def settle(network: MaskedBlockNetwork, adapter: ModelAdapter) -> None:
    """Begin as the target's last layers, over the latest of its states; masked places keep their seeded vectors."""
    width = network.shape.layer.width
    network.fuse.weight[:, -width:] += torch.eye(width, device=network.fuse.weight.device)
    for layer, theirs in zip(reversed(network.layers), reversed(adapter.layers), strict=False):
        levels.begin_as(layer, theirs)  # type: ignore[arg-type]
    levels.copied(network.norm_out.weight, levels.last_gain(adapter))


@dataclass(frozen=True, slots=True)
class FilledBlocks:
    """Blocks that were filled: each place, and the confidence head's logits where it counts `[n]`."""

    places: list[PlaceResult]
    sure: list[Tensor]

    @property
    def judged(self) -> list[tuple[Tensor, Tensor]]:
        """By place: whether it was right and how sure it was, both `[n]`, where all before were right."""
        judged_places = []
        for (place, reached), sure in zip(behind_right(self.places), self.sure, strict=True):
            judged_places.append((place.right[reached], sure[reached[place.counted]]))
        return judged_places


def filled(trained: Trained, adapter: ModelAdapter, seen: TargetOutputs, anchors: Tensor, kind: Any) -> FilledBlocks:
    """All places of blocks at pairs `anchors` `[W, A]`."""
    network, sure = trained.network, []
    states = packed_blocks(network, adapter.embedding, seen.features, seen.tokens, anchors)

    def head_logits(place: int, mask: Tensor) -> Tensor:
        own = states[:, :, place][mask]
        logits = network.head_logits(own)
        sure.append(network.sureness(own.detach(), logits.detach()))
        return logits

    def result_at(place: int) -> PlaceResult:
        return placed(seen.truth, anchors + 1 + place, lambda mask: head_logits(place, mask), kind)

    return FilledBlocks([result_at(place) for place in range(network.shape.places)], sure)


@dataclass(frozen=True, slots=True)
class FillLoss:
    """The loss of a part of a step: places by their distance, and the confidence head's own."""

    request: DflashRequest
    adapter: ModelAdapter
    batches: DrafterBatches

    def __call__(self, step: int, part: int = 0, progress: float = 0.0) -> PartResult:
        seen, request = self.batches.seen(step, part), self.request
        windows, n_pairs = seen.features.shape[:2]
        rng = np.random.default_rng(self.batches.key(step, part, 2))
        picked = rng.integers(0, max(1, n_pairs - 1), (windows, request.anchors))
        anchors = torch.from_numpy(picked).to(seen.tokens.device)
        blocks = filled(self.batches.trained, self.adapter, seen, anchors, request.draft_loss)
        loss = torch.zeros((), device=seen.tokens.device)
        for ahead, (place, (right, sure)) in enumerate(zip(blocks.places, blocks.judged, strict=True)):
            missed = functional.binary_cross_entropy_with_logits(sure.float(), right.float(), reduction="sum")
            loss = loss + request.decay**ahead * (place.loss + missed / max(1, len(sure)))
        first, last = blocks.places[0], blocks.places[-1]
        right_of = first.share_right, last.share_right
        return PartResult(loss, float(first.loss.detach()), right_of, anchors.numel() * len(blocks.places))


@torch.no_grad()
def _known(adapter: ModelAdapter, trained: Trained, held: HeldOutWindows) -> dict[str, Any]:
    """By place, behind right ones: how often it was right, and how sure it was on average."""
    right, sure, total = torch.zeros(3, trained.config.slots)
    for part in held.windows.split(4):
        seen = read_target(adapter.model, trained, trained.config.taps, *part)
        pairs = torch.arange(0, seen.features.shape[1], EVERY, device=seen.tokens.device)
        blocks = filled(trained, adapter, seen, pairs.expand(len(seen.tokens), -1), "full")
        for place, (hit, logit) in enumerate(blocks.judged):
            right[place] += hit.sum()
            sure[place] += logit.float().sigmoid().sum()
            total[place] += len(hit)
    shares = {"accuracy": right / total.clamp(min=1), "sure": sure / total.clamp(min=1)}
    return {name: [round(share, 4) for share in row.tolist()] for name, row in shares.items()}


def _said(numbers: Mapping[str, Any]) -> dict[str, Any]:
    return levels.columns("ahead", numbers)


CARD = TreeCard(
    "dflash",
    "dflash",
    MaskedBlock,
    ({}, {"confidence": 0.0}, {"confidence": 0.5}, {"gamma": 4}),
    _known,
    _said,
    ("the first place", "the last place"),
)
RECIPE = train.DrafterRecipe(KIND, _begin, FillLoss, CARD)
