"""Replay without a model: rounds predicted from one pass equal those that were run."""

from itertools import product
from typing import Any

import numpy as np
import pytest
import torch

from methods.early_exit.stage import Sink, early, plain
from specviz.cost.exit_replay import ExitKnobs, HeadTable, advised, rounds, total
from specviz.engine.model.adapter import ModelAdapter
from specviz.errors import SpecvizError
from specviz.events import GRID, ExitRound, ExitTable
from specviz.methods.early_exit.heads import LogitLens
from specviz.methods.early_exit.recorder import exit_table
from support.models import planted

PROMPT = [5, 77, 12, 5, 77, 12, 200, 31, 5]
N = 40
LAYERS = 5
SETTINGS = [
    ExitKnobs(alpha, tau, d_max, w_max)
    for alpha, tau, (d_max, w_max) in product((0.0, 0.7, 2.0), (0.0, 0.3, 0.6, 0.9), ((4, 6), (2, 3), (3, 16), (1, 1)))
]


class Blurred(LogitLens):
    """A lens that is wrong now and then: noise of its own on every state, less with depth."""

    kind = "blurred"

    def logits(self, layer: int, hidden: torch.Tensor) -> torch.Tensor:
        rows = []
        for state in hidden:
            seed = int(abs(float(state.sum()) * 1e6)) % 2**31 + layer
            noise = torch.randn(state.shape, generator=torch.Generator().manual_seed(seed), dtype=state.dtype)
            rows.append(super().logits(layer, (state + noise * (1.3 - layer / 5))[None])[0])
        return torch.stack(rows)


def planted_run(seed: int) -> tuple[ModelAdapter, Blurred]:
    adapter = ModelAdapter(planted(seed, layers=LAYERS)[0].double())
    return adapter, Blurred(adapter)


def table_of(adapter: ModelAdapter, heads: Any, prompt: list[int], text: list[int]) -> HeadTable:
    return HeadTable.of(exit_table(adapter, heads, prompt + text, len(prompt)), text, adapter.n_layers)


@pytest.mark.parametrize(("temperature", "stops"), [(0, False), (0.9, False), (0, True), (0.9, True)])
def test_replay_equals_what_was_run(temperature: float, stops: bool) -> None:
    """Every round of 48 settings: tokens exactly, layer calls exactly or inside the bounds behind a wrong draft."""
    adapter, heads = planted_run(3)
    knobs: dict[str, Any] = {"temperature": temperature, "max_new_tokens": N}
    eos: tuple[int, ...] = ()
    if stops:
        eos = (plain(adapter, PROMPT, **knobs)[25],)
    text = plain(adapter, PROMPT, eos=eos, **knobs)
    table = table_of(adapter, heads, PROMPT, text)
    lengths = set()
    for setting in SETTINGS:
        sink = Sink()
        run = early(
            adapter,
            heads,
            PROMPT,
            sink=sink,
            eos=eos,
            alpha=setting.alpha,
            tau=setting.tau,
            d_max=setting.d_max,
            w_max=setting.w_max,
            **knobs,
        )
        run_tokens = [len(done.tokens) for done in run.rounds()]
        costs = [next(f for f in facts if isinstance(f, ExitRound)) for facts in sink.rounds]
        assert run.new_tokens == text
        replayed = list(rounds(table, setting, N, frozenset(eos)))
        assert [done.n_new for done in replayed] == run_tokens
        for done, cost in zip(replayed, costs, strict=True):
            known = LAYERS + sum(done.exits)
            assert known <= cost.layer_calls <= known + done.more * setting.d_max
            if not done.more:
                assert (known, len(done.exits) + 1, done.tests) == (cost.layer_calls, cost.n_rows, cost.head_tests)
        added = total(table, setting, N, frozenset(eos))
        assert added.tokens_per_round == len(text) / len(run_tokens)
        lengths.add(added.n_rounds)
    assert len(lengths) > 5  # the settings did differ


def test_oracles_and_regret() -> None:
    """The first right layer, and how far an exit was from it."""
    top1 = np.array([[1, 9, 1], [9, 2, 2], [9, 9, 9]])
    conf = np.full((len(GRID), 3, 3), 0.5)
    conf[:, :, 1] = 0.9
    table = HeadTable(4, 0, np.array([1, 2, 3]), (1, 2, 3), top1, conf)
    assert table.first_right.tolist() == [1, 2, 4]
    assert table.regret(ExitKnobs(0, 0.8)) == [1, 0, -2]
    assert table.regret(ExitKnobs(0, 0.95)) == [None, None, None]


def test_advice_weighs_tests_against_calls() -> None:
    """Layer 1 is right half of the time, layer 2 always. Free tests are worth both, dear ones the better.

    A kept draft saves the final head too: where that is dear, a late layer that plain decoding beats becomes worth it.
    """
    top1 = np.array([[1 + (t % 2), 1] for t in range(60)])
    conf = np.full((len(GRID), 60, 2), 0.9)
    conf[:, 1::2, 0] = 0.1  # and it knows when it is wrong
    table = HeadTable(8, 0, np.ones(60, dtype=int), (1, 2), top1, conf)
    assert advised([table], ExitKnobs(0, 0.5), (0.0, 0.0)) == (1, 2)
    assert advised([table], ExitKnobs(0, 0.5), (2.0, 2.0)) == (2,)
    wrong = HeadTable(8, 0, np.zeros(60, dtype=int), (1, 2), top1, conf)
    assert advised([wrong], ExitKnobs(0, 0.5), (0.5, 0.5)) == ()
    assert advised([wrong], ExitKnobs(0, 0.5), (0.5, 0.5), least=1) in ((1,), (2,))
    late = HeadTable(8, 0, np.ones(60, dtype=int), (7,), top1[:, 1:], conf[:, :, 1:])
    assert advised([late], ExitKnobs(0, 0.5), (2.0, 0.0)) == ()
    assert advised([late], ExitKnobs(0, 0.5), (2.0, 8.0)) == (7,)


def test_a_cut_text_ends_its_last_round() -> None:
    """A stop text may cut a round whose drafts went on behind it: what was committed is what counts."""
    right = HeadTable(4, 0, np.array([1, 2, 3]), (2,), np.array([[1], [2], [3]]), np.ones((len(GRID), 3, 1)))
    (only,) = rounds(right, ExitKnobs(), room=100)
    assert (only.n_new, only.kept) == (3, 3)


def test_what_replay_refuses() -> None:
    table = HeadTable(4, 0, np.array([1]), (2,), np.array([[1]]), np.ones((len(GRID), 1, 1)))
    with pytest.raises(SpecvizError, match="in steps of"):
        total(table, ExitKnobs(alpha=0.55))
    with pytest.raises(SpecvizError, match="sweep it again"):
        HeadTable.of([ExitTable(pos=3, layer=1, top1=0, conf=[1.0] * 41)], [5, 6], 4)
