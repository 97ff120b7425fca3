"""The seams carry an early-exit drafter of a few lines: it climbs the target's own rows and owns no cache.

Not a method of the product yet; it proves that one fits as a drafter file, with per-layer filled lengths, rows shared
by draft and verify, and no row computed twice.
"""

from typing import Any

import pytest
import torch

from specviz.engine.decode.context import Context
from specviz.engine.decode.draft_tree import DraftTree
from specviz.engine.decode.drafter import Drafter
from specviz.engine.model.adapter import ModelAdapter
from specviz.probability.draft import ROOT, Draft
from support.driver import session
from support.models import build, planted

PROMPT = [5, 77, 12, 5, 77, 12, 200, 31, 5]


class EarlyExit(Drafter):
    """Drafts with the target's first layers: climb, look through the head, add the arg-max as the next row."""

    def __init__(self, adapter: ModelAdapter, exit_layer: int, depth: int) -> None:
        self.adapter, self.exit_layer, self.depth = adapter, exit_layer, depth

    def propose(self, ctx: Context) -> Draft:
        """A chain as long as the room allows."""
        tree, node, row = DraftTree(ctx), ROOT, ctx.root_row
        while len(tree) < min(self.depth, ctx.reach) and not tree.ends(node):
            hidden = ctx.rows.climb(self.exit_layer)
            logits = self.adapter.logits(hidden[:, -1:])[0]
            token = int(logits.argmax())
            node = tree.add(token, node)
            if not tree.ends(node):
                row = ctx.rows.add(token, row)
        return tree.draft("depth")


@pytest.mark.parametrize("temperature", [0, 0.9])
@pytest.mark.parametrize("exit_layer", [1, 2])
def test_early_exit_fits_as_a_drafter(exit_layer: int, temperature: float) -> None:
    """Same tokens as plain decoding; every cell (row, layer) is computed exactly once."""
    model, _ = planted(4, layers=3)
    adapter = ModelAdapter(model.double())
    knobs: dict[str, Any] = {"temperature": temperature, "max_new_tokens": 30}
    want = session(adapter, None, PROMPT, method="ar", **knobs).generate()
    run = session(adapter, None, PROMPT, method="ngram", drafter=EarlyExit(adapter, exit_layer, 4), **knobs)
    accepted = 0
    for done in run.rounds():
        cells = sum(call.n_rows * (call.hi - call.lo + 1) for call in done.ledger)
        assert cells == (1 + done.draft.n_fed) * adapter.n_layers
        accepted += len(done.outcome.accepted)
    assert run.new_tokens == want
    assert accepted > 0
    assert run.cache.filled == [len(run.tokens) - 1] * adapter.n_layers


def test_an_abort_half_way_up_keeps_no_half_row() -> None:
    """Rows that some layers hold and others lack are dropped by the same `follow`."""
    adapter = ModelAdapter(build("llama", seed=4, dtype=torch.float64))
    want = session(adapter, None, PROMPT, method="ar", max_new_tokens=12).generate()
    drafter = EarlyExit(adapter, 1, 3)
    run = session(adapter, None, PROMPT, method="ngram", drafter=drafter, max_new_tokens=12)
    fail = iter([False, True, False, True])
    whole = adapter.logits

    def flaky(hidden: torch.Tensor) -> torch.Tensor:
        if next(fail, False):
            raise RuntimeError("lost")
        return whole(hidden)

    adapter.logits = flaky  # type: ignore[method-assign]
    failures = 0
    while run.finish is None:
        try:
            run.generate()
        except RuntimeError:
            failures += 1
            assert run.cache.filled == [run.cache.length] * adapter.n_layers
    assert failures == 2
    assert run.new_tokens == want
