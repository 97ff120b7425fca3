"""The joint arithmetic against its formulas written out, on large float rows, on extreme ratios and on Fractions.

The formulas stand here a second time, as their papers have them: blockwise
by its recursion, HSD by its running maximum and by both divergences. Production shares one arithmetic for the two.
"""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from specviz.probability.draft import ROOT, Draft
from specviz.probability.draws import Keys
from specviz.probability.plan import Draw, Test
from specviz.probability.rows import CertainRows
from specviz.verifiers import _joint, get_verifier, multi_traversal
from verifiers.table_rows import random_chain

BLOCKWISE, HSD = get_verifier("blockwise"), get_verifier("hsd")
CHAINS = ["blockwise", "hsd", "hsd_naive", "hsd_ref", "multi_hsd", "multi_traversal"]


def softmax(logits: Any) -> Any:
    out = np.exp(logits - logits.max(-1, keepdims=True))
    return out / out.sum(-1, keepdims=True)


def large(seed: int, vocab: int = 4096, gamma: int = 10) -> tuple[Draft, Any]:
    """A drafted chain from a softmax, and a target that looks like it; ratios on both sides of 1."""
    rng = np.random.default_rng(seed)
    logits = 2 * rng.normal(size=(gamma + 1, vocab))
    laws, rows = softmax(logits[:gamma]), softmax(logits + 0.5 * rng.normal(size=logits.shape))
    tokens = tuple(int(rng.choice(vocab, p=row)) for row in laws)
    return chain_of(tokens, laws), rows


def chain_of(tokens: tuple[int, ...], laws: Any) -> Draft:
    n = len(tokens)
    row_of = tuple(range(n)) if laws is not None else (-1,) * n
    return Draft(tokens, tuple(range(-1, n - 1)), tuple(range(n)), n, n, laws, row_of)


def blockwise_written_out(draft: Draft, rows: Any) -> tuple[list[Any], list[Any]]:
    """h_1..h_gamma and the residual rows below t = 0..gamma - 1."""
    gamma, q = len(draft), draft.law_rows
    w = [1]
    for t, x in enumerate(draft.tokens):
        w.append(min(1, w[-1] * rows[t][x] / q[t][x]))
    residuals = [np.maximum(w[t] * rows[t] - q[t], 0) for t in range(gamma)]
    s = [row.sum() for row in residuals]
    h = [1 if w[t] == 1 else s[t] / (s[t] + 1 - w[t]) for t in range(1, gamma)]
    return [*h, w[gamma]], residuals


def hsd_written_out(draft: Draft, rows: Any) -> tuple[list[Any], list[Any]]:
    """The same by the paper's own letters: r_t over its running maximum, both divergences summed."""
    gamma, q = len(draft), draft.law_rows
    r = [rows[0][0] * 0 + 1]
    for t, x in enumerate(draft.tokens):
        r.append(r[-1] * (rows[t][x] / q[t][x]))
    c = [r[t] / max(r[: t + 1]) for t in range(gamma + 1)]
    h: list[Any] = []
    residuals = []
    for t in range(gamma):
        lacks, over = np.maximum(c[t] * rows[t] - q[t], 0), np.maximum(q[t] - c[t] * rows[t], 0)
        residuals.append(lacks)
        if t:
            h.append(1 if c[t] == 1 else lacks.sum() / max(lacks.sum(), over.sum()))
    return [*h, c[gamma]], residuals


def thresholds(plan: Any) -> list[Any]:
    return [plan.step(("scan", t)).threshold for t in range(1, len(plan.draft) + 1)]


def closing(plan: Any, t: int) -> Any:
    row = plan.step(("stop", t)).row()
    return row / row.sum()


@pytest.mark.parametrize("verifier", [BLOCKWISE, HSD], ids=lambda v: v.name)
@pytest.mark.parametrize("seed", range(8))
def test_identity_on_large_rows(verifier: Any, seed: int) -> None:
    """h, tau for the same uniforms and the residual rows of both forms, to 1e-6."""
    draft, rows = large(seed)
    plan = verifier.plan(draft, rows)
    for written_out in (blockwise_written_out, hsd_written_out):
        h, residuals = written_out(draft, rows)
        assert thresholds(plan) == pytest.approx(h, abs=1e-6)
        for t, residual in enumerate(residuals):
            if not residual.sum() > 0:  # the prefix weighs too little to lack anything: no stop there
                assert h[t - 1] == 0
                continue
            assert np.abs(closing(plan, t) - residual / residual.sum()).sum() < 1e-6
        for number in range(20):
            keys = Keys(seed, number)
            passed = [t for t, chance in enumerate(h, 1) if keys.uniform("accept", 6 + t) < chance]
            assert len(plan.walk(keys, 7).accepted) == max(passed, default=0)
    assert any(0 < x < 1 for x in thresholds(plan))


@pytest.mark.parametrize("seed", range(40))
def test_identity_on_fractions(seed: int) -> None:
    """Zeros on both sides included; the published pair of formulas and production agree exactly."""
    draft, rows = random_chain(seed, vocab=4, gamma=4)
    plans = [v.plan(draft, rows) for v in (BLOCKWISE, HSD)]
    h, residuals = blockwise_written_out(draft, rows)
    other, other_residuals = hsd_written_out(draft, rows)
    assert thresholds(plans[0]) == thresholds(plans[1]) == h == other
    for t, (one, two) in enumerate(zip(residuals, other_residuals, strict=True)):
        assert list(one) == list(two)
        if one.sum() > 0:
            assert [list(closing(plan, t)) for plan in plans] == [list(one / one.sum())] * 2


@pytest.mark.parametrize("seed", range(3))
def test_single_precision(seed: int) -> None:
    """c and S within 1e-5, h within 1e-4, at V = 50 000."""
    torch = pytest.importorskip("torch")
    draft, rows = large(seed, vocab=50_000, gamma=8)
    exact = _joint.weigh(_joint.chain(draft, range(8), rows))
    for laws32, rows32 in (
        (draft.law_rows.astype(np.float32), rows.astype(np.float32)),
        (torch.tensor(draft.law_rows, dtype=torch.float32), torch.tensor(rows, dtype=torch.float32)),
    ):
        weights = _joint.weigh(_joint.chain(chain_of(draft.tokens, laws32), range(8), rows32))
        assert weights.a == pytest.approx(exact.a, abs=1e-5)
        assert weights.lack == pytest.approx(exact.lack, abs=1e-5)
        assert [weights.keep(t) for t in range(1, 9)] == pytest.approx([exact.keep(t) for t in range(1, 9)], abs=1e-4)


class _Masses:
    """What the engine's kernel says of float32 rows, by numpy: with one, chains are weighed number by number."""

    def masses(self, rows: Any, laws: Any, a: Any, b: Any) -> Any:
        gap = np.array(a)[:, None] * rows[: len(a)].astype(float) - np.array(b or [1.0] * len(a))[:, None] * laws
        return [side.clip(0).sum(-1).tolist() for side in (gap, -gap)]


@pytest.mark.parametrize("verifier", [BLOCKWISE, HSD], ids=lambda v: v.name)
def test_number_by_number_it_is_the_written_out_rule(verifier: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_joint.SURPLUS, "kernel", _Masses())
    for seed in range(8):
        draft, rows = large(seed, vocab=300)
        single, rows32 = chain_of(draft.tokens, draft.law_rows.astype(np.float32)), rows.astype(np.float32)
        assert _joint._weigh_here(_joint.chain(single, range(10), rows32), True, 0.0) is not None  # this way is taken
        for written_out in (blockwise_written_out, hsd_written_out):
            assert thresholds(verifier.plan(single, rows32)) == pytest.approx(written_out(draft, rows)[0], abs=1e-4)


@pytest.mark.parametrize("capped", [True, False])
@pytest.mark.parametrize("seed", range(6))
def test_extreme_ratios_agree_with_fractions(seed: int, capped: bool) -> None:
    """gamma = 64, log ratios of about +-200 in any order: a product in linear space would be 0 or infinite."""
    rng = np.random.default_rng(seed)
    tiny = Fraction(1, 10**87)
    laws, rows = np.empty((64, 2), dtype=object), np.empty((65, 2), dtype=object)
    for t, sign in enumerate([*rng.choice([-1, 0, 1], size=64), 0]):
        rows[t] = [tiny, 1 - tiny] if sign < 0 else [1 - tiny, tiny]
        if t < 64:
            laws[t] = [tiny, 1 - tiny] if sign > 0 else [1 - tiny, tiny]
    tokens = (0,) * 64
    exact = _joint.weigh(_joint.chain(chain_of(tokens, laws), range(64), rows), capped=capped)
    floats = chain_of(tokens, laws.astype(np.float64))
    weights = _joint.weigh(_joint.chain(floats, range(64), rows.astype(np.float64)), capped=capped)
    assert weights.log_w == pytest.approx(exact.log_w, abs=1e-9)
    assert weights.a == pytest.approx([float(x) for x in exact.a], abs=1e-12)
    assert [weights.keep(t) for t in range(1, 65)] == pytest.approx(
        [float(exact.keep(t)) for t in range(1, 65)], abs=1e-9
    )
    assert max(abs(x) for x in exact.log_w) > 200


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("zero", ["p", "q", "both"])
def test_zeros_give_no_nan(name: str, zero: str) -> None:
    """A token impossible under the target, one the draft law cannot give (a broken contract), and both at once."""
    laws, rows = np.full((3, 3), 1 / 3), np.full((4, 3), 1 / 3)
    if zero in ("p", "both"):
        rows[1] = [0, 0.5, 0.5]
    if zero in ("q", "both"):
        laws[1] = [0, 0.5, 0.5]
    plan = get_verifier(name).plan(chain_of((0, 0, 0), laws), rows)
    law = plan.law()
    assert sum(law.values()) == pytest.approx(1)
    assert all(len(text) < 2 for text, _ in law)


@pytest.mark.parametrize("name", CHAINS)
def test_special_rows(name: str) -> None:
    """p = q keeps everything, disjoint supports keep nothing."""
    row = np.array([0.2, 0.3, 0.5])
    same = get_verifier(name).plan(chain_of((2, 0, 1), np.stack([row] * 3)), np.stack([row] * 4)).law()
    assert {text for text, _ in same} == {(2, 0, 1)}
    laws, rows = np.array([[0, 1.0, 0]] * 2), np.array([[0.5, 0, 0.5]] * 3)
    apart = get_verifier(name).plan(chain_of((1, 1), laws), rows).law()
    assert apart == pytest.approx({((), 0): 0.5, ((), 2): 0.5})


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("seed", range(12))
def test_point_masses_have_the_tokenwise_law(name: str, seed: int) -> None:
    """However the point mass is written: none, one-hot rows, or some of each."""
    draft, rows = random_chain(seed, vocab=3, gamma=3)
    hot = np.stack([np.array([Fraction(int(y == x)) for y in range(3)], dtype=object) for x in draft.tokens])
    mixed = Draft(draft.tokens, draft.parents, draft.ids, 3, 3, hot, (0, -1, 2))
    expected = get_verifier("tokenwise").plan(chain_of(draft.tokens, None), rows).law()
    for same in (chain_of(draft.tokens, None), chain_of(draft.tokens, hot), mixed):
        assert get_verifier(name).plan(same, rows).law() == expected


@pytest.mark.parametrize("name", CHAINS)
def test_certain_target_rows_are_the_one_hot_rows(name: str) -> None:
    """Temperature 0 under a drawn draft: the same plan without building the rows."""
    laws, best = np.array([[0.5, 0.25, 0.25]] * 3), (0, 1, 2, 0)
    for tokens in ((0, 1, 2), (0, 1, 1), (1, 1, 2)):
        for law_rows in (laws, None):
            draft = chain_of(tokens, law_rows)
            plan = get_verifier(name).plan
            one_hot = plan(draft, np.eye(3)[list(best)]).law()
            assert plan(draft, CertainRows(best, 3)).law() == pytest.approx(one_hot)


def test_a_residual_without_mass_is_replaced_and_said() -> None:
    """Rows that coincide: the step is never reached but by rounding, and then the plain row is there."""
    row = np.array([0.2, 0.3, 0.5])
    plan = HSD.plan(chain_of((2, 0), np.stack([row] * 2)), np.stack([row] * 3))
    step = plan.step(("stop", 0))
    assert isinstance(step, Draw)
    assert (step.node, step.fallback, step.mass) == (ROOT, True, 0)
    assert list(step.row()) == list(row)


@pytest.mark.parametrize("seed", range(10))
def test_a_prefix_is_weighed_as_in_the_whole(seed: int) -> None:
    """What comes later does not change what came before: chunking is free."""
    draft, rows = large(seed, vocab=64, gamma=9)
    whole = _joint.weigh(_joint.chain(draft, range(9), rows))
    part = _joint.weigh(_joint.chain(draft, range(4), rows))
    assert (part.log_w, part.a) == (whole.log_w[:5], whole.a[:5])
    assert part.lack == pytest.approx(whole.lack[:4], abs=1e-12)


@pytest.mark.parametrize("seed", range(10))
def test_runtime_invariants_of_the_records(seed: int) -> None:
    """`D-` is summed, not derived."""
    draft, rows = large(seed, vocab=128, gamma=9)
    records = _joint.records(_joint.chain(draft, range(9), rows))
    before = 1.0
    for t, x in enumerate(records):
        c = math.exp(x.log_c)
        rho = rows[t][draft.tokens[t]] / draft.law_rows[t][draft.tokens[t]]
        assert c == pytest.approx(min(1, before * rho), abs=1e-9)
        assert 0 <= x.h <= 1
        assert x.h == 1 or c < 1
        assert x.credit_token <= x.credit_hsd + 1e-12 <= x.credit_naive + 2e-12
        if t < 8:
            assert x.d_qp - x.d_pq == pytest.approx(1 - c, abs=1e-9)  # type: ignore[operator]
            r = math.exp(x.log_r)
            assert x.dhat_qp - x.dhat_pq == pytest.approx(1 - r, abs=1e-6 * max(1, r))  # type: ignore[operator]
        before = c
    last = records[-1]
    assert (last.d_pq, last.d_qp, last.dhat_pq, last.dhat_qp) == (None,) * 4
    assert last.h == pytest.approx(last.credit_hsd)


def test_records_of_an_endless_ratio_stay_finite() -> None:
    """Ratios of e^200 a position: what is shown is a number all the same."""
    tiny = 1e-87
    laws, rows = np.array([[tiny, 1.0]] * 20), np.array([[1.0, tiny]] * 21)
    records = _joint.records(_joint.chain(chain_of((0,) * 20, laws), range(20), rows))
    assert all(math.isfinite(x.dhat_pq) and math.isfinite(x.dhat_qp) for x in records[:-1])  # type: ignore[arg-type]
    assert records[-1].log_r == pytest.approx(20 * 87 * math.log(10))


@pytest.mark.parametrize("name", ["blockwise", "hsd", "hsd_naive", "hsd_ref", "multi_hsd", "multi_traversal"])
def test_one_copy_to_the_host(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All thresholds of a chain come off the device together, whatever is tested."""
    torch = pytest.importorskip("torch")
    draft, rows = large(1, vocab=128, gamma=8)
    same, rows = chain_of(draft.tokens, torch.tensor(draft.law_rows)), torch.tensor(rows)
    # Rows in main memory are looked at where they lie; here they stand for rows on a device.
    monkeypatch.setattr(multi_traversal, "in_memory", lambda rows: rows)
    seen: list[str] = []
    for read in ("tolist", "item", "__float__", "__bool__", "__int__", "numpy"):
        whole = getattr(torch.Tensor, read)

        def counted(self: Any, *args: Any, _read: str = read, _whole: Any = whole) -> Any:
            seen.append(_read)
            return _whole(self, *args)

        monkeypatch.setattr(torch.Tensor, read, counted)
    plan = get_verifier(name).plan(same, rows)
    state = plan.start
    while isinstance(step := plan.step(state), Test):
        state = step.failed
    assert isinstance(step, Draw)
    assert seen == ["tolist"]
    assert step.row().device == rows.device
    assert type(step.mass) is float
