"""What screens offer: our models first, the pair that comes along, and the line that gets what is not here."""

from pathlib import Path

import pytest

from specviz.local_models import catalogue, choices
from specviz.local_models.choices import EMBEDDED, NO_DRAFT, choice_of, draft_choices, model_words, target_choices
from specviz.local_models.found import LocalModel


def _model(name: str, place: str = "store", **more: object) -> LocalModel:
    facts = {"architecture": "llama", "bytes": 270_000_000, "vocabulary": "v", "chat": True, **more}
    return LocalModel(name, place, Path("/nowhere") / name, **facts)  # type: ignore[arg-type]


def test_ours_come_first_and_what_could_be_here_last_with_its_command() -> None:
    offered = target_choices([_model("mine"), _model("owner/name", "hub cache"), _model("bad", problem="no weights")])
    known = list(catalogue.KNOWN)
    assert [choice.name for choice in offered] == ["mine", EMBEDDED, "owner/name", *known, "bad"]
    assert [choice.able for choice in offered] == [True, True, True, *(False for _ in known), False]
    assert offered[3].command == f"specviz models get {known[0]}"
    assert "no weights" in offered[-1].problem


@pytest.mark.parametrize("place", ["store", "hub cache"])
def test_a_known_model_that_is_here_is_not_offered_to_be_fetched(place: str) -> None:
    name, known = next(iter(catalogue.KNOWN.items()))
    offered = target_choices([_model(name if place == "store" else known.hub, place)])
    assert not [choice for choice in offered if choice.command.endswith(f"get {name}")]


def test_a_bare_machine_proposes_what_comes_along() -> None:
    assert target_choices([])[0].name == EMBEDDED


def test_draft_models_share_the_vocabulary_and_are_much_smaller() -> None:
    here = [
        _model("target"),
        _model("small", bytes=90_000_000),
        _model("nearly", bytes=200_000_000),
        _model("foreign", bytes=9_000_000, vocabulary="w"),
        _model("broken", bytes=9_000_000, problem="cut short"),
    ]
    offered = [choice.name for choice in draft_choices("target", here)]
    assert {"small", NO_DRAFT} <= set(offered)
    assert not {"target", "nearly", "foreign", "broken"} & set(offered)


def test_the_draft_model_that_pays_best_for_a_known_target_is_proposed(monkeypatch: pytest.MonkeyPatch) -> None:
    small = _model("small", bytes=1)
    assert draft_choices("target", [_model("target"), small])[0].name == "small"
    monkeypatch.setattr(choices, "known_name", lambda target: catalogue.SMOLLM2.name)
    monkeypatch.setattr(choices, "brought", lambda: {"smollm2-draft": Path("draft")})
    offered = [choice.name for choice in draft_choices("target", [_model("target"), small])]
    assert offered[0] == catalogue.SMOLLM2.draft
    assert offered.index("smollm2-draft") < offered.index("small")


def test_a_typed_name_is_a_choice_of_its_own(tmp_path: Path) -> None:
    offered = target_choices([])
    (tmp_path / "chat_template.jinja").write_text("{{ messages }}")
    assert choice_of(str(tmp_path), offered).chat
    assert not choice_of("owner/name", offered).chat
    assert choice_of(EMBEDDED, offered) is offered[0]


def test_the_words_for_a_worker_name_what_was_chosen() -> None:
    assert model_words(EMBEDDED, EMBEDDED) == []
    assert model_words("a", EMBEDDED) == ["--target", "a"]
    assert model_words("a", "b") == ["--target", "a", "--draft", "b"]
    assert model_words("a", NO_DRAFT) == ["--target", "a", "--no-draft"]
