"""`specviz train pair` from end to end on a little text, and what it refuses."""

import json
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from transformers import AutoModelForCausalLM, AutoTokenizer

from specviz.errors import KnobError, SpecvizError
from specviz_train.common import corpus, own_text, training_text
from specviz_train.common.console import Console
from specviz_train.common.own_text import OwnTextConfig
from specviz_train.draft_model import card as draft_card
from specviz_train.draft_model.card import PairSpeed
from specviz_train.draft_pair import card as card_of
from specviz_train.draft_pair import models, train
from specviz_train.train import command


@pytest.fixture
def little_text(monkeypatch):
    """A corpus of this package alone, a target of three layers, and measurements that take no time."""
    files = [path.read_text(encoding="utf-8") for path in sorted(Path(corpus.__file__).parents[2].rglob("*.py"))]
    # Keys of our own choosing: both sides need some text, whatever this package's files hash to.
    code = [
        corpus.Document("code", "stdlib", f"{'f' if number % 4 else '00'}{corpus.key_of(text)}", text)
        for number, text in enumerate(files)
    ]
    pages = [corpus.Document("sums", "sums", corpus.key_of(page), page) for page in corpus.sum_pages(300, seed=0)]
    monkeypatch.setattr(corpus, "gather", lambda wanted: code + pages)
    for name, value in {"_N_WINDOWS": 2, "_LENGTH": 32, "_N_PROMPTS": 1, "_PROMPT": 8}.items():
        monkeypatch.setattr(card_of, name, value)
    monkeypatch.setattr(own_text, "PAIR", OwnTextConfig(2, 48))
    deep, all_windows = models.target_config, training_text.fixed
    monkeypatch.setattr(models, "target_config", lambda: shallow(deep()))
    monkeypatch.setattr(training_text, "fixed", lambda stream, n, length: all_windows(stream, min(n, 8), length))
    monkeypatch.setattr(models, "LAYERS", (0, 2))
    monkeypatch.setattr(card_of, "measure_speed", lambda target, draft: PairSpeed(4.0, 1.0))
    monkeypatch.setattr(draft_card, "N_NEW", 12)


def shallow(config):
    config.num_hidden_layers = 3
    return config


def test_a_pair_is_made_and_loads_with_transformers_alone(tmp_path, little_text):
    request = train.PairRequest(out=tmp_path / "pair", work=tmp_path / "work", minutes=0.02)
    numbers = train.train_pair(request, Console())
    again = train.train_pair(request, Console())
    assert again["training"] == numbers["training"]  # the second run found everything done
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "pair/draft")
    for name in ("target", "draft"):
        model = AutoModelForCausalLM.from_pretrained(tmp_path / "pair" / name)
        assert model.dtype == torch.bfloat16
        ids = torch.tensor([tokenizer.encode("def f(n):")])
        assert model(input_ids=ids).logits.shape == (1, ids.shape[1], 4_096)
    written = "".join(path.read_text("utf-8") for path in (tmp_path / "pair").rglob("*.json"))
    assert str(tmp_path) not in written
    card = json.loads((tmp_path / "pair/card.json").read_text(encoding="utf-8"))
    assert set(card["domains"]) == {"code", "code, standard library only", "sums"}
    assert card["command"] == "specviz train pair --minutes 0.02 --seed 0"


def test_a_work_folder_begun_with_other_options_is_refused(tmp_path):
    (tmp_path / "settings.json").write_text(json.dumps(train.PairRequest(tmp_path, tmp_path, 1, seed=1).settings))
    with pytest.raises(SpecvizError, match="begun with seed=1"):
        train.train_pair(train.PairRequest(tmp_path, tmp_path, 1, seed=2), Console())


def test_a_work_folder_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SpecvizError, match="--work"):
        train.train_pair(train.PairRequest(tmp_path, tmp_path / "file", 1), Console())


@pytest.mark.parametrize(
    "options", [["--minutes", "0"], ["--text", "missing.txt"], ["--seed", "-1"], ["--threads", "0"]]
)
def test_bad_options_exit_with_2(options):
    result = CliRunner().invoke(command, ["pair", *options])
    assert result.exit_code == 2
    assert options[0] in result.output


@pytest.mark.parametrize("part", ["pair", "exit-heads", "kangaroo", "skip-set"])
@pytest.mark.parametrize("minutes", ["nan", "inf"])
def test_a_time_that_never_ends_is_refused(part, minutes):
    result = CliRunner().invoke(command, [part, "--minutes", minutes])
    assert result.exit_code == 2
    assert "no time in minutes" in result.output


@pytest.mark.parametrize("part", ["exit-heads", "kangaroo"])
@pytest.mark.parametrize("layers", ["L/4", "auto", "0", "-1", "two", "9" * 5000])
def test_layers_that_are_no_numbers_are_refused(part, layers):
    """A share would need the target to be read; taken for nothing, it would train all layers unasked."""
    result = CliRunner().invoke(command, [part, "--layers", layers])
    assert isinstance(result.exception, KnobError)
    assert "--layers" in str(result.exception)
