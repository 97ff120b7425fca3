"""`Notes`: what one query shows of its drafter, round by round; nothing is learnt before it is over (specblock.md 8.1).

Only what is needed later is kept: features of the committed pairs, laws of the committed places, states of the slots on
the path. One copy from the device at the end of the query, none per round.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from specviz.engine.decode.context import Observation
from specviz.methods.online.batches import HELD_OUT, MOST_PAIRS, Lesson, Slot
from specviz.methods.online.laws import Laws
from specviz.methods.online.signal import Signal
from specviz.methods.specblock.growth import Growth
from specviz.methods.specblock.recorder import Made
from specviz.methods.trained.tree_builder import Order
from specviz.methods.trained.vocabulary import Vocabulary
from specviz.probability.draft import ROOT

Tensor = torch.Tensor


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
class Notes:
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

    def observe(self, seen: Observation, growth: Growth | None, made: Sequence[Made]) -> None:
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
            self._slots(seen, growth, made, n_before)

    def _slots(self, seen: Observation, growth: Growth, made: Sequence[Made], n_before: int) -> None:
        """The slots at committed places, and how likely the token was held where the round ended."""
        assert seen.outcome is not None
        ids = [ROOT, *(seen.draft.ids[node] for node in seen.outcome.accepted)]
        depth_of = {node: depth for depth, node in enumerate(ids)}
        last: tuple[Tensor, int] | None = None
        for each in growth.expansions:
            node = ROOT if each.parent == ROOT else seen.draft.nodes[each.parent].id
            depth = depth_of.get(node)
            if depth is None or depth >= len(seen.tokens):
                continue
            block = made[each.start]
            assert block.h is not None
            self._spoke.append(
                _Spoke(block.h[each.slot], n_before - 1, each.block, each.slot, n_before + depth, block.order)
            )
            if depth == len(ids) - 1 and block.logits is not None:
                last = block.logits[each.slot], seen.tokens[depth]
        if last is not None:
            self._surprise.append(self._log_prob(*last))

    def _log_prob(self, logits: Tensor, token: int) -> Tensor:
        place, there = self.vocabulary.find(torch.tensor([token], device=logits.device))
        wide = logits if logits.dtype == torch.float64 else logits.float()
        return torch.where(there, wide.log_softmax(-1)[place], -torch.inf)[0]

    @property
    def n_tokens(self) -> int:
        """Tokens that rounds committed."""
        return 0 if self._first is None else len(self._tokens) - self._first

    def signal(self) -> Signal:
        """How far off the drafter was."""
        logs = torch.stack(self._surprise).exp().tolist() if self._surprise else []
        out = Signal()
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
        lesson = Lesson(
            features[cut:], torch.tensor(tokens[cut : n_pairs + 1], device=features.device), laws[skipped:],
            max(0, self._first - cut), torch.tensor(held, device=features.device),
        )  # fmt: skip
        spoke = [each for each in self._spoke if each.pair >= cut and each.row >= places.start]
        states = torch.stack([each.state for each in spoke])
        written = torch.tensor([tokens[each.row + 1] for each in spoke], device=features.device)
        ids, there = self.vocabulary.find(written)
        return [
            Slot(lesson, state, each.pair - cut, each.block, each.slot, each.row - places.start, token,
                 held[each.row - places.start], each.order)
            for each, state, token in zip(spoke, states, torch.where(there, ids, -1).tolist(), strict=True)
        ]  # fmt: skip
