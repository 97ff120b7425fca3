"""Draft models that are some of their target's layers, corrected: what they say, the target's text, what is refused."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from engine.test_layouts import LAYOUTS
from specviz.engine.model.adapter import ModelAdapter
from specviz.engine.model.drafts import shared_ends
from specviz.engine.model.drafts.corrected import CorrectedLinear, Correction, joined, shortened
from specviz.engine.model.few_bits.quantised import QuantisedAdapter
from specviz.engine.model.files.loading import fingerprint, load
from specviz.engine.model.layers.direct_layer import DirectLayer
from specviz.engine.model.pair import Pair, load_pair
from specviz.errors import ModelError
from specviz_lab.bench.peers import Peers
from specviz_lab.bench.settings import BenchSettings
from specviz_train.common.files import save_corrections
from support.driver import session
from support.models import build, save

PROMPT = [5, 77, 12, 5, 77, 12, 200, 31, 5]
LAYERS = (0, 2)


@pytest.fixture(scope="module", params=[False, True], ids=["two matrices", "one matrix"])
def folder(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """A target of four layers, and corrections of two of them."""
    folder = tmp_path_factory.mktemp("corrected")
    save(build("llama", seed=1, num_hidden_layers=4, tie_word_embeddings=request.param), folder / "target")
    target = load(str(folder / "target"), "target", None, "float32").adapter
    model = shortened("--draft draft", target.model, LAYERS)
    rng, tensors = torch.Generator().manual_seed(4), {}
    for place in range(2):
        for name in ("self_attn.q_proj", "mlp.down_proj"):
            n_out, n_in = model.model.layers[place].get_submodule(name).weight.shape
            tensors[f"model.layers.{place}.{name}.down"] = torch.randn(3, n_in, generator=rng).bfloat16() / 8
            tensors[f"model.layers.{place}.{name}.up"] = torch.randn(n_out, 3, generator=rng).bfloat16() / 8
    ends = shared_ends.Ends(fingerprint(target), "target", LAYERS)
    save_corrections(model, tensors, folder / "draft", {shared_ends.FILE: shared_ends.facts(ends)})
    return folder


def loaded(folder: Path, dtype: str = "float64") -> Pair:
    return load_pair(str(folder / "target"), str(folder / "draft"), dtype=dtype, threads=1)


def test_it_says_what_the_corrected_layers_say(folder: Path) -> None:
    pair = loaded(folder)
    assert pair.draft is not None
    whole = build("llama", seed=1, num_hidden_layers=4).double()
    whole.load_state_dict(pair.target.adapter.model.state_dict())
    whole.model.layers = torch.nn.ModuleList([whole.model.layers[k] for k in LAYERS])
    ids = torch.arange(12)[None]
    with torch.inference_mode():
        uncorrected = whole(ids, use_cache=False).logits
        stored = load_file(folder / "draft" / "model.safetensors")
        for place in range(2):
            for name in ("self_attn.q_proj", "mlp.down_proj"):
                down, up = (stored[f"model.layers.{place}.{name}.{side}"].double() for side in ("down", "up"))
                whole.model.layers[place].get_submodule(name).weight += up @ down
        want, got = whole(ids, use_cache=False).logits, pair.draft.adapter.model(ids, use_cache=False).logits
    assert torch.allclose(got, want, atol=1e-9)
    assert (uncorrected - want).abs().max() > 1e-2


def test_the_target_stays_as_it_is_and_its_weights_are_shared(folder: Path) -> None:
    alone = load(str(folder / "target"), "target", None, "float64").adapter.model.state_dict()
    pair = loaded(folder)
    beside = pair.target.adapter.model.state_dict()
    assert all(alone[name].equal(beside[name]) for name in alone)
    assert pair.draft is not None
    theirs = {weight.data_ptr() for weight in pair.target.adapter.model.parameters()}
    own = [name for name, weight in pair.draft.adapter.model.named_parameters() if weight.data_ptr() not in theirs]
    assert {name.rpartition(".")[2] for name in own} == {"down", "up"}


def test_a_packed_layer_is_corrected_by_all_that_its_correction_says(folder: Path) -> None:
    """A correction a hundred times as large: what four bits lose of the weights is nothing beside it."""
    pair = loaded(folder, "bfloat16").draft
    assert pair is not None
    linear = pair.adapter.model.model.layers[1].mlp.down_proj
    assert isinstance(linear, CorrectedLinear)
    with torch.no_grad():
        linear.correction.up *= 100
    direct = QuantisedAdapter(ModelAdapter(pair.adapter.model)).layers[1]
    assert isinstance(direct, DirectLayer)
    rows = torch.randn(5, linear.in_features, generator=torch.Generator().manual_seed(1)).bfloat16()
    want = linear(rows).detach()
    assert (direct.down(rows) - want).float().norm() < 0.02 * want.float().norm()


def test_corrections_of_several_products_stand_side_by_side() -> None:
    rng = torch.Generator().manual_seed(3)
    first, last = (
        Correction(torch.randn(rank, 6, generator=rng), torch.randn(size, rank, generator=rng))
        for rank, size in ((2, 4), (3, 5))
    )
    rows = torch.randn(7, 6, generator=rng)
    side_by_side = joined([first, None, last], [4, 2, 5])
    assert side_by_side is not None
    want = torch.cat([first(rows), torch.zeros(7, 2), last(rows)], 1)
    assert torch.allclose(side_by_side(rows), want, atol=1e-5)
    assert joined([None, None], [4, 2]) is None


@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
@pytest.mark.parametrize("layout", ["chain", "tree"])
def test_the_text_is_that_of_plain_decoding(folder: Path, layout: str, dtype: str) -> None:
    """In bfloat16 the target's own text depends on how many rows it takes at once, so only its draft is packed."""
    drafting, exact = loaded(folder, dtype).draft, loaded(folder).target.adapter
    assert drafting is not None
    for temperature in (0.0, 1.1):
        knobs: dict[str, Any] = {"temperature": temperature, "seed": 3, "max_new_tokens": 20}
        want = session(exact, drafting.adapter, PROMPT, method="ar", **knobs).generate()
        assert session(exact, drafting.adapter, PROMPT, **knobs, **LAYOUTS[layout]).generate() == want


def test_layers_and_head_are_read_in_four_bits_in_bfloat16_on_a_cpu_and_as_they_are_elsewhere(folder: Path) -> None:
    half, full = loaded(folder, "bfloat16"), loaded(folder, "float32")
    assert half.draft is not None
    assert full.draft is not None
    assert isinstance(half.draft.adapter, QuantisedAdapter)
    assert half.draft.adapter.name == half.draft.info.name == full.draft.adapter.name
    assert (half.draft.info.dtype, full.draft.info.dtype) == ("int4", "float32")
    assert not isinstance(full.draft.adapter, QuantisedAdapter)
    assert full.draft.adapter.n_layers == len(LAYERS)


def test_the_librarys_own_loop_drafts_with_it_too(folder: Path) -> None:
    settings = BenchSettings((), target=str(folder / "target"), draft=str(folder / "draft"), dtype="float32")
    assert len(Peers(settings).model("draft").model.layers) == len(LAYERS)


def test_beside_another_target_and_alone_it_is_refused(folder: Path, tmp_path: Path) -> None:
    other = save(build("llama", seed=2, num_hidden_layers=4), tmp_path / "other")
    with pytest.raises(ModelError, match="was made for target and speaks through its embedding"):
        load_pair(other, str(folder / "draft"))
    with pytest.raises(ModelError, match="no model by itself"):
        load(str(folder / "draft"), "draft", None, "float32")


Change = Callable[[dict[str, torch.Tensor], dict[str, Any]], None]
UP = "model.layers.0.self_attn.q_proj.up"


def _renamed(tensors: dict[str, torch.Tensor], facts: dict[str, Any]) -> None:
    tensors["model.layers.9.self_attn.q_proj.up"] = tensors.pop(UP)


def _widened(tensors: dict[str, torch.Tensor], facts: dict[str, Any]) -> None:
    tensors[UP] = torch.zeros(31, 3)


def _endless(tensors: dict[str, torch.Tensor], facts: dict[str, Any]) -> None:
    tensors[UP] = torch.full_like(tensors[UP], float("inf"))


def _beyond(tensors: dict[str, torch.Tensor], facts: dict[str, Any]) -> None:
    facts["layers"] = [0, 7]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_renamed, "the correction of 'model.layers.0.self_attn.q_proj' does not fit its target"),
        (
            _widened,
            r"the correction of 'model.layers.0.self_attn.q_proj' has shapes \(\(31, 3\), \(3, 32\)\); the weight",
        ),
        (_endless, "the correction of 'model.layers.0.self_attn.q_proj' holds NaN or infinite numbers"),
        (_beyond, r"it is made of layers \[0, 7\] of its target, which has no such layers"),
    ],
)
def test_corrections_that_do_not_fit_are_refused_in_a_line(
    folder: Path, tmp_path: Path, change: Change, message: str
) -> None:
    shutil.copytree(folder / "draft", tmp_path / "draft")
    weights, path = tmp_path / "draft/model.safetensors", tmp_path / "draft" / shared_ends.FILE
    tensors, facts = load_file(weights), json.loads(path.read_text("utf-8"))
    change(tensors, facts)
    save_file(tensors, weights)
    path.write_text(json.dumps(facts), encoding="utf-8")
    with pytest.raises(ModelError, match=message) as error:
        load_pair(str(folder / "target"), str(tmp_path / "draft"))
    assert "\n" not in str(error.value)


def test_a_target_laid_out_otherwise_is_refused() -> None:
    with pytest.raises(ModelError, match="which has no such layers"):
        shortened("--draft draft", build("gpt2", seed=2), (0,))
