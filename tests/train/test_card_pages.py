"""The pages of all cards, drawn from their numbers as ever: those that ship, and variants beside this file."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from specviz_train.cards.page import page
from specviz_train.draft_pair import card as pair
from specviz_train.exits import card as heads
from specviz_train.hrad import train as hrad
from specviz_train.kangaroo import train as kangaroo
from specviz_train.self_skip import train as skip_set
from specviz_train.trees import block_drafter, dflash, eagle3, medusa, mtp
from specviz_train.trees.card import curve

SHIPPED = Path(__file__).parents[2] / "assets" / "specviz_assets" / "models" / "pair"
GOLDEN = Path(__file__).parent / "golden_cards"
KINDS: dict[str, tuple[str, Callable[[Any], dict[str, Any]]]] = {
    "pair": ("pair", pair.page_facts),
    "heads": ("exit-heads", heads.page_facts),
    "hrad": ("hrad", hrad.page_facts),
    "hrad-gamma7": ("hrad", hrad.page_facts),
    "kangaroo": ("kangaroo", kangaroo.page_facts),
    "skip-set": ("skip-set", skip_set.page_facts),
    "block-drafter": ("block-drafter", block_drafter.CARD.words),
    "eagle3": ("eagle3", eagle3.CARD.words),
    "medusa": ("medusa", medusa.CARD.words),
    "mtp": ("mtp", mtp.CARD.words),
    "dflash": ("dflash", dflash.CARD.words),
}


def drawn(kind: str, numbers: dict[str, Any]) -> str:
    template, page_facts = KINDS[kind]
    return page(template, {**numbers, **page_facts(numbers)})


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "medusa"])
def test_cards_that_ship_are_drawn_from_their_numbers(kind: str) -> None:
    folder = SHIPPED if kind == "pair" else SHIPPED / kind
    assert drawn(kind, json.loads((folder / "card.json").read_text())) == (folder / "README.md").read_text()


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.json")), ids=lambda path: path.stem)
def test_pages_are_those_of_before(path: Path) -> None:
    """Numbers that are not there, parts left out, one kind alone: as drawn before there was one renderer."""
    assert drawn(path.name.split(".")[0], json.loads(path.read_text())) == path.with_suffix(".md").read_text()


def test_the_curve_that_ships_is_drawn_from_its_numbers() -> None:
    folder = SHIPPED / "block-drafter"
    points = json.loads((folder / "card.json").read_text())["training"]["curve"]
    assert curve(points, block_drafter.CARD.places) == (folder / "curve.svg").read_text()
