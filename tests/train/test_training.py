"""Training drafters end to end on a small target: they learn, are found, resumed, ablated, and refuse."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from methods.specblock.stage import trained as random_drafter
from specviz.engine.model.adapter import ModelAdapter
from specviz.engine.model.files.loading import load
from specviz.errors import SpecvizError
from specviz.methods.dflash import network as dflash_files
from specviz.methods.eagle3 import drafter as eagle_files
from specviz.methods.medusa import drafter as medusa_files
from specviz.methods.mtp import network as mtp_files
from specviz.methods.specblock import network as block_files
from specviz.methods.specblock.losses import LossConfig
from specviz.methods.trained.rank_shapes import read_table
from specviz_train.common import corpus, own_text, training_text
from specviz_train.common.optim import Budget
from specviz_train.common.own_text import OwnTextConfig, OwnWindows
from specviz_train.common.training_text import WindowFeed, cut
from specviz_train.train import block_drafter as block_command
from specviz_train.train import dflash as dflash_command
from specviz_train.train import eagle3 as eagle_command
from specviz_train.train import medusa as medusa_command
from specviz_train.train import mtp as mtp_command
from specviz_train.train import static_tree as static_command
from specviz_train.trees import block_drafter, card, dflash, eagle3, losses, medusa, mtp, train
from specviz_train.trees.objective import DrafterBatches, drafter_loop
from support.models import build, save
from train.little_text import little_corpus

STEPS = 60


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """A random target of five layers in a folder, a little text, and budgets in steps."""
    documents = little_corpus()
    monkeypatch.setattr(corpus, "gather", lambda wanted: documents)
    for module, values in (
        (own_text, {"HEADS": OwnTextConfig(64, 32, 40)}),
        (training_text, {"MOST_CHARS": {"train": 2e4, "held out": 4e3}, "LEAST_TOKENS": 160}),
        (own_text, {"TREES": replace(own_text.TREES, rows=10, prompt=8, length=40)}),
        (losses, {"ANCHORS": 6}),
        (train, {"N_WINDOWS": 4}),
        (train.TreeDrafterRequest, {"share": shares}),
        (card, {"N_PROMPTS": 1, "N_NEW": 8, "PROMPT": 8}),
        (block_drafter, {"RECIPE": with_arms(block_drafter.RECIPE, {"blocks": 1}, {"merge": False})}),
        (eagle3, {"RECIPE": with_arms(eagle3.RECIPE, {}, {"d_max": 3})}),
        (medusa, {"RECIPE": with_arms(medusa.RECIPE, {})}),
        (mtp, {"RECIPE": with_arms(mtp.RECIPE, {})}),
        (dflash, {"RECIPE": with_arms(dflash.RECIPE, {})}),
    ):
        for name, value in values.items():
            monkeypatch.setattr(module, name, value)
    return save(build("llama", seed=5, num_hidden_layers=5), tmp_path / "target")


def with_arms(recipe: Any, *arms: dict[str, Any]) -> Any:
    return replace(recipe, card=replace(recipe.card, arms=arms))


def shares(request: Any, share: float) -> Budget:
    return Budget(steps=2 if share < 0.5 else STEPS)


def test_a_block_drafter_learns_and_is_found_by_the_target(small: str, tmp_path: Path) -> None:
    out = Path(small) / "block-drafter"
    arguments = ["--target", small, "--out", str(out), "--work", str(tmp_path / "work"), "--minutes", "1"]
    done = CliRunner().invoke(block_command, [*arguments, "--no-shift", "--rope-mode", "repeat"])
    assert done.exit_code == 0, done.output
    adapter = load(small, "target", None, None).adapter
    trained = block_files.KIND.pick(adapter, None)
    assert (trained.config.taps, trained.config.rope_mode, trained.config.shift) == ((1, 2, 5), "repeat", False)
    numbers = json.loads((out / "card.json").read_text())
    losses = [row[1] for row in numbers["training"]["curve"]]
    assert losses[-1] < losses[0] - 0.3
    assert [len(row) for row in numbers["accuracy"]] == [4, 4, 4]
    assert np.sum(numbers["confusion"]) > 0
    assert {row["text"] for row in numbers["decoding"]} == {"code", "sums"}
    page = (out / "README.md").read_text(encoding="utf-8")
    assert "train block-drafter --minutes 1 --seed 0 --target target --rope-mode repeat --no-shift`" in page
    written = page + (out / "card.json").read_text() + (out / "config.json").read_text()
    assert str(tmp_path) not in written
    weights = (out / block_files.KIND.weights).read_bytes()
    again = CliRunner().invoke(block_command, [*arguments, "--no-shift", "--rope-mode", "repeat"])
    assert again.exit_code == 0, again.output
    assert (out / block_files.KIND.weights).read_bytes() == weights
    other = CliRunner().invoke(block_command, arguments)
    assert isinstance(other.exception, SpecvizError)
    assert "begun with rope_mode=repeat, shift=False" in str(other.exception)


def test_an_eagle_drafter_learns_and_is_found_by_the_target(small: str, tmp_path: Path) -> None:
    out = Path(small) / "eagle3"
    arguments = ["--target", small, "--out", str(out), "--work", str(tmp_path / "work"), "--draft-vocab", "100"]
    done = CliRunner().invoke(eagle_command, [*arguments, "--batch", "1", "--accumulate", "2", "--decay", ".5"])
    assert done.exit_code == 0, done.output
    trained = eagle_files.KIND.pick(load(small, "target", None, None).adapter, None)
    assert (trained.config.trained_steps, trained.vocabulary.n_draft) == (7, 100)
    numbers = json.loads((out / "card.json").read_text())
    losses = [row[1] for row in numbers["training"]["curve"]]
    assert losses[-1] < losses[0] - 0.3
    assert len(numbers["accuracy"]) == 7
    page = (out / "README.md").read_text()
    assert "A step: 2 windows;" in page
    assert "every place ahead weighs 0.5" in page
    assert str(tmp_path) not in page + (out / "card.json").read_text()
    counted = CliRunner().invoke(static_command, ["--target", small, "--windows", "4"])  # for the tree beside it
    assert counted.exit_code == 0, counted.output
    right = read_table(out)
    assert [len(row) for row in right] == [10] * 7
    assert all(0 <= sum(row) <= 1.0001 for row in right)
    assert sum(right[0]) > 0.05


def test_an_mtp_layer_learns_and_is_found_by_the_target(
    small: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A narrower feed-forward part than the target's, some of its tokens, eight bits a weight on disk."""
    out = Path(small) / "mtp"
    arguments = ["--target", small, "--out", str(out), "--work", str(tmp_path / "work"), "--draft-vocab", "100"]
    done = CliRunner().invoke(mtp_command, [*arguments, "--ff", "16", "--rate", "0.003", "--bits", "8"])
    assert done.exit_code == 0, done.output
    trained = mtp_files.KIND.pick(load(small, "target", None, None).adapter, None)
    assert (trained.config.trained_steps, trained.config.ff, trained.config.bits, trained.vocabulary.n_draft) == (
        3,
        16,
        8,
        100,
    )
    numbers = json.loads((out / "card.json").read_text())
    losses = [row[1] for row in numbers["training"]["curve"]]
    assert losses[-1] < losses[0] - 0.3
    assert len(numbers["accuracy"]) == 3
    monkeypatch.setattr(mtp, "settle", lambda *args: pytest.fail("first weights are for beginnings"))
    assert CliRunner().invoke(mtp_command, [*arguments, "--ff", "16", "--rate", "0.003", "--bits", "8"]).exit_code == 0


def test_a_parallel_block_learns_and_is_found_by_the_target(small: str, tmp_path: Path) -> None:
    out = Path(small) / "dflash"
    arguments = ["--target", small, "--out", str(out), "--work", str(tmp_path / "work"), "--draft-vocab", "100"]
    done = CliRunner().invoke(dflash_command, [*arguments, "--slots", "3", "--anchors", "6", "--rate", "0.003"])
    assert done.exit_code == 0, done.output
    trained = dflash_files.KIND.pick(load(small, "target", None, None).adapter, None)
    assert (trained.config.slots, trained.config.n_layers, trained.vocabulary.n_draft) == (3, 2, 100)
    numbers = json.loads((out / "card.json").read_text())
    losses = [row[1] for row in numbers["training"]["curve"]]
    assert losses[-1] < losses[0] - 0.3
    assert [len(numbers[name]) for name in ("accuracy", "sure")] == [3, 3]


def test_medusa_heads_learn_and_bring_their_tree(small: str, tmp_path: Path) -> None:
    out = Path(small) / "medusa"
    arguments = [
        "--target",
        small,
        "--out",
        str(out),
        "--work",
        str(tmp_path / "work"),
        "--heads",
        "3",
        "--rate",
        "0.003",
    ]
    done = CliRunner().invoke(medusa_command, arguments)
    assert done.exit_code == 0, done.output
    trained = medusa_files.KIND.pick(load(small, "target", None, None).adapter, None)
    assert [len(row) for row in trained.config.right] == [10, 10, 10]
    assert all(0 <= sum(row) <= 1.0001 for row in trained.config.right)
    numbers = json.loads((out / "card.json").read_text())
    losses = [row[1] for row in numbers["training"]["curve"]]
    assert np.mean(losses[-8:]) < np.mean(losses[:8]) - 0.1  # a step is loud
    assert len(numbers["tree"]) == 63
    assert str(tmp_path) not in (out / "README.md").read_text() + (out / "card.json").read_text()


def test_shares_of_ranks_by_counting() -> None:
    """Untrained heads say what the target said one token ago: their ranks are those of its own row, counted by hand."""
    adapter = ModelAdapter(build("llama", seed=5, num_hidden_layers=5))
    rng = torch.Generator().manual_seed(1)
    ids = torch.randint(250, (3, 20), generator=rng)
    windows = OwnWindows.behind(ids.numpy().astype(np.int32), 4)
    drafter = medusa._begin(medusa.MedusaRequest(None, Path(), Path(), 1, heads=2), adapter, windows)
    right = losses.counted_ranks(adapter, drafter, windows, lambda seen: losses.heads_of(drafter, seen))
    with torch.no_grad():
        logits = adapter.model(ids).logits
    best = logits.argmax(-1)
    for head in range(2):
        counts, total = [0] * 10, 0
        for w in range(3):
            for i in range(20 - 1):
                places = [i + 1 + j for j in range(head + 1)]
                if places[-1] >= 20 or places[-1] + 1 < 4:
                    continue
                place = [1 + int((logits[w, i] > logits[w, i, best[w, t]]).sum()) for t in places]
                if all(rank <= 10 or t + 1 < 4 for rank, t in zip(place[:-1], places[:-1], strict=True)):
                    total += 1
                    if place[-1] <= 10:
                        counts[place[-1] - 1] += 1
        assert right[head] == pytest.approx([count / total for count in counts], abs=2e-2)


@pytest.mark.parametrize("kind", ["blocks", "eagle3", "medusa"])
def test_an_interrupted_training_ends_with_the_same_weights(tmp_path: Path, kind: str) -> None:
    """The same steps in one go and in two, the second from the checkpoint: the same weights to the last bit."""
    adapter = ModelAdapter(build("llama", seed=5, num_hidden_layers=5).requires_grad_(False))
    ids = np.random.default_rng(0).integers(0, 256, (12, 24)).astype(np.int32)
    windows = OwnWindows.behind(ids, 5)

    def batches(drafter: Any) -> DrafterBatches:
        return DrafterBatches(adapter.model, drafter, drafter.config.taps, windows, 3)

    def trained(folder: Path, stops: list[int]) -> torch.Tensor:
        folder.mkdir()
        for steps in stops:
            drafter: Any
            take: Any
            if kind == "blocks":
                drafter = random_drafter(adapter)
                take = losses.BlockLoss(batches(drafter), adapter.embedding, LossConfig())
            elif kind == "medusa":
                drafter = medusa._begin(medusa.MedusaRequest(None, folder, folder, 1), adapter, windows)
                take = losses.medusa_loss(batches(drafter))
            else:
                drafter = eagle3._begin(eagle3.Eagle3Request(None, folder, folder, 1), adapter, windows)
                take = losses.eagle_loss(batches(drafter), adapter.embedding)
            run = drafter_loop(drafter.network, Budget(steps=6), folder / "run.pt", take)
            while run.ledger.steps < steps:
                run.advance()
            run.save()
        return torch.cat([parameter.detach().flatten() for parameter in drafter.network.parameters()])

    assert torch.equal(trained(tmp_path / "once", [6]), trained(tmp_path / "twice", [2, 6]))


def test_a_drafter_s_head_begins_at_the_target_s_and_shares_nothing_with_it() -> None:
    adapter = ModelAdapter(build("llama", seed=5, num_hidden_layers=5))
    windows = OwnWindows.behind(np.arange(200, dtype=np.int32).reshape(5, 40) % 50, 8)
    for drafter in (
        block_drafter._begin(
            block_drafter.BlockDrafterRequest(None, Path(), Path(), 1, draft_vocab=50), adapter, windows
        ),
        eagle3._begin(eagle3.Eagle3Request(None, Path(), Path(), 1, draft_vocab=50), adapter, windows),
    ):
        assert torch.equal(drafter.network.head.weight, adapter.head.weight[:50])
        theirs = {parameter.untyped_storage().data_ptr() for parameter in adapter.model.parameters()}
        assert not theirs & {parameter.untyped_storage().data_ptr() for parameter in drafter.network.parameters()}


def test_own_text_mixes_temperatures(small: str) -> None:
    """Four of ten rows are the library's greedy text; the rest are sampled, by the seed alone."""
    model = load(small, "target", None, None).adapter.model
    feed = WindowFeed({"code": np.random.default_rng(0).integers(0, 250, 900).astype(np.int32)}, mix={"code": 1.0})
    how = own_text.TREES
    once, again = (
        own_text.write_batch(model, cut(feed, how.rows, how.prompt, (7, 0, 0)), (7, 0), how) for _ in range(2)
    )
    ids = once.ids
    assert (ids == again.ids).all()
    assert (once.written == (np.arange(40) >= how.prompt)).all()
    assert ids.shape == (10, 40)
    prompts = torch.from_numpy(ids[:, : own_text.TREES.prompt].astype(np.int64))
    mask = torch.ones_like(prompts)
    best = model.generate(
        prompts, attention_mask=mask, max_new_tokens=32, do_sample=False, eos_token_id=None, pad_token_id=0
    ).numpy()
    greedy = [k for k in range(10) if (ids[k] == best[k]).all()]
    assert (
        greedy == [k for k, temperature in enumerate(own_text.TREES.temperatures) if temperature == 0] == [0, 2, 4, 7]
    )
