"""Updates of a block drafter while it serves: on copies, kept only when held-out coverage does not fall.

`head` moves the output head and the rank head on cached states; `full` moves every weight on the query's own pairs. The
target is never touched: the embedding is no parameter of a drafter, and no tensor here shares storage with the target.
What `walk` writes depends on none of this; a bad update costs time only.
"""

import copy
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import nn

from specviz.drafters.blocks.losses import How, Truth, block_losses, rank_loss
from specviz.drafters.blocks.network import BlockNetwork
from specviz.drafters.blocks.packed import packed
from specviz.drafters.blocks.rank import buckets, ranks

Tensor = torch.Tensor
Kind = Literal["head", "full"]
Weights = dict[str, Tensor]
RING, HELD_OUT, CLIP, PULL, FALL = 512, 5, 0.5, 1e-3, 0.01
BATCH_OLD = 1.0  # old events beside every new one


@dataclass(frozen=True, slots=True)
class Slot:
    """One slot on the committed path up to and including the rejected one: what it stood on and what was right.

    `token`: draft id of the token that was written, None outside the draft vocabulary; `law`: the target's `[V_d]`.
    """

    state: Tensor  # h [width]
    token: int | None
    law: Tensor


@dataclass(slots=True)
class Memory:
    """The last 512 slots. Every fifth is held out: measured on, never trained on."""

    slots: list[Slot] = field(default_factory=list)
    count: int = 0
    new: int = 0  # of the query in hand

    def add(self, slot: Slot) -> None:
        """Remember one; its tensors must be of their own."""
        self.slots = [*self.slots, slot][-RING:]
        self.count += 1
        self.new = min(self.new + 1, RING)

    def parts(self) -> tuple[list[Slot], list[Slot]]:
        """Slots to train on (the query's, and as many older ones, newest first) and those held out."""
        first = self.count - len(self.slots)
        numbered = list(enumerate(self.slots, first))
        kept = [slot for number, slot in numbered if number % HELD_OUT]
        held = [slot for number, slot in numbered if not number % HELD_OUT]
        fresh = sum(number % HELD_OUT > 0 for number, _ in numbered[len(numbered) - self.new :])
        return kept[-fresh - round(BATCH_OLD * fresh) :] if fresh else [], held


@dataclass(frozen=True, slots=True)
class Query:
    """The pairs of a query: features `[S, n]`, tokens `[S + 1]`, and the target's logits `[S + 1, V]` after each."""

    features: Tensor
    tokens: Tensor
    truth: Truth


def coverage(network: BlockNetwork, slots: Sequence[Slot], widths: Sequence[int]) -> float:
    """Share of slots whose token is among those that would be offered, by the rank head's own verdict."""
    if not slots:
        return 0.0
    with torch.no_grad():
        logits, rank_logits, _ = network.speak(torch.stack([slot.state for slot in slots]))
        offered = torch.tensor(widths, device=logits.device).clamp(min=1)[rank_logits.argmax(-1)]
        tokens = torch.tensor([-1 if slot.token is None else slot.token for slot in slots], device=logits.device)
        inside = (tokens >= 0) & (ranks(logits, tokens.clamp(min=0)) <= offered)
    return float(inside.double().mean())


class Learner:
    """Makes and applies updates of one network. Shadows hold the moments, one set an action."""

    def __init__(self, network: BlockNetwork, rates: dict[Kind, float] | None = None) -> None:
        self.network = network
        self.anchor: Weights = {name: each.detach().clone() for name, each in network.named_parameters()}
        self.base: Weights = dict(self.anchor)
        rates = rates or {"head": 1e-3, "full": 5e-4}
        self.shadows: dict[Kind, BlockNetwork] = {kind: copy.deepcopy(network) for kind in rates}
        self.optimizers = {
            kind: torch.optim.AdamW(self._moved(kind).values(), lr=rate, weight_decay=0.0)
            for kind, rate in rates.items()
        }
        self.version = 0

    def _moved(self, kind: Kind) -> Weights:
        """The parameters an action trains; all others of its shadow stand still."""
        out: Weights = {}
        for name, each in self.shadows[kind].named_parameters():
            each.requires_grad_(kind == "full" or name.startswith(("head.", "rank.")))
            if each.requires_grad:
                out[name] = each
        return out

    def head(self, slots: Sequence[Slot], steps: int) -> Weights:
        """New output and rank heads from cached states; nothing is applied."""
        states, laws = torch.stack([slot.state for slot in slots]), torch.stack([slot.law for slot in slots])
        best = laws.argmax(-1)

        def loss(shadow: BlockNetwork) -> Tensor:
            logits, rank_logits, _ = shadow.speak(states)
            true = buckets(ranks(logits.detach(), best))
            every = torch.ones_like(best, dtype=torch.bool)
            draft = nn.functional.cross_entropy(logits, laws)
            return draft + rank_loss("invsqrt", [rank_logits], [true], [every])

        return self._train("head", loss, steps)

    def full(self, query: Query, embed: Callable[[Tensor], Tensor], steps: int) -> Weights:
        """New weights throughout, from the query's pairs; nothing is applied."""
        n_pairs = len(query.features)
        first = torch.arange(n_pairs, device=query.tokens.device)[None]

        def loss(shadow: BlockNetwork) -> Tensor:
            features, tokens = query.features[None], query.tokens[None]
            states = packed(shadow, embed, features, tokens, first[:, :1], ())[0]
            told = block_losses(shadow, query.truth, states, first + 1, How())
            return told.draft + told.rank

        return self._train("full", loss, steps)

    def _train(self, kind: Kind, loss: Callable[[BlockNetwork], Tensor], steps: int) -> Weights:
        shadow, moved, optimizer = self.shadows[kind], self._moved(kind), self.optimizers[kind]
        with torch.inference_mode(False), torch.enable_grad():
            with torch.no_grad():
                for name, each in shadow.named_parameters():
                    each.copy_(self.network.get_parameter(name))
            for _ in range(steps):
                pull = sum(((each - self.anchor[name]) ** 2).sum() for name, each in moved.items())
                total = loss(shadow) + PULL * pull
                optimizer.zero_grad()
                total.backward()  # type: ignore[no-untyped-call]
                nn.utils.clip_grad_norm_(moved.values(), CLIP)
                optimizer.step()
        return {name: each.detach().clone() for name, each in moved.items()}

    def swap(self, weights: Weights) -> Weights:
        """Put weights in place, between queries; returns those that were there."""
        before = {name: self.network.get_parameter(name).detach() for name in weights}
        for name, each in weights.items():
            self.network.get_parameter(name).data = each.clone()
        self.version += 1
        return before

    def tried(self, weights: Weights, held: Sequence[Slot], widths: Sequence[int]) -> tuple[bool, float]:
        """Apply an update if it is fit to be kept; whether it was, and the change of held-out coverage.

        Taken back: a value that is not finite, or coverage more than a point lower.
        """
        before = coverage(self.network, held, widths)
        old = self.swap(weights)
        finite = all(bool(each.isfinite().all()) for each in weights.values())
        change = coverage(self.network, held, widths) - before if finite else 0.0
        if not finite or change < -FALL:
            self.swap(old)
            return False, change
        for name, each in weights.items():
            self.anchor[name] = self.anchor[name] + 0.01 * (each - self.anchor[name])
        return True, change

    def reset(self, to: Literal["anchor", "base"]) -> None:
        """Back to the running average of accepted weights, or to those that came from disk."""
        self.swap(self.anchor if to == "anchor" else self.base)


def shared_storage(drafter: Iterable[Tensor], target: Iterable[Tensor]) -> bool:
    """Whether a trained tensor lies in the target's memory; it would rewrite the target unseen."""
    theirs = {each.untyped_storage().data_ptr() for each in target}
    return any(each.untyped_storage().data_ptr() in theirs for each in drafter)
