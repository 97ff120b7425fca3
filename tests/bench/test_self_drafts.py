"""What cannot be measured with the target as its own draft model, said in one line."""

import pytest

from specviz.cli.request import check_models
from specviz.engine.run.local import load_pair
from specviz.errors import ModelError, SpecvizError
from specviz_lab.bench.ablation import disturb
from specviz_lab.bench.peers import Peers
from specviz_lab.bench.settings import BenchSettings, contestants
from support.models import build, save


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save(build("llama", seed=1), tmp_path_factory.mktemp("target"))


def test_noise_would_fall_on_the_target(folder: str) -> None:
    """Both share weights: what makes the draft model worse would change the text."""
    pair = load_pair(folder, "self:int4", dtype="float32", threads=1)
    before = pair.target.adapter.head.weight.clone()
    with pytest.raises(SpecvizError, match="would fall on the target too"):
        disturb(pair, 0.5)
    assert bool((pair.target.adapter.head.weight == before).all())


def test_the_library_cannot_draft_with_it(folder: str) -> None:
    """Assisted generation wants a model of the library's."""
    settings = BenchSettings(arms=contestants("hf-assisted"), target=folder, draft="self:int4")
    with pytest.raises(SpecvizError, match="cannot draft with self:int4"):
        Peers(settings).model("draft")


def test_checked_before_a_process_is_started(folder: str) -> None:
    """A form that is there passes; the option refuses one that is not (`tests/cli/test_cli_model_names.py`)."""
    check_models(folder, "self:int4", needs_draft=True)
    with pytest.raises(ModelError, match="self:int4 is the target itself"):
        check_models(folder, None, needs_draft=True)
