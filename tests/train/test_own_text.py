"""What a target wrote, as a file: gone on with, read by the trainers of that target alone; and its states beside it."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from specviz.engine.model.adapter import ModelAdapter
from specviz.errors import SpecvizError
from specviz.methods.trained.parts import fingerprint
from specviz_train.common import corpus, own_text, training_text
from specviz_train.common.kept_states import KeptStates
from specviz_train.common.own_text import OwnWindows
from specviz_train.train import command
from support.models import build, save
from train.little_text import little_corpus


@pytest.fixture(scope="module")
def target() -> ModelAdapter:
    return ModelAdapter(build("llama", seed=5, num_hidden_layers=5).requires_grad_(False))


def windows(n: int = 6, length: int = 12, seed: int = 0) -> OwnWindows:
    ids = np.random.default_rng(seed).integers(0, 250, (n, length)).astype(np.int32)
    return OwnWindows.behind(ids, 3)


def file_of(path: Path, **facts: object) -> Path:
    """A text file that says `facts` of itself."""
    text = windows()
    header = {"format": own_text.FORMAT, "chat": False, "target": "x", "target_name": "thing", **facts}
    np.savez(path, batches=text.ids[None], written=text.written[None], seconds=np.array(1.0), facts=json.dumps(header))
    return path


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """A random target in a folder and a little text."""
    documents = little_corpus()
    monkeypatch.setattr(corpus, "gather", lambda wanted: documents)
    monkeypatch.setattr(training_text, "MOST_CHARS", {"train": 2e4, "held out": 4e3})
    monkeypatch.setattr(training_text, "LEAST_TOKENS", 160)
    return save(build("llama", seed=5, num_hidden_layers=5), tmp_path / "target")


def written(small: str, folder: Path, *more: str) -> Path:
    out = folder / "text.npz"
    words = ["text", "--target", small, "--out", str(out), "--work", str(folder / "work"), "--rows", "4"]
    done = CliRunner().invoke(command, [*words, "--length", "70", "--minutes", "0.05", *more])
    if done.exception is not None:
        raise done.exception
    return out


def test_a_text_is_written_gone_on_with_and_read_again(
    small: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("specviz_train.text.TextRequest.share", lambda self, share: own_text.Budget(steps=2))
    out = written(small, tmp_path)
    first = own_text.read(out)[0]
    facts = own_text.facts_of(out)
    assert facts["temperatures"] == list(own_text.TREES.temperatures)
    again = own_text.given_windows(out, facts["target"], chat=False)
    assert again.ids.shape == (8, 70)
    assert again.written[:, 40:].all()
    assert not again.written[:, :32].any()
    monkeypatch.setattr("specviz_train.text.TextRequest.share", lambda self, share: own_text.Budget(steps=3))
    written(small, tmp_path)
    more = own_text.read(out)[0]
    assert len(more) == 3
    assert (more[1].ids == first[1].ids).all()
    with pytest.raises(SpecvizError, match=r"begun with .*seed"):
        written(small, tmp_path, "--seed", "3", "--work", str(tmp_path / "other"))


def test_what_a_file_holds_is_told_before_it_is_learnt_on(target: ModelAdapter, tmp_path: Path) -> None:
    own = fingerprint(target)
    assert own_text.given_windows(file_of(tmp_path / "a.npz", target=own), own, chat=False).ids.shape == (6, 12)
    with pytest.raises(SpecvizError, match=r"another target \(thing\).*specviz train text"):
        own_text.given_windows(file_of(tmp_path / "b.npz"), own, chat=False)
    with pytest.raises(SpecvizError, match="it holds plain text, and chats was asked for; give --raw"):
        own_text.given_windows(file_of(tmp_path / "c.npz", target=own), own, chat=True)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"half a file"])
def test_what_is_no_text_is_refused_in_one_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "broken.npz"
    path.write_bytes(content)
    with pytest.raises(SpecvizError, match="not what a target wrote") as error:
        own_text.given_windows(path, "x", chat=False)
    assert "\n" not in str(error.value)
    np.savez(path, batches=np.zeros(3))
    with pytest.raises(SpecvizError, match="not what a target wrote"):
        own_text.given_windows(path, "x", chat=False)


def test_kept_states_are_what_the_target_says(target: ModelAdapter, tmp_path: Path) -> None:
    text = windows()
    kept = KeptStates.begun(tmp_path / "s", target, text, (1, 3), 1.0)
    assert kept is not None
    picked = np.array([4, 1, 4])
    kept.ask(picked)
    ids, _ = text.at(picked)
    out = target.model(input_ids=ids, output_hidden_states=True)
    for layer in (1, 3, 5):
        assert torch.allclose(kept.states(layer, picked), out.hidden_states[layer], atol=1e-5)
    assert kept.best(picked).equal(out.logits[..., : target.vocab].argmax(-1))
    some = torch.tensor([3, 200, 7])
    assert torch.allclose(kept.logits(picked, some), out.logits[..., some], atol=1e-4)


def test_a_text_that_has_grown_keeps_what_was_said(
    target: ModelAdapter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    more, asked = windows(9), []
    first = OwnWindows(more.ids[:5], more.written[:5])
    kept = KeptStates.begun(tmp_path / "s", target, first, (1, 3), 1.0)
    assert kept is not None
    kept.ask(np.arange(5))
    states = kept.states(3, np.arange(5)).clone()
    ask = KeptStates._ask
    monkeypatch.setattr(KeptStates, "_ask", lambda self, n: asked.append(n.tolist()) or ask(self, n))
    again = KeptStates.begun(tmp_path / "s", target, more, (1, 3), 1.0)
    assert again is not None
    again.ask(np.arange(9))
    assert asked == [[5, 6, 7, 8]]
    assert again.states(3, np.arange(5)).equal(states)
    other = KeptStates.begun(tmp_path / "s", target, windows(9, seed=1), (1, 3), 1.0)
    assert other is not None
    other.ask(np.arange(2))
    assert asked[-1] == [0, 1]


def test_states_are_kept_only_where_there_is_room_and_logits_follow(target: ModelAdapter, tmp_path: Path) -> None:
    assert KeptStates.begun(tmp_path / "s", target, windows(), (1,), 1e-9) is None
    capped = ModelAdapter(build("gemma2", seed=5).requires_grad_(False))
    capped.model.config.final_logit_softcapping = 0.5
    assert KeptStates.begun(tmp_path / "t", capped, windows(), (1,), 1.0) is None
    assert not (tmp_path / "s").exists()


def test_draws_stay_inside_the_nucleus() -> None:
    """Rows whose mass lies in a few tokens, rows that need more than the likeliest, and one token alone."""
    logits = torch.zeros(3, 2000)
    logits[0, :4] = 20.0
    logits[2, 7] = 50.0
    rng = torch.Generator().manual_seed(0)
    drawn = torch.tensor([own_text._picked(logits, torch.ones(3), 0.9, rng) for _ in range(300)])
    assert set(drawn[:, 0].tolist()) == {0, 1, 2, 3}
    assert len(set(drawn[:, 1].tolist())) > own_text.LIKELIEST
    assert set(drawn[:, 2].tolist()) == {7}
    assert own_text._picked(logits, torch.zeros(3), 0.9, rng)[2] == 7
