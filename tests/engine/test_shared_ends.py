"""Draft models that take embedding and head from their target: what is stored, what is said, the target's text."""

import json
import shutil
from pathlib import Path

import pytest
import torch

from engine.test_layouts import LAYOUTS
from specviz.engine.model import pair
from specviz.engine.model.drafts import shared_ends
from specviz.engine.model.few_bits.sharp_head import RescoredInt4Head
from specviz.engine.model.files.loading import fingerprint, load
from specviz.engine.model.pair import Pair, load_pair
from specviz.errors import ModelError
from specviz_lab.bench.peers import Peers
from specviz_lab.bench.settings import BenchSettings
from specviz_train.common.files import save_model
from specviz_train.draft_model import narrow
from support.driver import session
from support.models import build, save

PROMPT = [5, 77, 12, 5, 77, 12, 200, 31, 5]


@pytest.fixture(scope="module", params=[False, True], ids=["two matrices", "one matrix"])
def folder(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """A target of four layers, and a draft model of two of them."""
    folder = tmp_path_factory.mktemp("ends")
    save(build("llama", seed=1, num_hidden_layers=4, tie_word_embeddings=request.param), folder / "target")
    target = load(str(folder / "target"), "target", None, "float32").adapter
    config = narrow.config_of(target.model, 2, 32)
    model = narrow.narrowed(target.model, config, (0, 2), torch.eye(32).double(), seed=0)
    model.generation_config = target.model.generation_config
    ends = shared_ends.Ends(fingerprint(target), "target")
    facts = {shared_ends.FILE: shared_ends.facts(ends)}
    save_model(model, None, folder / "draft", facts, shared_ends.own_weights)
    return folder


def loaded(folder: Path, dtype: str = "float64") -> Pair:
    return load_pair(str(folder / "target"), str(folder / "draft"), dtype=dtype, threads=1)


def test_it_drafts_what_its_layers_say_between_the_ends_of_the_target(folder: Path) -> None:
    models = loaded(folder, "float32")
    assert models.draft is not None
    whole = build("llama", seed=1, num_hidden_layers=4)
    whole.load_state_dict(models.target.adapter.model.state_dict())
    whole.model.layers = torch.nn.ModuleList([whole.model.layers[0], whole.model.layers[2]])
    ids = torch.arange(12)[None]
    with torch.inference_mode():
        apart = whole(ids, use_cache=False).logits - models.draft.adapter.model(ids, use_cache=False).logits
    assert apart.abs().max() < 0.1  # its layers were rounded to bfloat16


@pytest.mark.parametrize("layout", ["chain", "tree"])
def test_the_text_is_that_of_plain_decoding(folder: Path, layout: str) -> None:
    both = loaded(folder)
    assert both.draft is not None
    models = (both.target.adapter, both.draft.adapter)
    for temperature in (0.0, 1.1):
        knobs = {"temperature": temperature, "seed": 3, "max_new_tokens": 20}
        want = session(*models, PROMPT, method="ar", **knobs).generate()
        assert session(*models, PROMPT, **knobs, **LAYOUTS[layout]).generate() == want


def test_its_head_is_read_in_four_bits_in_bfloat16_on_a_cpu_and_as_it_is_elsewhere(folder: Path) -> None:
    half, full = loaded(folder, "bfloat16"), loaded(folder, "float32")
    assert half.draft is not None
    assert full.draft is not None
    assert isinstance(half.draft.adapter.head, RescoredInt4Head)
    assert not isinstance(half.target.adapter.head, RescoredInt4Head)
    assert full.draft.adapter.head is full.target.adapter.head


def test_the_librarys_own_loop_drafts_with_it_too(folder: Path) -> None:
    settings = BenchSettings((), target=str(folder / "target"), draft=str(folder / "draft"), dtype="float32")
    peers = Peers(settings)
    assert peers.model("draft").get_input_embeddings() is peers.model("target").get_input_embeddings()


def test_alone_it_is_refused(folder: Path) -> None:
    for role in ("target", "draft"):
        with pytest.raises(ModelError, match="no model by itself; give it as --draft beside target"):
            load(str(folder / "draft"), role, None, "float32")


def test_beside_another_target_it_is_refused(folder: Path, tmp_path: Path) -> None:
    other = save(build("llama", seed=2), tmp_path / "other")
    with pytest.raises(ModelError, match="was made for target and speaks through its embedding"):
        load_pair(other, str(folder / "draft"))


def test_ends_of_another_shape_are_refused(folder: Path, tmp_path: Path) -> None:
    other = save(build("llama", seed=2, hidden_size=16, intermediate_size=24), tmp_path / "other")
    shutil.copytree(folder / "draft", tmp_path / "draft")
    ends = shared_ends.Ends(fingerprint(load(other, "target", None, "float32").adapter), "other")
    (tmp_path / "draft" / shared_ends.FILE).write_text(json.dumps(shared_ends.facts(ends)))
    with pytest.raises(ModelError, match=r"takes the embedding of its target, \[260, 32\]; this target's is"):
        load_pair(other, str(tmp_path / "draft"))


def test_a_device_of_its_own_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pair, "pick_device", torch.device)
    with pytest.raises(ModelError, match="shares weights with the target: leave out --draft-device"):
        load_pair(str(folder / "target"), str(folder / "draft"), device="cpu", draft_device="meta")


@pytest.mark.parametrize("text", ["", "[]", '{"ends": "target"}', '{"target": 1, "target_name": "a", "ends": "own"}'])
def test_a_file_that_says_nothing_leaves_a_model_as_it_is(text: str, tmp_path: Path) -> None:
    (tmp_path / shared_ends.FILE).write_text(text)
    assert shared_ends.ends_of(tmp_path) is None
