"""Paired replay: how much of what was written a network would have offered, at held-out places of the last queries.

Next-query lengths are far too noisy to tell an update's worth; the same places before and after are not (specblock
8.3). A head update is replayed on the states as they were. After a full update states change too: those of root blocks
are worked out anew in one pass a query; later blocks grew from a tree that is gone, so they take no part.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from specviz.methods.online.batches import Lesson, Slot
from specviz.methods.online.update import Embed, pair_states
from specviz.methods.specblock.network import BlockNetwork
from specviz.methods.trained.ranks import ranks

Tensor = torch.Tensor


@dataclass(frozen=True, slots=True)
class Sizes:
    """Children by rank bucket, and of the root."""

    by_bucket: tuple[int, ...]
    root: int


def coverage(network: BlockNetwork, slots: Sequence[Slot], sizes: Sizes) -> float | None:
    """Share of slots whose token is among those that would be offered, by the rank head's own verdict; None of none.

    A slot that gives up still has its best token in the tree.
    """
    if not slots:
        return None
    with torch.inference_mode():
        states = torch.stack([slot.state for slot in slots])
        logits, rank_logits, _ = network.speak(states.to(network.dtype))
        widths = torch.tensor(sizes.by_bucket, device=logits.device).clamp(min=1)[rank_logits.argmax(-1)]
        root = torch.tensor([slot.is_root for slot in slots], device=logits.device)
        tokens = torch.tensor([slot.token for slot in slots], device=logits.device)
        offered = torch.where(root, sizes.root, widths)
        inside = (tokens >= 0) & (ranks(_scores(logits, slots), tokens.clamp(min=0)) <= offered)
        return float(inside.double().mean())


def _scores(logits: Tensor, slots: Sequence[Slot]) -> Tensor:
    """What tokens would be offered by: the logits, or what a penalty or a ban made of them in that query."""
    if all(slot.order is None for slot in slots):
        return logits
    wide = logits if logits.dtype == torch.float64 else logits.float()
    return torch.stack([
        row if slot.order is None else slot.order(row[None])[0] for row, slot in zip(wide, slots, strict=True)
    ])  # fmt: skip


def anew(network: BlockNetwork, embed: Embed, slots: Sequence[Slot]) -> list[Slot]:
    """The root blocks' slots with their states as `network` makes them; those of later blocks are left out."""
    lessons: dict[int, tuple[Lesson, Tensor]] = {}
    out = []
    for slot in slots:
        if slot.block != 1:
            continue
        if id(slot.lesson) not in lessons:
            with torch.no_grad():
                lessons[id(slot.lesson)] = slot.lesson, pair_states(network, embed, slot.lesson)
        out.append(replace(slot, state=lessons[id(slot.lesson)][1][slot.pair, slot.slot]))
    return out
