"""Of a long prompt the last pairs are read, however it comes; what was said of them needs none before."""

from typing import Any

import pytest
import torch

from methods.specblock.small import FEATURES, Text, network
from specviz.cost.row_cost import RECENT, recent
from specviz.engine.decode.context import Observation
from specviz.engine.model.rows import States
from specviz.methods.trained.calls import CallCache, PairBuffer

N, TAP = 15, 3
NOTHING: Any = None


def shown(text: Text, lo: int, hi: int, outcome: Any = None) -> Observation:
    """Pairs lo .. hi as the target shows them: of a prompt, or behind a round."""
    tokens = tuple(text.tokens[0, lo + 1 : hi + 1].tolist())
    return Observation(tokens, NOTHING, outcome, States({TAP: text.features[0, lo:hi]}))


@pytest.mark.parametrize("parts", [[12], [3, 6, 3], [11, 1], [1, 2, 9], [5, 5, 2]])
@pytest.mark.parametrize("most", [1, 4, 11, 12, 40, None])
def test_the_last_pairs_of_a_prompt_are_read(parts: list[int], most: int | None) -> None:
    net, text = network(), Text(N, n_features=FEATURES)
    buffer, at = PairBuffer(net, text.embed, (TAP,), most), 0
    for n in parts:
        buffer.observe(shown(text, at, at + n))
        at += n
        assert buffer.n_observed == at
    assert buffer.ready(at + 1)
    kept = 12 if most is None else min(most, 12)
    alone = CallCache(net, text.embed)
    for lo, hi in ((12 - kept, 12), (12, 14), (14, 15)):  # the rounds behind it are all read
        if lo >= 12:
            buffer.observe(shown(text, lo, hi, outcome=object()))
            assert buffer.n_observed == hi
        root = alone.first(text.features[0, lo:hi], text.tokens[0, lo + 1 : hi + 1].tolist())
        torch.testing.assert_close(buffer.root(), root, rtol=0, atol=1e-10)
    assert buffer.calls.pairs == kept + 3


def test_a_round_that_begins_again_behind_a_long_prompt_doubles_nothing() -> None:
    net, text = network(), Text(N, n_features=FEATURES)
    buffer = PairBuffer(net, text.embed, (TAP,), 4)
    buffer.observe(shown(text, 0, 12))
    first = buffer.root()
    torch.testing.assert_close(buffer.root(), first)
    buffer.observe(shown(text, 12, 14, outcome=object()))
    assert (buffer.n_observed, buffer.ready(15)) == (14, True)
    buffer.root()
    assert buffer.calls.pairs == 6


def test_where_rows_take_no_time_all_are_read() -> None:
    assert (recent("cpu"), recent("cuda"), recent("mps")) == (RECENT, None, None)
