"""`specviz train exit-heads`: end to end on a random target, resumed, measured, and what it refuses."""

import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from specviz.engine.model.adapter import ModelAdapter
from specviz.engine.model.files.loading import load
from specviz.errors import SpecvizError
from specviz.methods.early_exit.heads import ExitHead, FinalHead, TrainedHeads, pick
from specviz_train.cards import page as cards
from specviz_train.common import corpus, own_text, training_text
from specviz_train.common.console import Console
from specviz_train.common.loop import Loop
from specviz_train.common.optim import Budget
from specviz_train.common.own_text import OwnTextConfig
from specviz_train.common.training_text import TokenStore, WindowFeed, beginnings
from specviz_train.exits import card, objective, train
from specviz_train.train import command
from support.models import build, save
from train.little_text import little_corpus


@pytest.fixture
def small(monkeypatch, tmp_path):
    """A random target of five layers in a folder, a little text, and budgets in steps."""
    documents = little_corpus()
    monkeypatch.setattr(corpus, "gather", lambda wanted: documents)
    for module, values in (
        (own_text, {"HEADS": OwnTextConfig(64, 12, 40)}),
        (training_text, {"MOST_CHARS": {"train": 2e4, "held out": 4e3}, "LEAST_TOKENS": 160}),
        (objective, {"WINDOWS": 4, "LENGTH": 32, "POSITIONS": 96}),
        (train, {"N_WINDOWS": 4, "N_PROMPTS": 2, "PROMPT": 8, "N_NEW": 12}),
    ):
        for name, value in values.items():
            monkeypatch.setattr(module, name, value)
    monkeypatch.setattr(train.ExitHeadRequest, "share", lambda request, share: Budget(steps=2 if share < 0.5 else 60))
    return save(build("llama", seed=5, num_hidden_layers=5), tmp_path / "target")


def request(target, tmp_path, **changes):
    return train.ExitHeadRequest(
        **{
            "target": target,
            "out": tmp_path / "out",
            "work": tmp_path / "work",
            "minutes": 1,
            "kind": "square",
            **changes,
        }
    )


@pytest.mark.parametrize(("kind", "labels"), [("square", "hard"), ("lowrank", "soft"), ("full", "hard")])
def test_heads_learn_and_are_found_by_the_target(small, tmp_path, kind, labels):
    asked = request(small, tmp_path, kind=kind, labels=labels, rank=16, out=Path(small) / "exit-heads")
    numbers = train.train_exit_heads(asked, Console())
    adapter = load(small, "target", None, None).adapter
    trained = pick(adapter, None)
    assert isinstance(trained, TrainedHeads)
    assert (trained.layers, trained.kind) == ((1, 2, 3, 4), kind)
    losses = [loss for _, loss in numbers["training"]["curve"]]
    least = 0.02 if kind == "full" else 0.05  # a random target has little to teach, and a whole head learns slowly
    assert np.mean(losses[-5:]) < np.mean(losses[:5]) - least  # a step is loud
    assert set(numbers["replay"]) == {"code", "sums"}
    page = (asked.out / "README.md").read_text(encoding="utf-8")
    assert f"--kind {kind}" in page
    assert str(tmp_path) not in page + (asked.out / "card.json").read_text() + (asked.out / "config.json").read_text()
    ET.parse(asked.out / "reliability.svg")


def test_a_finished_run_does_nothing_again(small, tmp_path):
    asked = request(small, tmp_path)
    numbers = train.train_exit_heads(asked, Console())
    weights = (asked.out / "heads.safetensors").read_bytes()
    assert train.train_exit_heads(asked, Console())["training"] == numbers["training"]
    assert (asked.out / "heads.safetensors").read_bytes() == weights
    with pytest.raises(SpecvizError, match="begun with kind=square"):
        train.train_exit_heads(request(small, tmp_path, kind="gain"), Console())


def test_an_interrupted_training_ends_with_the_same_heads(tmp_path):
    """The same steps in one go and in two, the second from the checkpoint: the same weights to the last bit."""
    adapter = ModelAdapter(build("llama", seed=5).requires_grad_(False))
    ids = np.random.default_rng(0).integers(0, 256, 4_000).astype(np.int32)

    def trained(folder, stops):
        folder.mkdir()
        for steps in stops:
            heads = {1: ExitHead("lowrank", FinalHead(adapter), 4), 2: ExitHead("lowrank", FinalHead(adapter), 4)}
            # The rate falls with progress, so a run that is cut short must know its whole length.
            feed = WindowFeed({"own": ids}, mix={"own": 1.0})
            learnt = objective.HeadObjective(adapter.model, FinalHead(adapter), heads, feed, "hard", 3)
            run = Loop(learnt, Budget(steps=8), folder / "heads.pt")
            while run.ledger.steps < steps:
                run.advance()
            run.save()
        return torch.cat([parameter.detach().flatten() for head in heads.values() for parameter in head.parameters()])

    assert torch.equal(trained(tmp_path / "once", [8]), trained(tmp_path / "twice", [3, 8]))


def test_labels():
    """Soft: least at the final distribution itself. Hard: the log of the best token. A shortlist maps or leaves out."""
    final = torch.tensor([[2.0, 0.0, 1.0], [0.0, 3.0, 1.0]])
    scores = final.clone().requires_grad_()
    objective.loss_of(scores, final, "soft", None).backward()
    assert scores.grad.abs().max() < 1e-6
    hard = objective.loss_of(final, final, "hard", None)
    assert float(hard) == pytest.approx(float(-final.log_softmax(-1).amax(-1).mean()))
    ids = torch.tensor([0, 2])  # the second row's best token is off it
    short = objective.loss_of(final[:, ids], final, "hard", ids)
    assert float(short) == pytest.approx(float(-final[0, ids].log_softmax(-1)[0]))
    assert float(objective.loss_of(final[:, ids], final, "soft", ids)) > 0


def test_reliability_counts():
    """Right as often as sure: no error, whatever the bins; sure and always wrong: as wrong as it is sure."""
    sure = torch.tensor([0.8] * 10 + [0.4] * 10)
    right = torch.tensor([True] * 8 + [False] * 2 + [True] * 4 + [False] * 6)
    bins = card.binned([(sure[:7], right[:7]), (sure[7:], right[7:])])
    assert bins.agreement == pytest.approx(0.6)
    assert bins.error == pytest.approx(0, abs=1e-6)
    assert (bins.share_sure, bins.precision) == (0.5, pytest.approx(0.8))
    assert bins.points(least=10) == [
        (pytest.approx(0.4), pytest.approx(0.4)),
        (pytest.approx(0.8), pytest.approx(0.8)),
    ]
    wrong = card.binned([(sure, torch.zeros(20, dtype=torch.bool))])
    assert wrong.error == pytest.approx(0.6)
    assert card.binned([(sure[10:], right[10:])]).precision is None


def test_a_shortlist_is_the_most_frequent_tokens(small, tmp_path):
    asked = request(small, tmp_path, shortlist=60, kind="gain")
    train.train_exit_heads(asked, Console())
    adapter = load(small, "target", None, None).adapter
    heads = pick(adapter, str(asked.out))
    logits = heads.logits(1, torch.randn(1, 32, generator=torch.Generator().manual_seed(0)))
    assert int(logits.isfinite().sum()) == 60
    with np.load(asked.work / "own_text.npz") as arrays:
        counts = 4 * np.bincount(arrays["batches"].ravel(), minlength=260)
    for ids in TokenStore.load(asked.work / "text.npz").train.values():
        counts += np.bincount(ids, minlength=260)
    listed = logits[0].isfinite().numpy()
    assert counts[listed].min() >= counts[~listed].max()


def test_greedy_texts_are_those_of_the_library(small):
    adapter = load(small, "target", None, "float64").adapter
    prompts = [[5, 6, 7, 8], [100, 90, 80, 70]]
    for prompt, text in zip(prompts, card.greedy_texts(adapter.model, prompts, 10), strict=True):
        with torch.inference_mode():
            for at in range(4, 14):
                assert int(adapter.model(torch.tensor([text.tokens[:at]])).logits[0, -1].argmax()) == text.tokens[at]
        assert text.tokens[:4] == prompt


def test_prompts_are_spread_over_the_text():
    starts = beginnings({"code": np.arange(100), "short": np.arange(5)}, 3, 10)
    assert [prompt[0] for prompt in starts["code"]] == [0, 45, 90]
    assert "short" not in starts


def test_labels_of_curves_are_escaped():
    drawing = cards.reliability_plot([("a < b", [cards.ReliabilityCurve("<script>", [(0.1, 0.2), (0.5, 0.6)])])])
    assert "<script>" not in drawing
    ET.fromstring(drawing)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["exit-heads", "--kind", "magic"], "--kind"),
        (["exit-heads", "--kind", "tuned"], "--kind"),
        (["exit-heads", "--labels", "none"], "--labels"),
        (["exit-heads", "--minutes", "0"], "--minutes"),
        (["exit-heads", "--rank", "0"], "--rank"),
        (["exit-heads", "--text", "missing.txt"], "--text"),
        (["eagle3", "--optimizer", "sgd"], "'--optimizer': 'sgd' is not one of 'muon', 'adamw'"),
        (["eagle3", "--precision", "fp8"], "'--precision': 'fp8' is not one of 'bf16', 'fp32'"),
        (["eagle3", "--draft-loss", "top5"], "'--draft-loss': 'top5' is not one of 'full', 'top50'"),
        (
            ["block-drafter", "--rank-loss", "focal"],
            "'--rank-loss': 'focal' is not one of 'invsqrt', 'ce', 'reference'",
        ),
        (["mtp", "--bits", "12"], "'--bits': '12' is not one of '8', '16'"),
    ],
)
def test_bad_options_exit_with_2(options, says):
    result = CliRunner().invoke(command, options)
    assert result.exit_code == 2
    assert says in result.output


def test_what_the_target_lacks_is_refused(small, tmp_path):
    with pytest.raises(SpecvizError, match="layers 1 to 4"):
        train.train_exit_heads(request(small, tmp_path, layers=(5,)), Console())
    (tmp_path / "file").write_text("")
    with pytest.raises(SpecvizError, match="--work"):
        train.train_exit_heads(request(small, tmp_path, work=tmp_path / "file"), Console())


def test_too_little_text_is_refused(small, tmp_path, monkeypatch):
    monkeypatch.setattr(corpus, "gather", lambda wanted: [corpus.Document("code", "x", "ff" * 8, "a = 1\n")])
    with pytest.raises(SpecvizError, match="too little text"):
        train.train_exit_heads(request(small, tmp_path), Console())


def test_bfloat16_targets_train_too(small, tmp_path):
    """Heads are float32 in front of a head in the model's own dtype."""
    adapter = load(small, "target", None, "bfloat16").adapter
    final = FinalHead(adapter)
    windows = torch.randint(0, 250, (2, 20), generator=torch.Generator().manual_seed(0))
    states = objective.LayerStates.of(adapter.model, windows, (2,), adapter.vocab)
    for kind in ("gain", "lowrank", "square", "full", "factored"):
        head = ExitHead(kind, final, 4)
        objective.loss_of(head(states.by_layer[2], final), states.final, "hard", None).backward()
        assert all(parameter.grad is not None for parameter in head.parameters())
