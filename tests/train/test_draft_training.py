"""`specviz train draft`: a smaller model of a target that is there already, on what the target wrote."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import load_file

from specviz.engine.model.adapter import ModelAdapter
from specviz.engine.model.pair import load_pair
from specviz.errors import SpecvizError
from specviz_train.common import corpus, own_text, training_text
from specviz_train.common.optim import Budget
from specviz_train.common.own_text import OwnWindows
from specviz_train.draft_model import card, corrections, narrow
from specviz_train.draft_model import train as draft_training
from specviz_train.draft_model.card import PairSpeed
from specviz_train.train import command
from support.models import build, save
from train.little_text import little_corpus

STEPS = 40


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """A random target of five layers in a folder, a little text, budgets in steps, measurements that take no time."""
    documents = little_corpus()
    monkeypatch.setattr(corpus, "gather", lambda wanted: documents)
    monkeypatch.setattr(training_text, "MOST_CHARS", {"train": 2e4, "held out": 4e3})
    monkeypatch.setattr(training_text, "LEAST_TOKENS", 160)
    monkeypatch.setattr(own_text, "trees_writing", lambda length: training_writing())
    monkeypatch.setattr(draft_training.DraftRequest, "share", shares)
    monkeypatch.setattr(card, "measure_speed", lambda target, draft: PairSpeed(4.0, 1.0))
    for name, value in {"N_PROMPTS": 1, "N_NEW": 8, "PROMPT": 8}.items():
        monkeypatch.setattr(card, name, value)
    return save(build("llama", seed=5, num_hidden_layers=5), tmp_path / "target")


def training_writing() -> Any:
    from specviz_train.common.own_text import OwnTextConfig

    return OwnTextConfig(24, 8, 40)


def shares(request: Any, share: float) -> Budget:
    return Budget(steps=1 if share < 0.5 else STEPS)


def trained(small: str, folder: Path, *more: str) -> dict[str, Any]:
    words = ["draft", "--target", small, "--out", str(folder / "draft"), "--work", str(folder / "work")]
    done = CliRunner().invoke(command, [*words, "--batch", "4", "--minutes", "1", *more])
    if done.exception is not None:
        raise done.exception
    numbers: dict[str, Any] = json.loads((folder / "draft" / "card.json").read_text(encoding="utf-8"))
    return numbers


@pytest.mark.parametrize(
    ("more", "width", "n_layers"),
    [
        (["--tokens", "120"], 32, 3),
        (["--tokens", "120", "--rank", "0", "--layers", "2"], 32, 2),
        (["--width", "16"], 16, 2),
    ],
    ids=["corrected", "anew", "narrow"],
)
def test_a_draft_model_learns_and_loads_beside_its_target(
    small: str, tmp_path: Path, more: list[str], width: int, n_layers: int
) -> None:
    numbers = trained(small, tmp_path, *more)
    losses = [row[1] for row in numbers["training"]["curve"]]
    assert sum(losses[-5:]) < 0.9 * sum(losses[:5])
    assert (numbers["layers"], numbers["width"]) == (n_layers, width)
    assert {"code", "sums"} == set(numbers["decoding"])
    pair = load_pair(small, str(tmp_path / "draft"))
    assert pair.draft is not None
    stored = load_file(tmp_path / "draft" / "model.safetensors")
    assert {value.dtype for value in stored.values()} == {torch.bfloat16}
    assert ("model.embed_tokens.weight" in stored) == (width < 32)
    assert str(tmp_path) not in "".join(path.read_text("utf-8") for path in (tmp_path / "draft").glob("*.json"))
    page = (tmp_path / "draft/README.md").read_text(encoding="utf-8")
    assert "specviz train draft --minutes 1 --seed 0 --target target --layers" in page
    again = trained(small, tmp_path, *more)  # nothing is left to do
    assert again["training"] == numbers["training"]


def test_as_wide_as_its_target_it_takes_embedding_and_head_from_it(small: str, tmp_path: Path) -> None:
    trained(small, tmp_path, "--rank", "0")
    pair = load_pair(small, str(tmp_path / "draft"), dtype="float32")
    assert pair.draft is not None
    target, draft = pair.target.adapter.model, pair.draft.adapter.model
    assert draft.get_input_embeddings() is target.get_input_embeddings()
    assert draft.get_output_embeddings() is target.get_output_embeddings()
    assert not draft.state_dict()["model.norm.weight"].equal(target.state_dict()["model.norm.weight"])


def test_what_corrects_the_layers_of_a_target_is_all_that_is_kept(small: str, tmp_path: Path) -> None:
    numbers = trained(small, tmp_path, "--layers", "2", "--rank", "4")
    stored = load_file(tmp_path / "draft" / "model.safetensors")
    assert {name.rpartition(".")[2] for name in stored} == {"down", "up"}
    assert all(4 in value.shape for value in stored.values())
    assert any(value.abs().max() > 0 for name, value in stored.items() if name.endswith("up"))
    layers = json.loads((tmp_path / "work/layers.json").read_text("utf-8"))["layers"]
    pair = load_pair(small, str(tmp_path / "draft"), dtype="float32")
    assert pair.draft is not None
    assert len(layers) == numbers["layers"] == pair.draft.adapter.n_layers == 2


def test_corrections_learn_on_from_a_draft_model_that_is_there(small: str, tmp_path: Path) -> None:
    first = trained(small, tmp_path / "first", "--layers", "2", "--rank", "4")
    begun = tmp_path / "first/draft"
    more = trained(small, tmp_path / "more", "--begin", str(begun))
    assert "--begin draft" in more["command"]
    assert more["layers"] == 2
    assert not (tmp_path / "more" / "work" / "layers.json").exists()  # nothing was chosen anew
    curves = [[row[1] for row in numbers["training"]["curve"]] for numbers in (first, more)]
    assert sum(curves[1][:5]) < sum(curves[0][:5])
    other = save(build("llama", seed=6, num_hidden_layers=5), tmp_path / "other")
    for target, options, message in (
        (other, ["--begin", str(begun)], "made for another target"),
        (small, ["--begin", str(begun), "--rank", "0"], "--begin goes on with corrected layers"),
        (small, ["--begin", small], "no draft model made of its target's corrected layers"),
    ):
        with pytest.raises(SpecvizError, match=message):
            trained(target, tmp_path / "refused", *options)


def test_layers_that_say_nothing_are_left_out_first(small: str, tmp_path: Path) -> None:
    target = load_pair(small, needs_draft=False).target.adapter
    with torch.no_grad():
        for silent in (1, 3):
            target.layers[silent].self_attn.o_proj.weight.zero_()
            target.layers[silent].mlp.down_proj.weight.zero_()
    ids = torch.randint(0, 200, (4, 40), generator=torch.Generator().manual_seed(1)).numpy()
    windows, progress = OwnWindows.behind(ids.astype("int32"), 4), []
    for _ in range(2):  # the second time it is read
        left = corrections.remaining(target, windows, 3, tmp_path / "layers.json", lambda: progress.append(1))
        assert left == [0, 2, 4]
    assert len(progress) == 2


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--layers", "5"], "--layers 5: the target has 5"),
        (["--width", "40"], "--width 40: the target's states are 32 wide"),
        (["--width", "30"], r"--width 30: .*multiple"),
    ],
)
def test_a_shape_that_makes_no_draft_model_is_refused(
    small: str, tmp_path: Path, more: list[str], message: str
) -> None:
    with pytest.raises(SpecvizError, match=message) as error:
        trained(small, tmp_path, *more)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["qwen2", "qwen3", "mistral"])
def test_models_like_llama_are_narrowed_and_others_refused(name: str) -> None:
    target = build(name, seed=3).eval()
    axes = torch.eye(32).double()
    config = narrow.config_of(target, 2, 32)
    narrow_model = narrow.narrowed(target, config, (0, 2), axes, seed=0).eval()
    short = build(name, seed=3).eval()
    short.model.layers = torch.nn.ModuleList([short.model.layers[0], short.model.layers[2]])
    ids = torch.arange(8)[None]
    assert torch.allclose(narrow_model(ids, use_cache=False).logits, short(ids, use_cache=False).logits, atol=1e-3)


@pytest.mark.parametrize("name", ["gpt2", "gemma2"])
def test_models_laid_out_otherwise_are_refused(name: str) -> None:
    target = build(name, seed=3)
    with pytest.raises(SpecvizError, match="only models laid out like Llama's can be narrowed"):
        narrow.narrowed(target, narrow.config_of(target, 2, 32), (0, 2), torch.eye(32).double(), seed=0)


def test_a_step_is_timed_as_drafting_takes_it() -> None:
    model = ModelAdapter(build("llama", seed=5))
    assert card.step_ms(model, context=8, n_steps=4) > 0


def test_layers_are_taken_as_far_apart_as_can_be() -> None:
    assert narrow.evenly(29, 2) == (0, 28)
    assert narrow.evenly(7, 3) == (0, 3, 6)
    assert narrow.evenly(5, 1) == (0,)
