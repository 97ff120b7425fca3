"""What serving leaves to learn from: the pairs of a query, the slots that spoke on its path, a ring of slots.

A *slot* here is one (block, slot) distribution at a committed place, up to and including the rejected one: valid-prefix
by construction, because a spine is on the path only as far as it was right. Its summary phi follows
from its state and the head in hand, so it is worked out anew rather than kept.

One place in five is held out: whatever predicts that token is measured on and never trained on, in every action. Held
out by slot, the same token would be learnt through its neighbour.

`QueryCollector`: what one query shows of its drafter, round by round; nothing is learnt before it is over.

Only what is needed later is kept: features of the committed pairs, laws of the committed places, states of the slots on
the path. One copy from the device at the end of the query, none per round.

The target's distributions that an update learns from, over the draft vocabulary, in little memory.

Small vocabularies are kept whole. Of larger ones the 64 likeliest tokens stay, and the mass of the rest as one lump, so
that an update is not told to forget the tail.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import torch

from specviz.engine.decode.context import Observation
from specviz.engine.model.host import to_device
from specviz.methods.online.bandit import QuerySurprise
from specviz.methods.specblock.growth import GrowingTree
from specviz.methods.trained.calls import BlockCall
from specviz.methods.trained.ranks import Order
from specviz.methods.trained.vocabulary import Vocabulary
from specviz.probability.draft import ROOT
from specviz.probability.host import fetch

Tensor = torch.Tensor

WHOLE, TOP = 4096, 64
_LEAST = 1e-9  # mass of the tail that a logarithm can bear


@dataclass(frozen=True, slots=True)
class Laws:
    """`n` distributions. `probs` `[n, m]` of draft `ids` `[n, m]` (None: of all, in order), descending where cut.

    `best` `[n]`: the likeliest draft token; `known` `[n]`: it is the target's own likeliest one, so it may be taught.
    """

    probs: Tensor
    ids: Tensor | None
    best: Tensor
    known: Tensor

    @classmethod
    def of(cls, logits: Tensor, vocabulary: Vocabulary, whole: int = WHOLE) -> "Laws":
        """Of the target's raw logits `[n, V]`."""
        wide = logits if logits.dtype == torch.float64 else logits.float()
        probs = vocabulary.to_draft(wide).softmax(-1)
        best, known = vocabulary.find(logits.argmax(-1))
        best = torch.where(known, best, probs.argmax(-1))
        if probs.shape[-1] <= whole:
            return cls(probs, None, best, known)
        top = probs.topk(TOP, -1)
        return cls(top.values, top.indices, best, known)

    @classmethod
    def cat(cls, parts: "Sequence[Laws]") -> "Laws":
        """One after another. The tensors are new ones, fit for training."""
        ids = None if parts[0].ids is None else torch.cat([part.ids for part in parts if part.ids is not None])
        return cls(
            torch.cat([part.probs for part in parts]),
            ids,
            torch.cat([part.best for part in parts]),
            torch.cat([part.known for part in parts]),
        )

    def __len__(self) -> int:
        return len(self.best)

    def __getitem__(self, rows: "Tensor | Sequence[int] | slice") -> "Laws":
        ids = None if self.ids is None else self.ids[rows]
        return Laws(self.probs[rows], ids, self.best[rows], self.known[rows])

    def cross_entropy(self, logits: Tensor) -> Tensor:
        """`[n]` of draft logits `[n, V_d]`; a cut tail counts as one outcome."""
        logs = (logits if logits.dtype == torch.float64 else logits.float()).log_softmax(-1)
        if self.ids is None:
            return -(self.probs * logs).sum(-1)
        top = logs.gather(-1, self.ids)
        tail = (1 - top.exp().sum(-1)).clamp(min=_LEAST).log()
        return -(self.probs * top).sum(-1) - (1 - self.probs.sum(-1)).clamp(min=0) * tail


RING, HELD_OUT, MOST_PAIRS = 512, 5, 512


@dataclass(frozen=True, slots=True, eq=False)
class QueryBatch:
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
        return len(self.features)


@dataclass(frozen=True, slots=True, eq=False)
class Slot:
    """What spoke at a place. `token`: draft id of what was written there, -1 outside the draft vocabulary.

    `order`: how its tokens were ranked, where a penalty or a ban had a say; None: by its logits.
    """

    lesson: QueryBatch
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
class ReplayBuffer:
    slots: list[Slot] = field(default_factory=list)
    n_new: int = 0  # of the current query

    def add(self, slots: Sequence[Slot]) -> None:
        self.n_new = min(len(slots), RING)
        self.slots = [*self.slots, *slots][-RING:]

    def replace(self, slots: Iterable[Slot]) -> None:
        """After every state changed; what cannot be worked out anew is forgotten."""
        new = {id(slot.lesson) for slot in self.slots[len(self.slots) - self.n_new :]}
        self.slots = list(slots)
        self.n_new = sum(id(slot.lesson) in new for slot in self.slots)

    @property
    def held(self) -> list[Slot]:
        return [slot for slot in self.slots if slot.held]

    @property
    def batch(self) -> list[Slot]:
        """To train on: the query's slots and as many older ones, the newest of them."""
        new = len(self.slots) - self.n_new
        fresh = [slot for slot in self.slots[new:] if not slot.held]
        older = [slot for slot in self.slots[:new] if not slot.held]
        return [*older[max(0, len(older) - len(fresh)) :], *fresh]


@dataclass(frozen=True, slots=True)
class _Spoke:
    """A slot on the path: where, and by which row of all it was judged."""

    state: Tensor
    pair: int
    block: int
    slot: int
    row: int
    order: Order | None


@dataclass(slots=True)
class QueryCollector:
    """Of one query. `phase`: tokens that earlier queries committed, so that the held-out places wander.

    `ns`: what taking them took, which is part of the price of learning.
    """

    vocabulary: Vocabulary
    taps: tuple[int, ...]
    phase: int = 0
    n_rounds: int = 0
    ns: int = 0
    _features: list[Tensor] = field(default_factory=list)
    _tokens: list[int] = field(default_factory=list)  # behind the rows: token i + 1 of pair i
    _laws: list[Laws] = field(default_factory=list)
    _first: int | None = None  # the first row that a round judged
    _spoke: list[_Spoke] = field(default_factory=list)
    _surprise: list[Tensor] = field(default_factory=list)  # log-probability of the token at a rejection

    def observe(self, seen: Observation, growth: GrowingTree | None, calls: Sequence[BlockCall]) -> None:
        """A round, or a part of the prefill, is over. `growth` None: nothing was drafted."""
        n_before = len(self._tokens)
        if seen.features:
            self._features.append(torch.cat([seen.features[tap] for tap in self.taps], -1))
        self._tokens += seen.tokens
        if seen.outcome is None:
            return
        assert seen.logits is not None
        self.n_rounds += 1
        if self._first is None:
            self._first = n_before
        path = [ROOT, *(node for node in seen.outcome.accepted)]
        rows = [node + 1 for node in path][: len(seen.tokens)]
        self._laws.append(Laws.of(seen.logits[rows], self.vocabulary))
        if growth is not None:
            self._slots(seen, growth, calls, n_before)

    def _slots(self, seen: Observation, growth: GrowingTree, calls: Sequence[BlockCall], n_before: int) -> None:
        """The slots at committed places, and how likely the token was held where drafted ones were rejected."""
        assert seen.outcome is not None
        ids = [ROOT, *(seen.draft.ids[node] for node in seen.outcome.accepted)]
        depth_of = {node: depth for depth, node in enumerate(ids)}
        lost = seen.outcome.kind == "recovered"  # behind a path that was kept to its end nothing was rejected
        last: tuple[Tensor, int] | None = None
        for expansion in growth.expansions:
            node = ROOT if expansion.parent == ROOT else seen.draft.nodes[expansion.parent].id
            depth = depth_of.get(node)
            if depth is None or depth >= len(seen.tokens):
                continue
            block = calls[expansion.start]
            assert block.h is not None
            self._spoke.append(
                _Spoke(
                    block.h[expansion.slot],
                    n_before - 1,
                    expansion.block,
                    expansion.slot,
                    n_before + depth,
                    block.order,
                )
            )
            if lost and depth == len(ids) - 1 and block.logits is not None:
                last = block.logits[expansion.slot], seen.tokens[depth]
        if last is not None:
            self._surprise.append(self._log_prob(*last))

    def _log_prob(self, logits: Tensor, token: int) -> Tensor:
        place, there = self.vocabulary.find(to_device([token], logits.device))
        wide = logits if logits.dtype == torch.float64 else logits.float()
        return torch.where(there, wide.log_softmax(-1)[place], -torch.inf)[0]

    @property
    def n_tokens(self) -> int:
        """Tokens that rounds committed."""
        return 0 if self._first is None else len(self._tokens) - self._first

    def signal(self) -> QuerySurprise:
        """How far off the drafter was."""
        logs = fetch(torch.stack(self._surprise).exp())[0] if self._surprise else []
        out = QuerySurprise()
        for _ in range(self.n_rounds - len(logs)):
            out.round()
        for prob in logs:
            out.round([prob])
        return out

    def lesson(self, first_token: int) -> list[Slot]:
        """The query's slots on tensors of their own. `first_token`: of the prompt, which no pair holds."""
        if not self._features or not self._spoke or self._first is None:
            return []
        features, tokens = torch.cat(self._features), [first_token, *self._tokens]
        laws, n_pairs = Laws.cat(self._laws), len(features)
        cut = max(0, n_pairs - MOST_PAIRS)
        skipped = max(0, cut - self._first)
        places = range(self._first + skipped, self._first + len(laws))
        held = [(self.phase + place - self._first) % HELD_OUT == 0 for place in places]
        lesson = QueryBatch(
            features[cut:],
            torch.tensor(tokens[cut : n_pairs + 1], device=features.device),
            laws[skipped:],
            max(0, self._first - cut),
            torch.tensor(held, device=features.device),
        )
        spoke = [slot for slot in self._spoke if slot.pair >= cut and slot.row >= places.start]
        states = torch.stack([slot.state for slot in spoke])
        written = torch.tensor([tokens[slot.row + 1] for slot in spoke], device=features.device)
        ids, there = self.vocabulary.find(written)
        return [
            Slot(
                lesson,
                state,
                slot.pair - cut,
                slot.block,
                slot.slot,
                slot.row - places.start,
                token,
                held[slot.row - places.start],
                slot.order,
            )
            for slot, state, token in zip(spoke, states, fetch(torch.where(there, ids, -1))[0], strict=True)
        ]
