"""PEARL as a pipeline: pre-verify and post-verify, and how often it rolls back."""

from typing import Any

import pytest
import torch

from methods.branch.watch import Watch, fact
from specviz.engine.model.adapter import FactoryModels
from specviz.events import Fork, Posterior, Rollback, Signal
from specviz.probability.table_models import Iid, exact_row
from specviz_lab.papers.pipelines import rollback_pearl
from support.table_session import TableModel, session


class Flat(TableModel):
    """Says the same after every text; looks nothing up, so that long runs are cheap."""

    def run(self, hidden: torch.Tensor, block: Any, cache: Any, lo: int, hi: int) -> torch.Tensor:
        cache.update(hidden[None, :, :, :1], hidden[None, :, :, 1:], 0)
        return hidden[:, :, :1] * 0

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        row = torch.tensor([float(x) for x in self.table.row(())], dtype=torch.float64).log()
        return row.expand(hidden.shape[1], -1)


def pearl_run(p: str, q: str, gamma: int, length: int, seed: int = 0) -> Watch:
    """A run of PEARL over two constant models."""
    watch = Watch()
    context = length + 200
    target, draft = (Flat(Iid(exact_row(row.split())), context=context) for row in (p, q))
    models = FactoryModels(target, draft, context + 64)
    session(models, None, "pearl", "tokenwise", sink=watch, seed=seed, gamma=gamma, max_new_tokens=length).generate()
    return watch


@pytest.mark.parametrize("gamma", [1, 2, 4])
def test_modes(gamma: int) -> None:
    """After a rollback nothing is pending (pre-verify), after a hit gamma - 1 tokens are (post-verify); k = 1."""
    watch = pearl_run("1/2 1/2", "3/4 1/4", gamma, 120)
    clean = True
    for done in watch.rounds[:-3]:  # the last ones are cut by the limit
        assert len(done.draft.pending) == (0 if clean else gamma - 1)
        fork = fact(done, Fork)
        assert (fork.k, fork.branch_len) == (1, gamma)
        assert len(done.draft.nodes) == gamma
        assert fact(done, Signal) is None
        assert (fact(done, Posterior) is None) == (clean or gamma == 1)
        rollback = fact(done, Rollback)
        if rollback is not None:
            lost = gamma if clean else 2 * gamma - 1 - done.n_accepted
            assert sum(rollback.void.values()) == lost
            assert len(done.tokens) == done.n_accepted + 1
        else:
            assert len(done.tokens) == done.n_accepted == (1 if clean else gamma)
        clean = rollback is not None


@pytest.mark.parametrize(
    ("p", "q", "alpha", "gamma"), [("1/2 1/2", "17/20 3/20", 0.65, 4), ("1/2 1/2", "3/5 2/5", 0.9, 5)]
)
def test_rollback_rate(p: str, q: str, alpha: float, gamma: int) -> None:
    """The closed form at the acceptance of the two rows; about four standard errors of 800 rounds."""
    watch = pearl_run(p, q, gamma, 2000, seed=5)
    void = sum(sum(rollback.void.values()) for done in watch.rounds if (rollback := fact(done, Rollback)))
    drafted = sum(len(done.draft.nodes) for done in watch.rounds)
    assert len(watch.rounds) > 500
    assert void / drafted == pytest.approx(rollback_pearl(alpha, gamma), abs=0.05)
    assert abs(rollback_pearl(alpha, gamma) - rollback_pearl(alpha - 0.1, gamma)) > 0.05  # what the test could see
