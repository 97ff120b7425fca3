"""A step of a drafter's training: losses, rates, windows, what it begins with, what is computed in."""

from pathlib import Path

import numpy as np
import pytest
import torch

from specviz.engine.model.adapter import ModelAdapter
from specviz.errors import SpecvizError
from specviz.methods.specblock.losses import draft_losses
from specviz_train.common.own_text import OwnTextConfig, write_batch
from specviz_train.common.training_text import WindowFeed, cut
from specviz_train.common.workers import Workers
from specviz_train.trees import block_drafter, eagle3, levels, objective
from specviz_train.trees.objective import DrafterBatches, TrainingPace
from support.models import build
from train.small_drafter import WINDOWS, quiet, run_of

HERE = Path("here")


@pytest.fixture(scope="module")
def target() -> ModelAdapter:
    return ModelAdapter(build("llama", seed=5, num_hidden_layers=5).requires_grad_(False))


def test_the_loss_on_fifty_tokens_by_hand() -> None:
    """The likeliest fifty keep their probabilities, so they add up to less than one; a small vocabulary is whole."""
    rng = torch.Generator().manual_seed(0)
    logits, probs = torch.randn(3, 80, generator=rng), torch.randn(3, 80, generator=rng).softmax(-1)
    logs = logits.log_softmax(-1)
    want = [-sum(float(probs[n, v] * logs[n, v]) for v in probs[n].argsort(descending=True)[:50]) for n in range(3)]
    assert draft_losses(logits, probs, "top50").tolist() == pytest.approx(want, rel=1e-5)
    assert draft_losses(logits, probs, "full").tolist() == pytest.approx((-(probs * logs).sum(-1)).tolist(), rel=1e-5)
    few = draft_losses(logits[:, :40], probs[:, :40], "top50")
    assert torch.equal(few, draft_losses(logits[:, :40], probs[:, :40], "full"))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_the_loss_on_the_whole_law_has_the_gradient_of_cross_entropy(dtype: torch.dtype) -> None:
    """Also over more rows than are taken at once, and for laws that do not add up to one."""
    rng = torch.Generator().manual_seed(1)
    logits, weight = torch.randn(70, 90, generator=rng).mul(3).to(dtype), torch.rand(70, generator=rng)
    probs = torch.randn(70, 90, generator=rng).softmax(-1) * torch.rand(70, 1, generator=rng)
    ours, theirs = logits.clone().requires_grad_(), logits.clone().requires_grad_()
    loss = draft_losses(ours, probs, "full")
    wide = theirs.to(torch.promote_types(dtype, torch.float32))
    truth = torch.nn.functional.cross_entropy(wide, probs.to(wide.dtype), reduction="none")
    (loss * weight).sum().backward()  # type: ignore[no-untyped-call]
    (truth * weight).sum().backward()  # type: ignore[no-untyped-call]
    assert ours.grad is not None
    assert theirs.grad is not None
    loose = 2e-2 if dtype == torch.bfloat16 else 1e-5
    torch.testing.assert_close(loss, truth.to(loss.dtype), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(ours.grad, theirs.grad, rtol=loose, atol=1e-6)
    assert float(ours.grad.abs().max()) > 0.1


def test_places_ahead_weigh_less_by_the_decay_asked_for(target: ModelAdapter, tmp_path: Path) -> None:
    """The losses of all levels at three decays lie on the line that their weights say."""
    losses = {}
    for decay in (1.0, 0.5, 0.25):
        request = eagle3.Eagle3Request(None, tmp_path, tmp_path, 1, steps=2, decay=decay)
        drafter = eagle3._begin(request, target, WINDOWS)
        lesson = DrafterBatches(target.model, drafter, drafter.config.taps, WINDOWS, 3)
        losses[decay] = float(levels.unrolled(request, target, lesson)(0).loss.detach())
    assert losses[1.0] - losses[0.5] == pytest.approx(2 * (losses[0.5] - losses[0.25]), rel=1e-4)
    assert losses[1.0] > losses[0.5] > losses[0.25] > 0


def test_the_rate_rises_and_falls_in_a_line(target: ModelAdapter, tmp_path: Path) -> None:
    run = run_of(target, tmp_path, steps=10, rate=1e-3, warm_up=4, optimizer="adamw")
    (only,) = run.objective.optimizers
    rates = []
    while run.progress < 1:
        run.advance()
        rates.append(only[0].param_groups[0]["lr"])
    want = [1e-3 * min(1, (n + 1) / 4) * (1 - 0.95 * n / 10) for n in range(10)]
    assert rates == pytest.approx(want)


def test_parts_of_a_step_have_windows_of_their_own(target: ModelAdapter, tmp_path: Path) -> None:
    """The first part of a step is drawn as ever; every other part of it, and every other step, differently."""
    run = run_of(target, tmp_path)
    lesson = DrafterBatches(target.model, None, (), WINDOWS, 3)
    del run
    keys = [lesson.key(step, at, what) for step in range(3) for at in range(3) for what in (1, 2)]
    assert keys[:2] == [(3, 0, 1), (3, 0, 2)]
    assert len(set(keys)) == len(keys)


def test_all_windows_are_learnt_from_once_before_any_comes_again() -> None:
    """Whatever parts share a step: each of 12 windows once in a lap, in another order every time."""
    for rows, parts in ((2, 1), (2, 3), (5, 2)):
        drawn = [WINDOWS.in_turn(rows, number, 3) for number in range(60 // rows // parts * parts)]
        laps = np.concatenate(drawn)[: 12 * (60 // 12)]
        whole = [laps[at : at + 12].tolist() for at in range(0, len(laps) - 11, 12)]
        assert len(whole) >= 4
        assert all(sorted(lap) == [*range(12)] for lap in whole)
        assert len({tuple(lap) for lap in whole}) == len(whole)
    alone, shared = (DrafterBatches(None, None, (), WINDOWS, 3, 2, None, parts) for parts in (1, 3))
    numbers = [
        [batches.numbers(step, part).tolist() for step in range(2)] for batches, part in ((alone, 0), (shared, 0))
    ]
    assert numbers[0][0] == numbers[1][0]
    assert numbers[0][1] != numbers[1][1]  # the second step goes on behind all parts of the first


def test_master_weights_are_wide_whatever_is_computed_in(target: ModelAdapter, tmp_path: Path) -> None:
    """bfloat16 only rounds what is computed: one step lands near the float32 one, and not on it."""
    ends = []
    for precision in ("fp32", "bf16"):
        folder = tmp_path / precision
        folder.mkdir()
        run = run_of(target, folder, steps=1, precision=precision, optimizer="adamw", warm_up=1)
        run.finish(quiet)
        ends.append(torch.cat([parameter.detach().flatten() for parameter in run.objective.network.parameters()]))
    assert {end.dtype for end in ends} == {torch.float32}
    assert not torch.equal(*ends)
    assert float((ends[0] - ends[1]).abs().mean()) < 1e-3


def test_windows_are_as_long_as_asked(target: ModelAdapter) -> None:
    feed = WindowFeed({"code": np.random.default_rng(0).integers(0, 250, 900).astype(np.int32)}, mix={"code": 1.0})
    written = write_batch(target.model, cut(feed, 3, 4, (0, 0, 0)), (0, 0), OwnTextConfig(80, 4, 13))
    assert written.ids.shape == written.written.shape == (3, 13)


@pytest.mark.parametrize("length", [3, 100_000])
def test_windows_the_target_cannot_hold_are_refused(target: ModelAdapter, length: int, tmp_path: Path) -> None:
    from specviz_train.trees.train import _fits

    with pytest.raises(SpecvizError, match=f"--length {length}"):
        _fits(eagle3.Eagle3Request(None, tmp_path, tmp_path, 1, length=length), target)


def test_pace_is_what_the_request_says() -> None:
    request = eagle3.Eagle3Request(None, HERE, HERE, 1, batch=3, accumulate=2, optimizer="adamw", rate=1e-4, warm_up=9)
    assert request.pace == TrainingPace(3, 2, "adamw", 1e-4, 2e-2, 9, "bf16")
    assert eagle3.Eagle3Request(None, HERE, HERE, 1).pace == TrainingPace()
    assert Workers().main
    assert TrainingPace().batch == objective.WINDOWS


def test_inputs_reach_the_first_rows_whole(target: ModelAdapter, tmp_path: Path) -> None:
    """Tokens turn, conditions stay, slots alike pass straight through: what training begins with loses nothing."""
    network = run_of(target, tmp_path).objective.network.requires_grad_(False)
    rng = torch.Generator().manual_seed(0)
    width, noise = network.shape.layer.width, 0.25  # of fresh queries: their map is left at N(0, .02)
    one, other, token, word = torch.randn(4, 1, 1, width, generator=rng)
    rows = {(c, t): network.begin(c, t)[0, 0, 0] for c in (one, other) for t in (token, word)}
    conditions, tokens = network.norm_condition(torch.cat([one, other])), network.norm_token(torch.cat([token, word]))
    by_condition = rows[one, token] - rows[other, token]
    assert torch.allclose(by_condition, conditions[0, 0] - conditions[1, 0], atol=1e-5)
    by_token = rows[one, token] - rows[one, word]
    assert float(by_token.norm()) == pytest.approx(float((tokens[0] - tokens[1]).norm()), rel=1e-4)
    alike = torch.randn(1, 1, 1, width, generator=rng).expand(-1, -1, network.slots, -1)
    for shift in network.shifts:
        passed = shift(torch.cat([alike, alike], -1))
        assert float((passed - alike).norm() / alike.norm()) < noise
    thirds = network.condition.weight.chunk(3, 1)
    assert all(torch.allclose(part @ part.T, part.square().sum(1).diag(), atol=1e-4) for part in thirds)


def test_block_one_learns_alone_at_first(target: ModelAdapter, tmp_path: Path) -> None:
    """Before step `alone` and half of the time, the later blocks' part of the loss is not there."""
    request = block_drafter.BlockDrafterRequest(None, tmp_path, tmp_path, 1, alone=5, floor=1.0)
    drafter = block_drafter._begin(request, target, WINDOWS)
    lesson = DrafterBatches(target.model, drafter, drafter.config.taps, WINDOWS, 3)
    steps = block_drafter._loss(request, target, lesson)
    early, late, short = (float(steps(*at).loss.detach()) for at in ((4, 0, 0.1), (5, 0, 0.1), (4, 0, 0.6)))
    everything = block_drafter._loss(
        block_drafter.BlockDrafterRequest(None, tmp_path, tmp_path, 1, alone=0, floor=1.0), target, lesson
    )
    assert float(everything(4, 0, 0.1).loss.detach()) == pytest.approx(short, rel=1e-6)
    assert early < 0.6 * short  # one block of three
    assert late > 1.5 * early
