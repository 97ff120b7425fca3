"""Models among the words of a command line."""

from pathlib import Path

from specviz.local_models.choices import NO_DRAFT
from specviz.local_models.found import LocalModel
from specviz.sources.model_names import ModelNames

WORDS = ("--device", "cpu", "--target", "a", "--draft", "b", "--threads", "2")


def test_models_take_the_place_of_others_and_the_rest_stays() -> None:
    assert ModelNames.of(WORDS) == ModelNames("a", "b")
    assert ModelNames("c").among(WORDS) == ("--device", "cpu", "--threads", "2", "--target", "c")
    assert ModelNames.of(ModelNames("c", "d").among(WORDS)) == ModelNames("c", "d")
    assert ModelNames().among(WORDS) == ("--device", "cpu", "--threads", "2")
    assert ModelNames.of(()) == ModelNames()


def test_a_target_is_proposed_with_what_is_there_and_a_known_one_with_itself() -> None:
    large = LocalModel("large", "store", Path("nowhere"), "llama", 900, 9, "v")
    small = LocalModel("small", "store", Path("nowhere"), "llama", 90, 9, "v")
    assert ModelNames.proposed("large", [large, small]) == ModelNames("large", "small")
    assert ModelNames.proposed("large", [large]) == ModelNames("large", NO_DRAFT)
    assert ModelNames.proposed("", [large]) == ModelNames()
    known = LocalModel("smollm2", "store", Path("nowhere"), "llama", 900, 9, "w")
    assert ModelNames.proposed("smollm2", [known, large]) == ModelNames("smollm2", "self:int4")


def test_no_draft_model_is_a_word_of_its_own() -> None:
    alone = ModelNames("c", NO_DRAFT)
    assert alone.among(WORDS) == ("--device", "cpu", "--threads", "2", "--target", "c", "--no-draft")
    assert ModelNames.of(alone.among(())) == alone
    assert ModelNames("c").among(alone.among(())) == ("--target", "c")


def test_they_are_called_as_a_person_would() -> None:
    assert ModelNames().text == "the embedded pair"
    assert ModelNames("smollm2", "self:int4").text == "smollm2 with self:int4"
