"""The kernel of surpluses against numpy: the same entries bit for bit, masses in double; and verdicts by both."""

import shutil
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from specviz.engine.model.compiled.surplus import CompiledSurplus, surplus_kernel
from specviz.names import COMPILE
from specviz.probability.draft import ROOT, Draft
from specviz.probability.plan import Plan, Test
from specviz.probability.surplus import SURPLUS, SurplusOf
from specviz.verifiers import _joint, get_verifier


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> CompiledSurplus:
    """The kernel, where a compiler is at hand; nobody else's verdicts go through it."""
    if not any(map(shutil.which, ("cc", "gcc", "clang"))):
        pytest.skip("no C compiler here")
    monkeypatch.setenv(COMPILE, "auto")
    built_kernel = surplus_kernel()
    assert built_kernel is not None
    monkeypatch.setattr(SURPLUS, "kernel", None)
    return built_kernel


def laws(n: int, vocab: int, seed: int) -> Any:
    """`[n, vocab]` float32 rows that sum to one, one of them with zeros."""
    scores = torch.randn(n, vocab, generator=torch.Generator().manual_seed(seed)) * 3
    scores[0, ::3] = -torch.inf
    return scores.softmax(-1).numpy()


@pytest.mark.parametrize("vocab", [3, 31, 32, 1000, 32_003])
def test_entries_are_those_of_numpy(kernel: CompiledSurplus, vocab: int) -> None:
    rows, other = laws(3, vocab, 1), laws(2, vocab, 2)
    mine, plain = kernel.of(rows, other), SurplusOf(rows, other)
    assert mine is not None
    here: Any = 1
    for law, weight in ((0, 1.0), (1, 0.37), (0, 1e-3)):  # a number of a row, then what was left of it, and again
        mass, entries = mine.left(here, law, weight)
        its_mass, its_entries = plain.left(here, law, weight)
        assert entries.tobytes() == its_entries.tobytes()
        assert mass == mine.mass(here, law, weight) == pytest.approx(entries.sum(dtype=np.float64), rel=1e-14)
        assert mass == pytest.approx(its_mass, rel=1e-13)
        here = entries
    assert mine.mass(rows[2].copy(), 0, 0.5) == mine.mass(2, 0, 0.5)


def test_masses_of_both_sides(kernel: CompiledSurplus) -> None:
    rows, other = laws(9, 4097, 1), laws(9, 4097, 2)
    for rows_, other_ in ((rows, other), (rows[::2], other[2:7])):  # strewn rows too
        n = len(rows_)
        a, b = [0.1 + k / n for k in range(n)], [1 - k / 20 for k in range(n)]
        for weights in (b, None):
            masses = kernel.masses(rows_, other_, a, weights)
            assert masses is not None
            ones = np.ones(n, np.float32) if weights is None else np.array(weights, np.float32)
            apart = rows_ * np.array(a, np.float32)[:, None] - other_ * ones[:, None]
            assert masses[0] == pytest.approx(np.maximum(apart, 0).sum(-1, dtype=np.float64), rel=1e-13)
            assert masses[1] == pytest.approx(np.maximum(-apart, 0).sum(-1, dtype=np.float64), rel=1e-13)


def test_arrays_that_it_does_not_read(kernel: CompiledSurplus) -> None:
    rows = laws(4, 64, 1)
    for other in (rows.astype(np.float64), rows.astype(object), rows[:, ::2], rows[0], torch.from_numpy(rows), None):
        assert kernel.of(rows, other) is kernel.of(other, rows) is None
        assert kernel.masses(rows, other, [1.0] * 4, None) is kernel.masses(other, rows, [1.0] * 4, None) is None


def drawn_tree(seed: int, vocab: int = 700) -> tuple[Draft, torch.Tensor]:
    """A tree of 24 drawn nodes whose laws are off by more the further down, and the target's rows."""
    noise = torch.Generator().manual_seed(seed)
    parents = [ROOT, ROOT, ROOT, 0, 0, 1, 3, 3, 3, 5, 5, 6, 6, 7, 9, 9, 10, 11, 11, 12, 14, 15, 15, 2]
    scores = torch.randn(len(parents) + 1, vocab, generator=noise) * 3
    target = scores.softmax(-1)
    rows = (scores + torch.randn(scores.shape, generator=noise) * torch.linspace(0.2, 2, len(scores))[:, None]).softmax(
        -1
    )
    tokens = [int(torch.multinomial(rows[parent + 1], 1, generator=noise)) for parent in parents]
    n = len(parents)
    places = [parent + 1 for parent in parents]
    return Draft(tuple(tokens), tuple(parents), tuple(range(n)), n, n, rows, tuple(places)), target


def failing(plan: Plan) -> Iterator[Test]:
    """Of a walk where all fail."""
    step = plan.step(plan.start)
    while isinstance(step, Test):
        yield step
        step = plan.step(step.failed)


@pytest.mark.parametrize("name", ["multi_traversal", "multi_hsd"])
@pytest.mark.parametrize("seed", range(6))
def test_verdicts_are_those_without_it(
    kernel: CompiledSurplus, name: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every threshold where all tests fail, and that of exact rows: the law moves by no more than float32 rounds."""
    draft, target = drawn_tree(seed)
    verifier = get_verifier(name)
    plain = [(step.node, step.threshold) for step in failing(verifier.plan(draft, target))]
    monkeypatch.setattr(SURPLUS, "kernel", kernel)
    thresholds = [(step.node, step.threshold) for step in failing(verifier.plan(draft, target))]
    monkeypatch.setattr(SURPLUS, "kernel", None)
    wide = Draft(
        draft.tokens, draft.parents, draft.ids, draft.n_judged, draft.n_fed, draft.law_rows.double(), draft.row_of
    )
    exact = [(step.node, step.threshold) for step in failing(verifier.plan(wide, target.double()))]
    assert [node for node, _ in thresholds] == [node for node, _ in plain] == [node for node, _ in exact]
    assert [chance for _, chance in thresholds] == pytest.approx([chance for _, chance in plain], rel=1e-11)
    assert [chance for _, chance in thresholds] == pytest.approx([chance for _, chance in exact], rel=2e-5, abs=1e-7)


@pytest.mark.parametrize("capped", [True, False])
def test_a_chain_weighed_by_numbers_is_that_weighed_by_arrays(
    kernel: CompiledSurplus, capped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(8):
        target, draft = torch.from_numpy(laws(5, 900, seed)), torch.from_numpy(laws(4, 900, seed + 50))
        tokens = [int(row.argmax()) for row in draft]
        if seed % 2:
            draft[2, tokens[2]] = 0.0  # a token that its law cannot give
        part = _joint.JointChain(tuple(tokens), target[:4], draft)
        plain = _joint.weigh(part, capped=capped, start=-0.3)
        monkeypatch.setattr(SURPLUS, "kernel", kernel)
        mine = _joint.weigh(part, capped=capped, start=-0.3)
        monkeypatch.setattr(SURPLUS, "kernel", None)
        for field in ("p", "q", "log_r", "log_w", "a", "b"):
            assert getattr(mine, field) == pytest.approx(getattr(plain, field), rel=1e-12)
        assert mine.lack == pytest.approx(plain.lack, rel=1e-12)
        assert mine.spare == pytest.approx(_joint._over(part, plain), rel=1e-12)
