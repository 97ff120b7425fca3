"""The parts for SmolLM2 as shipped: small, made for its weights, with cards that are drawn from their numbers."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors import safe_open

from specviz.local_models.catalogue import SMOLLM2
from specviz_train.cards.page import page
from specviz_train.draft_model import card as draft
from specviz_train.exits import card as heads
from specviz_train.hrad import train as hrad
from specviz_train.kangaroo import train as kangaroo
from specviz_train.self_skip import train as skip_set
from specviz_train.trees import block_drafter, eagle3, medusa, mtp

FOLDER = Path(__file__).parents[2] / "assets" / "smollm2" / "specviz_smollm2"
KINDS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "draft": draft.page_facts,
    "eagle3": eagle3.CARD.words,
    "block-drafter": block_drafter.CARD.words,
    "medusa": medusa.CARD.words,
    "mtp": mtp.CARD.words,
    "exit-heads": heads.page_facts,
    "kangaroo": kangaroo.page_facts,
    "skip-set": skip_set.page_facts,
    "hrad": hrad.page_facts,
}
MOST_BYTES = 90_000_000


SHIPPED = sorted(folder.name for folder in FOLDER.iterdir() if folder.is_dir() and folder.name[0] != "_")


def test_what_the_sources_are_about_is_there_and_all_together_are_small() -> None:
    assert SMOLLM2.parts is not None
    assert set(SMOLLM2.parts.brings) == set(SHIPPED) == set(KINDS), "the catalogue says what installing it would bring"
    assert sum(path.stat().st_size for path in FOLDER.rglob("*") if path.is_file()) <= MOST_BYTES


@pytest.mark.parametrize("kind", SHIPPED)
def test_its_page_is_drawn_from_its_numbers(kind: str) -> None:
    numbers = json.loads((FOLDER / kind / "card.json").read_text(encoding="utf-8"))
    assert page(kind, {**numbers, **KINDS[kind](numbers)}) == (FOLDER / kind / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("kind", SHIPPED)
def test_it_was_made_for_weights_that_are_known_and_names_no_place(kind: str) -> None:
    named = [
        json.loads(path.read_text(encoding="utf-8")).get("target")
        for path in (FOLDER / kind).glob("*.json")
        if path.name not in ("card.json", "static_tree.json")
    ]
    assert set(named) & set(SMOLLM2.weights)
    entry = "".join(
        path.read_text(encoding="utf-8") for path in (FOLDER / kind).iterdir() if path.suffix in (".json", ".md")
    )
    assert "/tmp" not in entry
    assert "/home" not in entry


@pytest.mark.parametrize("path", sorted(FOLDER.rglob("*.safetensors")), ids=lambda path: path.parent.name)
def test_weights_are_of_sixteen_bits(path: Path) -> None:
    measured = {"mean", "scale"}  # H-RAD's inputs are brought to one scale by these, in float32: no weights
    with safe_open(path, "pt") as tensors:
        floats = {tensors.get_slice(name).get_dtype() for name in tensors.keys() if name not in measured}  # noqa: SIM118
    assert floats <= {"BF16", "F16", "I64", "I32", "BOOL", "U8", "I8"}
