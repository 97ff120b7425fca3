"""The training loop: the schedule ends at zero, an interruption changes nothing, Muon is Muon."""

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from specviz_train.common import training_text
from specviz_train.common.loop import Loop
from specviz_train.common.optim import FULL, WARM_UP, BatchedMuon, BatchStage, Budget, learning_rate_share, stage_at
from specviz_train.draft_pair.models import LanguageObjective, distilled, next_token

STAGES = (BatchStage(0.5, 8, 2, 1), BatchStage(1.0, 16, 1, 2))


def _model(seed: int = 0) -> LlamaForCausalLM:
    config = LlamaConfig(
        vocab_size=64,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=32,
        tie_word_embeddings=True,
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return LlamaForCausalLM(config)


def _run(path, n_steps: int = 8, seed: int = 5) -> Loop:
    model = _model()
    stream = (np.arange(2_000) * 7 % 61).astype(np.uint16)
    feed = training_text.WindowFeed({"code": stream, "prose": stream[::-1].copy()})
    objective = LanguageObjective(model, next_token(model), feed, training_text.fixed(stream, 4, 8), STAGES, seed)
    return Loop(objective, Budget(steps=n_steps), path)


def _weights(run: Loop) -> dict[str, torch.Tensor]:
    return run.objective.model.state_dict()


def _quiet(progress: float, loss: float, tokens_per_s: float) -> None:
    pass


def test_schedule_starts_low_peaks_once_and_ends_at_zero():
    shares = [learning_rate_share(n / 1_000) for n in range(1_001)]
    peak = shares.index(max(shares))
    assert shares[peak] == 1.0
    assert peak == round(WARM_UP * 1_000)
    assert shares[peak:] == sorted(shares[peak:], reverse=True)
    assert shares[-1] == 0.0


def test_stages_cover_the_run_and_end_at_the_full_context():
    assert stage_at(FULL, 0.0) is FULL[0]
    assert stage_at(FULL, 1.0) is FULL[-1]
    assert FULL[-1].length == 1_024
    assert [stage.until for stage in FULL] == sorted(stage.until for stage in FULL)


def test_budget_of_seconds_counts_seconds():
    assert Budget(seconds=60).progress(30.0, 10**6) == 0.5
    assert Budget(steps=4).progress(1e9, 1) == 0.25


def test_resumed_run_equals_the_uninterrupted_one(tmp_path):
    whole = _run(tmp_path / "whole.pt")
    whole.finish(_quiet)
    run = _run(tmp_path / "halted.pt")
    run.finish(_quiet, stop=lambda: run.ledger.steps == 3)
    resumed = _run(tmp_path / "halted.pt")
    assert resumed.finish(_quiet).steps == 8
    for name, weights in _weights(whole).items():
        assert torch.equal(weights, _weights(resumed)[name]), name
    control = _run(tmp_path / "other.pt", seed=6)
    control.finish(_quiet)
    assert not torch.equal(_weights(control)["lm_head.weight"], _weights(whole)["lm_head.weight"])


def test_kill_while_saving_leaves_the_old_checkpoint(tmp_path, monkeypatch):
    run = _run(tmp_path / "run.pt", n_steps=2)
    run.finish(_quiet)
    before = run.checkpoint.read_bytes()

    def torn(state, path):
        path.write_bytes(b"half a file")
        raise KeyboardInterrupt

    monkeypatch.setattr(torch, "save", torn)
    with pytest.raises(KeyboardInterrupt):
        run.save()
    assert run.checkpoint.read_bytes() == before


def test_finished_run_does_nothing_more(tmp_path):
    _run(tmp_path / "run.pt").finish(_quiet)
    again = _run(tmp_path / "run.pt")
    steps: list[float] = []
    again.finish(lambda progress, loss, tokens_per_s: steps.append(loss))
    assert not steps
    assert again.progress == 1.0


def test_training_and_distillation_lower_the_loss(tmp_path):
    run = _run(tmp_path / "run.pt", n_steps=120)
    losses: list[float] = []
    run.finish(lambda progress, loss, tokens_per_s: losses.append(loss))
    assert losses[-1] < losses[0] - 0.5
    draft, learnt = _model(seed=1), run.objective
    taught = LanguageObjective(draft, distilled(draft, learnt.model), learnt.feed, learnt.held_out, STAGES, 5)
    losses.clear()
    Loop(taught, run.budget, tmp_path / "draft.pt").finish(lambda progress, loss, tokens_per_s: losses.append(loss))
    assert losses[-1] < losses[0] - 0.2


def test_batched_muon_is_torch_muon():
    """Same rule and constants; bfloat16 products in another order allow 2 % of an update's size."""
    rng = torch.Generator().manual_seed(0)
    shapes = [(8, 24), (24, 8), (8, 24), (16, 16)]
    start = [torch.randn(shape, generator=rng) for shape in shapes]
    ours, theirs = ([torch.nn.Parameter(weights.clone()) for weights in start] for _ in range(2))
    optimizers = [BatchedMuon(ours, lr=0.02), torch.optim.Muon(theirs, lr=0.02)]
    for _ in range(3):
        grads = [torch.randn(shape, generator=rng) for shape in shapes]
        for params, optimizer in zip((ours, theirs), optimizers, strict=True):
            for param, grad in zip(params, grads, strict=True):
                param.grad = grad.clone()
            optimizer.step()
    for mine, other, first in zip(ours, theirs, start, strict=True):
        assert (mine - other).norm() < 0.02 * (other - first).norm()
