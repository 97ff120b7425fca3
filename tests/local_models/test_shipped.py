"""Parts and draft models that an installed package brings for a known model are found for it, from whatever source."""

import importlib
import json
from dataclasses import replace
from pathlib import Path

import pytest

from specviz.engine.model.files.kinship import made_for
from specviz.engine.model.files.loading import fingerprint
from specviz.engine.model.pair import Pair, load_pair
from specviz.errors import ModelError
from specviz.local_models import catalogue, store
from specviz.local_models.shipped import known_name, usual_draft
from specviz.local_models.store import Origin
from specviz.methods import get_method
from specviz.methods.common.missing import missing
from support.models import build, save

ELSEWHERE = "another rounding of the same model"


@pytest.fixture
def target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pair:
    """A stored model of the catalogue whose weights are not those that its parts were made for."""
    monkeypatch.setenv(store.VARIABLE, str(tmp_path / "store"))
    folder = Path(save(build("llama"), tmp_path / "store" / "tiny"))
    Origin("tiny", "hub nobody/tiny", "", "Apache-2.0", "2026-01-01").write(folder)
    parts = catalogue.PartsPackage("specviz-llm-tiny", "specviz_tiny", ("draft", "eagle3"))
    known = replace(catalogue.SMOLLM2, name="tiny", hub="nobody/tiny", weights=(ELSEWHERE,), parts=parts)
    known = replace(known, draft="tiny-draft")
    monkeypatch.setitem(catalogue.KNOWN, "tiny", known)
    monkeypatch.syspath_prepend(tmp_path / "packages")
    return load_pair("tiny", needs_draft=False, dtype="float32", threads=1)


def _installed(tmp_path: Path) -> Path:
    """The package of parts for the target, as pip would put it there."""
    folder = tmp_path / "packages" / "specviz_tiny"
    folder.mkdir(parents=True)
    importlib.invalidate_caches()
    return folder


def _part(tmp_path: Path, weights: str) -> None:
    folder = _installed(tmp_path) / "eagle3"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"target": weights}))


def test_a_part_made_for_one_source_is_found_for_all(target: Pair, tmp_path: Path) -> None:
    method = get_method("eagle3")
    lacks = missing(method, target)
    assert lacks is not None
    assert lacks.command == "pip install specviz-llm-tiny", "what others trained comes before one's own training"
    _part(tmp_path, ELSEWHERE)
    assert missing(method, target) is None
    lacks = missing(get_method("medusa"), target)
    assert lacks is not None
    assert lacks.command == "specviz train medusa --target tiny", "a stored model is called by its name"


def test_a_part_of_another_model_is_not_found(target: Pair, tmp_path: Path) -> None:
    _part(tmp_path, "weights of nobody")
    assert missing(get_method("eagle3"), target) is not None
    assert made_for(fingerprint(target.target.adapter), target.target.adapter)


def test_the_same_weights_in_a_folder_of_no_origin_are_another_model(target: Pair, tmp_path: Path) -> None:
    other = load_pair(save(build("llama"), tmp_path / "other"), needs_draft=False, dtype="float32", threads=1)
    assert not made_for(ELSEWHERE, other.target.adapter)
    assert made_for(ELSEWHERE, target.target.adapter)


def test_a_draft_model_that_comes_along_has_a_name_and_may_be_the_usual_one(target: Pair, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"tiny-draft.*pip install specviz-llm-tiny brings it"):
        load_pair("tiny", dtype="float32", threads=1)
    save(build("llama", num_hidden_layers=1), _installed(tmp_path) / "draft")
    assert usual_draft("tiny") == "tiny-draft"
    assert usual_draft(None) is None
    assert usual_draft(str(tmp_path)) is None
    pair = load_pair("tiny", dtype="float32", threads=1)
    assert pair.draft is not None
    assert pair.draft.info.n_layers == 1


def test_a_known_model_is_told_by_name_folder_and_hub(target: Pair, tmp_path: Path) -> None:
    cached = "/cache/hub/models--nobody--tiny/snapshots/abc"
    for name in ("tiny", str(tmp_path / "store" / "tiny"), "nobody/tiny", cached):
        assert known_name(name) == "tiny"
    assert known_name(str(tmp_path)) is None
