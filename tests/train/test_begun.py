"""`--begin`: trainings of drafters that begin with the weights of one that is there."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from specviz.engine.model.adapter import ModelAdapter
from specviz.errors import SpecvizError
from specviz_train.common import corpus, own_text, training_text
from specviz_train.common.optim import Budget
from specviz_train.common.own_text import OwnWindows
from specviz_train.train import command
from specviz_train.trees import block_drafter, card, dflash, eagle3, medusa, mtp, train
from specviz_train.trees.begun import with_weights_of
from support.models import build, save
from train.little_text import little_corpus

REQUESTS: dict[str, tuple[Any, Any]] = {
    "block": (block_drafter.RECIPE, block_drafter.BlockDrafterRequest),
    "eagle": (eagle3.RECIPE, eagle3.Eagle3Request),
    "medusa": (medusa.RECIPE, medusa.MedusaRequest),
    "mtp": (mtp.RECIPE, mtp.MtpRequest),
    "dflash": (dflash.RECIPE, dflash.DflashRequest),
}
STEPS = 40


def windows(seed: int) -> OwnWindows:
    return OwnWindows.behind(np.random.default_rng(seed).integers(0, 250, (6, 24)).astype(np.int32), 5)


@pytest.mark.parametrize("name", REQUESTS)
def test_every_kind_takes_over_weights_and_tokens(name: str, tmp_path: Path) -> None:
    recipe, request = REQUESTS[name]
    target = ModelAdapter(build("llama", seed=5, num_hidden_layers=5), "target")
    asked = request(None, tmp_path, tmp_path, 1, draft_vocab=60)
    first = recipe.begin(asked, target, windows(1))
    with torch.no_grad():
        for weight in first.network.parameters():
            weight.add_(torch.rand(weight.shape, generator=torch.Generator().manual_seed(2)))
    counted = {"right": ((0.5, 0.2),) * 4} if name == "medusa" else {}  # heads are not kept without their ranks
    recipe.kind.write(tmp_path / "first", replace(first, config=replace(first.config, **counted)))
    drafter = recipe.begin(replace(asked, seed=7), target, windows(3))
    assert not torch.equal(drafter.vocabulary.ids, first.vocabulary.ids)
    taken_over = with_weights_of(drafter, recipe.kind, tmp_path / "first", target)
    assert torch.equal(taken_over.vocabulary.ids, first.vocabulary.ids)
    ours, theirs = taken_over.network.state_dict(), first.network.state_dict()
    assert all(torch.equal(ours[key], theirs[key].bfloat16().float()) for key in theirs)
    assert {parameter.dtype for parameter in taken_over.network.parameters()} == {
        torch.float32
    }  # they learn on in full
    if recipe.kind.join is not None:  # what it shares with the target goes with its tokens
        assert torch.equal(taken_over.network.head, target.head.weight[first.vocabulary.ids])
    other = recipe.begin(replace(asked, **OTHERS[name]), target, windows(3))
    with pytest.raises(SpecvizError, match=r"--begin .*; give the sizes that it was made with"):
        with_weights_of(other, recipe.kind, tmp_path / "first", target)


OTHERS: dict[str, dict[str, Any]] = {
    "block": {"shift": False},
    "eagle": {"draft_vocab": 61},
    "medusa": {"heads": 3},
    "mtp": {"ff": 8},
    "dflash": {"slots": 3},
}


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """A random target of five layers in a folder, a little text, and budgets in steps."""
    documents = little_corpus()
    monkeypatch.setattr(corpus, "gather", lambda wanted: documents)
    for module, values in (
        (training_text, {"MOST_CHARS": {"train": 2e4, "held out": 4e3}, "LEAST_TOKENS": 160}),
        (own_text, {"TREES": replace(own_text.TREES, rows=10, prompt=8, length=40)}),
        (train, {"N_WINDOWS": 4}),
        (train.TreeDrafterRequest, {"share": lambda request, share: Budget(steps=2 if share < 0.5 else STEPS)}),
        (card, {"N_PROMPTS": 1, "N_NEW": 8, "PROMPT": 8}),
        (eagle3, {"RECIPE": replace(eagle3.RECIPE, card=replace(eagle3.RECIPE.card, arms=({},)))}),
    ):
        for name, value in values.items():
            monkeypatch.setattr(module, name, value)
    return save(build("llama", seed=5, num_hidden_layers=5), tmp_path / "target")


def trained(target: str, folder: Path, *more: str) -> dict[str, Any]:
    words = ["eagle3", "--target", target, "--out", str(folder / "eagle3"), "--work", str(folder / "work")]
    done = CliRunner().invoke(command, [*words, "--draft-vocab", "100", "--steps", "2", *more])
    if done.exception is not None:
        raise done.exception
    numbers: dict[str, Any] = json.loads((folder / "eagle3" / "card.json").read_text(encoding="utf-8"))
    return numbers


def test_a_drafter_learns_on_and_its_card_tells_of_both_trainings(small: str, tmp_path: Path) -> None:
    first = trained(small, tmp_path / "first")
    begin = ("--begin", str(tmp_path / "first" / "eagle3"), "--rate", "0.0005", "--steps", "3")
    more = trained(small, tmp_path / "more", *begin)
    curves = [[row[1] for row in numbers["training"]["curve"]] for numbers in (first, more)]
    assert curves[1][0] < curves[0][-1] + 0.1 < curves[0][0] - 0.2  # it begins where the other ended
    assert more["config"]["trained_steps"] == 3  # how far ahead it learns is asked anew
    assert [earlier["command"] for earlier in more["begun"]] == [first["command"]]
    assert more["begun"][0]["steps"] == STEPS
    page = (tmp_path / "more/eagle3/README.md").read_text(encoding="utf-8")
    assert "--begin eagle3`: " in page
    assert f"It began with the weights that `{first['command']}` had made: " in page
    assert str(tmp_path) not in page + json.dumps(more)
    again = trained(small, tmp_path / "more", *begin)  # nothing is left to do
    assert (again["training"], again["begun"]) == (more["training"], more["begun"])


def test_what_cannot_be_begun_with_is_refused_in_one_line(
    small: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained(small, tmp_path / "first")
    begun = str(tmp_path / "first" / "eagle3")
    other = save(build("llama", seed=6, num_hidden_layers=5), tmp_path / "other")
    monkeypatch.setattr(own_text, "written_for_trees", lambda *args: pytest.fail("text was written first"))
    for target, more, message in (
        (other, ["--begin", begun], "--begin .*: made for .*/target .*the target other has"),
        (small, ["--begin", str(tmp_path / "none")], "--begin .*none"),
    ):
        with pytest.raises(SpecvizError, match=message) as error:
            trained(target, tmp_path / "more", *more)
        assert "\n" not in str(error.value)
