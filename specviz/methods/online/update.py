"""Updates of a block drafter while it serves: made on a copy, put in place whole, between queries.

`head` moves the output head and the rank head on the states that spoke; `full` moves every weight on the query's own
pairs. A kept update is a new network: whoever drafts with the older one goes on with it and its cache, so nothing is
ever half swapped. The network that came from disk is never written to, and neither is the target: the embedding is no
parameter of a drafter and no tensor here shares storage with it. What `walk` writes depends on none of this; a bad
update costs time only.

Before and after an update the same held-out places are measured (`coverage`), as next-query lengths are far too noisy
to tell its worth. A head update is replayed on the states as they were. After a full one states change
too: those of root blocks are worked out anew in one pass a query; later blocks grew from a tree that is gone.
"""

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Literal, get_args

import torch
from torch import nn

from specviz.methods.online.batches import Laws, QueryBatch, Slot
from specviz.methods.specblock.growth import Sizes
from specviz.methods.specblock.losses import rank_loss
from specviz.methods.specblock.network import BlockNetwork, packed
from specviz.methods.trained.ranks import buckets, ranks

Tensor = torch.Tensor
Kind = Literal["head", "full"]
KINDS: tuple[Kind, ...] = get_args(Kind)
Embed = Callable[[Tensor], Tensor]
Weights = dict[str, Tensor]
CLIP, PULL, ANCHOR_RATE, DECAY = 0.5, 1e-3, 0.01, 0.8
RATES: dict[Kind, float] = {"head": 1e-3, "full": 5e-4}
_HEADS = ("head.", "rank.")


class Learner:
    """Makes and applies updates of one network. Weights are kept in float32, whatever the network runs in.

    `weights`: those in hand; `anchor`: their slow average; moments of the optimisers last, one set an action.
    """

    def __init__(self, network: BlockNetwork, embed: Embed) -> None:
        self.network = self.base = network
        self.embed = embed
        self.weights = self.base_weights = _wide(network)
        self.anchor: Weights = {name: weight.clone() for name, weight in self.weights.items()}
        self.version = 0
        self._shadow = copy.deepcopy(network).to(_wide_dtype(network)).requires_grad_(True)
        self._optimizers = {
            kind: torch.optim.AdamW(self._moved(kind).values(), lr=RATES[kind], weight_decay=0.0) for kind in KINDS
        }

    def _moved(self, kind: Kind) -> dict[str, nn.Parameter]:
        """The shadow's parameters that an action trains."""
        every = self._shadow.named_parameters()
        return {name: weight for name, weight in every if kind == "full" or name.startswith(_HEADS)}

    def head(self, slots: Sequence[Slot], steps: int, rate: float = RATES["head"]) -> Weights:
        """New output and rank heads from the states of slots; nothing is applied."""
        dtype = self._shadow.dtype
        states = torch.stack([slot.state for slot in slots]).to(dtype)
        laws = Laws.cat([slot.lesson.laws[[slot.row]] for slot in slots])

        def loss(shadow: BlockNetwork) -> Tensor:
            answers = _SlotAnswers(shadow, states, laws)
            draft = (answers.loss * laws.known).sum() / laws.known.sum().clamp(min=1)
            return draft + rank_loss("invsqrt", [answers.guessed], [answers.true], [laws.known])

        return self._train("head", loss, steps, rate)

    def full(self, lesson: QueryBatch, steps: int, rate: float = RATES["full"]) -> Weights:
        """New weights throughout, from a query's pairs; nothing is applied."""
        return self._train("full", lambda shadow: lesson_loss(shadow, self.embed, lesson), steps, rate)

    def _train(self, kind: Kind, loss: Callable[[BlockNetwork], Tensor], steps: int, rate: float) -> Weights:
        shadow, moved, optimizer = self._shadow, self._moved(kind), self._optimizers[kind]
        for group in optimizer.param_groups:
            group["lr"] = rate
        with torch.inference_mode(False), torch.enable_grad():
            with torch.no_grad():
                for name, weight in shadow.named_parameters():
                    weight.copy_(self.weights[name])
                    weight.requires_grad_(name in moved)
            for _ in range(steps):
                pull = sum(((weight - self.anchor[name]) ** 2).sum() for name, weight in moved.items())
                total = loss(shadow) + PULL * pull
                optimizer.zero_grad()
                total.backward()  # type: ignore[no-untyped-call]
                nn.utils.clip_grad_norm_(moved.values(), CLIP)
                optimizer.step()
        return {name: weight.detach().clone() for name, weight in moved.items()}

    def built(self, weights: Weights) -> BlockNetwork:
        """The network with these weights in place of its own; the others are shared with it."""
        shared = {id(weight): weight for name, weight in self.network.named_parameters() if name not in weights}
        with torch.inference_mode(False), torch.no_grad():
            network = copy.deepcopy(self.network, shared)
            for name, weight in weights.items():
                network.get_parameter(name).copy_(weight)
        return network

    def keep(self, weights: Weights, network: BlockNetwork) -> None:
        """An update that was measured and is fit: `network` is `built(weights)`."""
        self._put({**self.weights, **weights}, network)
        for name, weight in weights.items():
            self.anchor[name] = self.anchor[name] + ANCHOR_RATE * (weight - self.anchor[name])

    def reset(self, to: Literal["anchor", "base"]) -> None:
        """Back to the running average of accepted weights, or to those that came from disk. Moments begin anew."""
        if to == "base":
            self.anchor = dict(self.base_weights)
            self._put(self.base_weights, self.base)
        else:
            self._put(dict(self.anchor), self.built(self.anchor))
        for kind in KINDS:
            self.forget(kind)

    def forget(self, kind: Kind) -> None:
        """Begin an action's moments anew: a number that is not finite would stay in them."""
        self._optimizers[kind].state.clear()

    def _put(self, weights: Weights, network: BlockNetwork) -> None:
        self.weights, self.network = weights, network
        self.version += 1

    @contextmanager
    def trial(self, kind: Kind) -> Iterator[None]:
        """Updates made inside leave no trace: moments are as they were."""
        optimizer = self._optimizers[kind]
        before: Any = copy.deepcopy(optimizer.state_dict())
        try:
            yield
        finally:
            optimizer.load_state_dict(before)

    def tensors(self) -> Iterator[Tensor]:
        """All trained tensors of any shape `[..]`: those of the copy, of the network in use, and of both snapshots."""
        yield from self._shadow.parameters()
        yield from self.network.parameters()
        yield from (*self.weights.values(), *self.anchor.values())


class _SlotAnswers:
    """A network's answers for states `[n, width]`: loss against the laws, rank scores, true buckets, who was right."""

    def __init__(self, network: BlockNetwork, states: Tensor, laws: Laws) -> None:
        logits, self.guessed, _ = network.head_logits(states)
        self.loss = laws.cross_entropy(logits)
        with torch.no_grad():
            self.true = buckets(ranks(logits, laws.best))
            self.right = (logits.argmax(-1) == laws.best) & laws.known


def lesson_loss(network: BlockNetwork, embed: Embed, lesson: QueryBatch) -> Tensor:
    """Draft plus rank loss `[]` of block 1 at every pair, under the valid-prefix mask.

    Slots that predict a held-out place count for the mask and not for the loss.
    """
    device = lesson.tokens.device
    pairs = torch.arange(lesson.n_pairs, device=device)
    states = pair_states(network, embed, lesson)
    counted = lesson.laws.known & ~lesson.held
    alive = torch.ones_like(pairs, dtype=torch.bool)
    draft = states.new_zeros(())
    guessed, true, weight = [], [], []
    for slot in range(network.slots):
        row = pairs + 1 + slot - lesson.first
        chosen = (alive & (row >= 0) & (row < len(lesson.laws))).nonzero()[:, 0]
        laws, counts = lesson.laws[row[chosen]], counted[row[chosen]]
        answers = _SlotAnswers(network, states[chosen, slot], laws)
        draft = draft + DECAY**slot * (answers.loss * counts).sum() / counts.sum().clamp(min=1)
        guessed.append(answers.guessed)
        true.append(answers.true)
        weight.append(counts)
        alive = torch.zeros_like(alive)
        alive[chosen] = answers.right
    return draft + rank_loss("invsqrt", guessed, true, weight)


def pair_states(network: BlockNetwork, embed: Embed, lesson: QueryBatch) -> Tensor:
    """h `[S, K, width]` of block 1 of all pairs."""
    with torch.no_grad():
        embedded = embed(lesson.tokens)  # the target's, frozen: no gradient may reach it
    anchors = torch.zeros(1, 1, dtype=torch.long, device=lesson.tokens.device)
    states: Tensor = packed(network, lambda _: embedded[None], lesson.features[None], lesson.tokens[None], anchors, ())[
        0
    ][0]
    return states


def coverage(network: BlockNetwork, slots: Sequence[Slot], sizes: Sizes) -> float | None:
    """Share of slots whose token is among those that would be offered, by the rank head's own verdict; None of none.

    A slot that gives up still has its best token in the tree.
    """
    if not slots:
        return None
    with torch.inference_mode():
        states = torch.stack([slot.state for slot in slots])
        logits, rank_logits, _ = network.head_logits(states.to(network.dtype))
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
    return torch.stack(
        [row if slot.order is None else slot.order(row[None])[0] for row, slot in zip(wide, slots, strict=True)]
    )


def anew(network: BlockNetwork, embed: Embed, slots: Sequence[Slot]) -> list[Slot]:
    """The root blocks' slots with their states as `network` makes them; those of later blocks are left out."""
    lessons: dict[int, tuple[QueryBatch, Tensor]] = {}
    out = []
    for slot in slots:
        if slot.block != 1:
            continue
        if id(slot.lesson) not in lessons:
            with torch.no_grad():
                lessons[id(slot.lesson)] = slot.lesson, pair_states(network, embed, slot.lesson)
        out.append(replace(slot, state=lessons[id(slot.lesson)][1][slot.pair, slot.slot]))
    return out


def shared_storage(drafter: Iterable[Tensor], target: Iterable[Tensor]) -> bool:
    """Whether any tensor `[..]` of the drafter lies in the target's memory: training it would change the target."""
    theirs = {weight.untyped_storage().data_ptr() for weight in target}
    return any(weight.untyped_storage().data_ptr() in theirs for weight in drafter)


def _wide_dtype(network: BlockNetwork) -> torch.dtype:
    return torch.float64 if network.dtype == torch.float64 else torch.float32


def _wide(network: BlockNetwork) -> Weights:
    dtype = _wide_dtype(network)
    return {name: weight.detach().to(dtype, copy=True) for name, weight in network.named_parameters()}
