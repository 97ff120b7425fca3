"""What a drafted round is worth if a pass costs what its weights weigh: the `modelled_speedup` of tree drafters.

Decoding one text is bound by reading weights, so a plain round costs 1, and a drafted one 1 and the drafter's calls,
each by its share of the target's weights. Small models on a processor keep other times; the model says what is to be
expected where weights are large, which no toy measurement does (specblock.md 7.5).
"""

from collections.abc import Iterable

from torch import Tensor

from specviz.engine.decode.context import Observation
from specviz.engine.model.adapter import ModelAdapter
from specviz.events import TreeMade, six


class CallCosts:
    """Completes a drafter's `tree` records. `share`: weights that one call reads, in target passes."""

    def __init__(self, network: Iterable[Tensor], target: ModelAdapter) -> None:
        theirs = [each for layer in target.layers for each in layer.parameters()]
        self.share = _size(network) / _size([*theirs, target.head.weight])
        self._tree: TreeMade | None = None
        self._cost = 1.0

    def of(self, tree: TreeMade, n_calls: int) -> TreeMade:
        """The record of a round with that many calls, to be completed when the round is over."""
        self._tree, self._cost = tree, 1 + n_calls * self.share
        return tree

    def judge(self, seen: Observation) -> None:
        """The round is over: plain decoding would have taken a pass for each of its tokens."""
        if self._tree is not None and seen.outcome is not None:
            self._tree.modelled_speedup = six(len(seen.tokens) / self._cost)
        self._tree = None


def _size(tensors: Iterable[Tensor]) -> int:
    return sum(int(each.numel()) for each in tensors)
