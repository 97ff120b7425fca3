"""Following the text: pairs that the target has shown wait here until a draft needs them, then become rows for good."""

from collections.abc import Callable

import torch

from specviz.engine.decode.context import Observation
from specviz.methods.trained.calls import Calls
from specviz.methods.trained.pairs import PairNetwork

Tensor = torch.Tensor


class Follower:
    """The calls of one query and the pairs that are not in them yet. An interrupted round loses and doubles none."""

    def __init__(self, network: PairNetwork, embed: Callable[[Tensor], Tensor], taps: tuple[int, ...]) -> None:
        self.calls, self.taps = Calls(network, embed), taps
        self._pending: list[tuple[Tensor, int]] = []  # features [n_features] of a row, the token that followed it
        self._first = 0  # pair number of the first pending one

    def observe(self, seen: Observation) -> None:
        """Keep a round's, or the prompt's, new pairs."""
        if seen.features:
            rows = torch.cat([seen.features[tap] for tap in self.taps], -1)
            self._pending += zip(rows, seen.tokens[: len(rows)], strict=True)

    @property
    def seen(self) -> int:
        """Pairs the target has shown."""
        return self._first + len(self._pending)

    def ready(self, n: int) -> bool:
        """Whether a text of n tokens can be drafted for: its root pair is known, which a first token's is not."""
        return n >= 2 and self.seen == n - 1

    def root(self) -> Tensor:
        """h `[slots, width]` of the root pair, after all new pairs became rows."""
        done = self.calls.pairs - self._first  # an interrupted round may have taken some, or all
        self._pending, self._first = self._pending[done:], self._first + done
        if not self._pending:
            return self.calls.again()
        features, tokens = zip(*self._pending, strict=True)
        h = self.calls.first(torch.stack(features), tokens)
        self._first += len(self._pending)
        self._pending = []
        return h
