"""What is offered as target and draft model, and in which order."""

from pathlib import Path

import pytest

from specviz.local_models import store
from specviz.local_models.found import LocalModel
from specviz.local_models.offers import SELF_DRAFTS, drafts, targets, to_fetch


@pytest.fixture(autouse=True)
def empty_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(store.VARIABLE, str(tmp_path / "store"))


def model(name: str, bytes: int = 400_000_000, vocabulary: str = "a", problem: str | None = None) -> LocalModel:
    return LocalModel(name, "hub cache", Path("nowhere"), "llama", bytes, 100, vocabulary, chat=True, problem=problem)


def test_what_works_comes_first_and_what_does_not_comes_last_with_its_reason() -> None:
    offers = targets([model("broken", problem="no config.json"), model("mine"), model("other")])
    assert [offer.name for offer in offers] == ["mine", "other", "", "broken"]
    assert offers[0].note == "llama, 400 MB, chat, hub cache"
    assert [offer.problem for offer in offers] == [None, None, None, "no config.json"]


def test_a_draft_numbers_the_same_tokens_and_is_smaller() -> None:
    found = [model("large"), model("small", 100_000_000), model("foreign", 100_000_000, "b"), model("twin")]
    names = [offer.name for offer in drafts("large", found)]
    assert names == ["", "small", *(form.name for form in SELF_DRAFTS)]
    assert "small" not in [offer.name for offer in drafts("small", found)]


def test_the_draft_that_came_along_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert drafts("", [])[0].title == "embedded"
    assert drafts("large", [])[0].title == "no draft model"
    monkeypatch.setattr("specviz.local_models.offers.shipped_draft", lambda target: str(tmp_path))
    assert drafts("large", [])[0].title == "trained for it"


def test_a_known_model_is_to_be_had_until_it_is_here(tmp_path: Path) -> None:
    assert [known.name for known in to_fetch([])] == ["smollm2"]
    assert to_fetch([model("HuggingFaceTB/SmolLM2-135M-Instruct")]) == []
    assert to_fetch([model("HuggingFaceTB/SmolLM2-135M-Instruct", problem="half of it")]) != []
    folder = tmp_path / "store" / "smollm2"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    assert to_fetch([]) == []
