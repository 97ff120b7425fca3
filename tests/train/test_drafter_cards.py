"""Cards of drafters, what stands beside them, and fixed trees for drafters that bring none."""

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import save_file

from methods.medusa.test_medusa import made as medusa_made
from methods.trained.test_published import eagle_folder, medusa_folder
from specviz.engine.model.adapter import ModelAdapter
from specviz.engine.model.files.loading import load
from specviz.errors import SpecvizError
from specviz.methods.eagle3 import drafter as eagle_files
from specviz.methods.medusa import drafter as medusa_files
from specviz.methods.trained.rank_shapes import read_table
from specviz_train.cards import page as cards
from specviz_train.cards.page import page as drawn
from specviz_train.common import corpus, own_text
from specviz_train.common.console import Console
from specviz_train.common.decoding import n_texts
from specviz_train.common.own_text import OwnTextConfig
from specviz_train.train import command
from specviz_train.trees import block_drafter, card, eagle3, static_tree
from support.models import build, save
from train.small_drafter import WINDOWS

HERE = Path("here")


def numbers(**settings: Any) -> dict[str, Any]:
    """What a card of a block drafter is drawn from."""
    request = block_drafter.BlockDrafterRequest(None, HERE, HERE, 1, **settings)
    sizes = {"target_name": "t", "n_layers": 2, "width": 8, "slots": 2, "draft_vocab": 9, "vocab": 9, "taps": (1, 2)}
    row = {"text": "code", "mean_acceptance_length": 2.0, "drafting_share": 0.5}
    rows = [
        row | {"method": name, "knobs": knobs, "drafter_calls_per_round": calls, "drafting_ms_per_round": ms}
        for name, knobs, calls, ms in (
            ("specblock", {"node_budget": 60, "blocks": 2}, 2.0, 3.0),
            ("eagle3", {"node_budget": 60}, 8.0, 6.0),
        )
    ]
    return {
        "n_params": 7,
        "accuracy": [[0.5, 0.25]],
        "confusion": np.diag([4, 3, 2, 1]).tolist(),
        "recall": [1.0] * 4,
        "precision": [1.0] * 4,
        "decoding": rows[:1],
        "side_by_side": rows,
        "config": sizes,
        "command": "the command",
        "settings": request.settings,
        "training": {
            "own_tokens": 5,
            "steps": 6,
            "pairs": 8,
            "minutes": 1,
            "curve": [[3, 2.5, 0.1, 0.2], [6, 2, 0.3, 0.1]],
        },
    }


def page_of(facts: dict[str, Any]) -> str:
    return drawn("block-drafter", {**facts, **block_drafter.CARD.words(facts)})


def test_the_card_says_what_was_left_out_and_what_stands_beside_it() -> None:
    page = page_of(numbers())
    assert "for comparison" not in page
    assert "| code | `specblock`, blocks 2 | 2.00 | 2.00 | 3.0 ms | 0.50 |" in page
    assert "| code | `eagle3` | 2.00 | 8.00 | 6.0 ms | 1.00 |" in page
    left_out = page_of(numbers(shift=False, valid_prefix=False, rope_mode="repeat", rank_loss="ce"))
    assert (
        "Trained for comparison: no shift between slots; no mask behind a wrong slot; later blocks at the root's "
        "rotary positions; rank loss ce." in left_out
    )
    assert not card.beside(numbers()["side_by_side"][:1])  # one kind alone stands beside nothing


def test_the_card_ends_with_how_it_was_made(tmp_path: Path) -> None:
    facts = numbers(batch=4, accumulate=3, decay=0.7, draft_loss="top50", precision="fp32")
    block_drafter.CARD.draw(tmp_path, facts)
    page = (tmp_path / "README.md").read_text()
    assert "AdamW for the rest, peak rates 0.02, 0.0015 after 50 steps, then falling; fp32 over float32" in page
    assert "A step: 12 windows; Muon" in page
    assert "its 50 likeliest tokens, not renormalised; every place ahead weighs 0.7" in page
    picture = ET.parse(tmp_path / "curve.svg").getroot()
    assert len(picture.findall("{http://www.w3.org/2000/svg}svg")) == 2
    assert json.loads((tmp_path / "card.json").read_text()) == json.loads(json.dumps(facts))
    assert card.curve([], ("a", "b")) == ""


def test_short_trainings_are_measured_on_fewer_texts() -> None:
    counts = [n_texts(minutes, card.N_PROMPTS, card.MINUTES_A_PROMPT) for minutes in (0.05, 5, 12, 60, 600)]
    assert counts == [1, 1, 3, card.N_PROMPTS, card.N_PROMPTS]


def test_curves_outside_the_usual_range_are_drawn() -> None:
    for y in (0.0, 0.49, 7.0):
        assert "nan" not in cards.loss_plot("x", [cards.Line("a", [(1.0, y), (2.0, y)])])


def test_all_kinds_of_a_target_are_compared(tmp_path: Path) -> None:
    """The folder itself, the others beside it, nothing made for another target."""
    model = build("llama", seed=5, num_hidden_layers=5)
    adapter = ModelAdapter(model)
    medusa_files.KIND.write(tmp_path / "out", medusa_made(adapter))
    table = card.side_by_side(adapter, tmp_path / "out")
    assert [arm.method for arm in table] == ["medusa"]
    eagle_files.KIND.write(
        tmp_path / "eagle3",
        eagle3._begin(
            eagle3.Eagle3Request(None, HERE, HERE, 1),
            ModelAdapter(build("llama", seed=6, num_hidden_layers=5)),
            WINDOWS,
        ),
    )
    assert len(card.side_by_side(adapter, tmp_path / "out")) == 1
    eagle_files.KIND.write(
        tmp_path / "eagle3", eagle3._begin(eagle3.Eagle3Request(None, HERE, HERE, 1), adapter, WINDOWS)
    )
    table = card.side_by_side(adapter, tmp_path / "out")
    assert [(arm.method, arm.knobs["node_budget"]) for arm in table] == [("eagle3", 60), ("medusa", 60)]
    rows = [*card.compared(adapter, table, {"code": [[5, 6, 7], [8, 9, 10]]}, 6)]
    assert [row["method"] for row in rows] == ["eagle3", "medusa"]
    assert all(row["mean_acceptance_length"] * row["rounds"] == pytest.approx(12, abs=0.1) for row in rows)


@pytest.fixture
def little_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """A corpus of a few pages, short windows."""
    texts = [" ".join(f"word{n * k % 97}" for n in range(400)) for k in range(1, 9)]
    documents = [
        corpus.Document("code", "stdlib", f"{'f' if k % 2 else '00'}{corpus.key_of(text)}", text)
        for k, text in enumerate(texts)
    ]
    monkeypatch.setattr(corpus, "gather", lambda wanted: documents)
    monkeypatch.setattr(own_text, "TREES", OwnTextConfig(6, 8, 40))


@pytest.mark.parametrize("published", [False, True])
def test_medusa_heads_get_a_counted_tree(published: bool, little_text: None, tmp_path: Path) -> None:
    """Published heads come with none: a table beside their weights; ours carry theirs in their config."""
    where = save(build("llama", seed=1), tmp_path / "target")
    adapter = load(where, "target", None, None).adapter
    folder = tmp_path / "heads"
    if published:
        medusa_folder(adapter, folder)
    else:
        medusa_files.KIND.write(folder, medusa_made(adapter))
    before = medusa_files.KIND.read(folder, adapter).config
    assert before.counted is not published
    done = CliRunner().invoke(command, ["static-tree", "--target", where, "--drafter", str(folder), "--windows", "8"])
    assert done.exit_code == 0, done.output
    after = medusa_files.KIND.read(folder, adapter).config
    assert after.counted
    assert after.right != before.right
    assert [len(row) for row in after.right] == [10] * 4
    assert (folder / "static_tree.json").exists() is published


def test_a_published_eagle_drafter_gets_a_counted_tree(little_text: None, tmp_path: Path) -> None:
    where = save(build("llama", seed=1), tmp_path / "target")
    folder = eagle_folder(load(where, "target", None, None).adapter, tmp_path / "eagle")
    request = static_tree.StaticTreeRequest(where, str(folder), windows=8)
    _, tree = static_tree.train_static_tree(request, Console())
    assert read_table(folder) == tree["right"]
    save_file({"other": torch.zeros(1)}, folder / "model.safetensors")  # other weights: the table is not theirs
    with pytest.raises(SpecvizError, match="counted with other weights"):
        read_table(folder)
