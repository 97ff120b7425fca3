"""What serving leaves to learn from: the pairs of a query, the slots that spoke on its path, a ring of slots.

A *slot* here is one (block, slot) distribution at a committed place, up to and including the rejected one: valid-prefix
by construction, because a spine is on the path only as far as it was right (specblock.md 8.2). Its summary phi follows
from its state and the head in hand, so it is worked out anew rather than kept.

One place in five is held out: whatever predicts that token is measured on and never trained on, in every action. Held
out by slot, the same token would be learnt through its neighbour.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import torch

from specviz.methods.online.laws import Laws
from specviz.methods.trained.tree_builder import Order

Tensor = torch.Tensor
RING, HELD_OUT, MOST_PAIRS = 512, 5, 512


@dataclass(frozen=True, slots=True, eq=False)
class Lesson:
    """A query's pairs, the last 512: `features` `[S, n_features]`, `tokens` `[S + 1]`, laws of rows `first`.. on.

    Row r decides token r + 1; slot k of pair i predicts by row i + 1 + k. `held` `[len(laws)]`: rows held out.
    """

    features: Tensor
    tokens: Tensor
    laws: Laws
    first: int
    held: Tensor

    @property
    def n_pairs(self) -> int:
        """S."""
        return len(self.features)


@dataclass(frozen=True, slots=True, eq=False)
class Slot:
    """What spoke at a place. `token`: draft id of what was written there, -1 outside the draft vocabulary.

    `order`: how its tokens were ranked, where a penalty or a ban had a say; None: by its logits.
    """

    lesson: Lesson
    state: Tensor  # h [width]
    pair: int  # the root pair of its round
    block: int
    slot: int
    row: int  # of the lesson's laws
    token: int
    held: bool
    order: Order | None = None

    @property
    def is_root(self) -> bool:
        """Offers the root's children, whose number no bucket decides."""
        return self.block == 1 and self.slot == 0


@dataclass(slots=True)
class Memory:
    """The last 512 slots."""

    slots: list[Slot] = field(default_factory=list)
    n_new: int = 0  # of the query in hand

    def add(self, slots: Sequence[Slot]) -> None:
        """A query is over."""
        self.n_new = min(len(slots), RING)
        self.slots = [*self.slots, *slots][-RING:]

    def replace(self, slots: Iterable[Slot]) -> None:
        """After every state changed; what cannot be worked out anew is forgotten."""
        new = {id(slot.lesson) for slot in self.slots[len(self.slots) - self.n_new :]}
        self.slots = list(slots)
        self.n_new = sum(id(slot.lesson) in new for slot in self.slots)

    @property
    def held(self) -> list[Slot]:
        """To measure on."""
        return [slot for slot in self.slots if slot.held]

    @property
    def batch(self) -> list[Slot]:
        """To train on: the query's slots and as many older ones, the newest of them."""
        new = len(self.slots) - self.n_new
        fresh = [slot for slot in self.slots[new:] if not slot.held]
        older = [slot for slot in self.slots[:new] if not slot.held]
        return [*older[max(0, len(older) - len(fresh)) :], *fresh]
