"""The H-RAD that ships: of the embedded pair, found by itself, better than saying the same thing always."""

import json
from pathlib import Path

import pytest

from specviz.engine.model.files.loading import load
from specviz.methods.branch.hrad import CLASSES, pick
from specviz_train.cards.page import page
from specviz_train.hrad.train import page_facts

SHIPPED = sorted((Path(__file__).parents[3] / "assets" / "specviz_assets" / "models" / "pair").glob("hrad*"))


def test_it_is_found_for_the_embedded_pair() -> None:
    target, draft = (load(None, role, None, None).adapter for role in ("target", "draft"))
    for gamma, nearest in ((1, 4), (4, 4), (6, 7), (12, 7)):
        trained = pick(target, draft, gamma=gamma)
        assert trained is not None
        assert (trained.config.gamma_label, trained.config.n_inputs) == (nearest, 5 * 160)
    assert pick(target, target) is None


@pytest.mark.parametrize("folder", SHIPPED, ids=lambda folder: folder.name)
def test_its_card_is_its_own(folder: Path) -> None:
    """The numbers of the card are those of the weights' config; the page is the card's; nothing names a machine."""
    config = json.loads((folder / "config.json").read_text())
    numbers = json.loads((folder / "card.json").read_text())
    assert numbers["confusion"] == config["confusion"]
    assert [numbers["classes"][name] for name in CLASSES] == config["counts"]
    assert sum(map(sum, config["confusion"])) == numbers["rounds"]["held_out"]
    assert numbers["hrad"]["macro_f1"] > 1.5 * numbers["majority"]["macro_f1"]
    assert (folder / "README.md").read_text() == page("hrad", {**numbers, **page_facts(numbers)})
    assert "/" not in numbers["command"]
    assert (folder / "hrad.safetensors").stat().st_size < 1_000_000
