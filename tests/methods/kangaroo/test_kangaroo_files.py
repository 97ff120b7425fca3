"""Folders of adapters are checked against their target, found beside it, and their lack is said once."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from methods.early_exit.stage import Sink
from methods.kangaroo.kangaroo_stage import adapter_for
from specviz.engine.model.adapter import ModelAdapter
from specviz.engine.model.files.loading import load as load_model
from specviz.errors import ModelError
from specviz.events import Warn
from specviz.methods.kangaroo.adapter import AdapterConfig, AdapterShape, load, pick
from specviz.methods.kangaroo.adapter import save as save_adapter
from specviz.methods.trained.parts import fingerprint
from support.driver import session
from support.models import build, planted, save

PROMPT = [5, 77, 12, 5, 9]


def target_of(seed: int = 2, dtype: torch.dtype = torch.float32) -> ModelAdapter:
    return ModelAdapter(build("llama", seed=seed, dtype=dtype))


def folder_of(folder: Path, target: ModelAdapter, layer: int = 2) -> Path:
    folder.mkdir(exist_ok=True)
    model = adapter_for(target, layer)
    config = AdapterConfig(fingerprint(target), "zoo", target.n_layers, layer, AdapterShape.of(target))
    save_adapter(folder, config, model.adapter)
    return folder


def shape(**changes: Any) -> dict[str, Any]:
    return {"width": 32, "n_heads": 4, "eps": 1e-6, "context": 64, "rope": {"rope_type": "default"}, **changes}


def weights(folder: Path, tensors: dict[str, torch.Tensor]) -> None:
    path = folder / "adapter.safetensors"
    save_file({**load_file(path), **tensors}, path)


def edit(folder: Path, **changes: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_an_adapter_comes_back_from_its_folder(tmp_path: Path) -> None:
    target = target_of()
    read, written = load(folder_of(tmp_path, target), target), adapter_for(target, 2)
    assert read.layer == 2
    for mine, theirs in zip(read.adapter.parameters(), written.adapter.parameters(), strict=True):
        assert torch.equal(mine, theirs.to(torch.bfloat16).float())
    assert str(tmp_path) not in (tmp_path / "config.json").read_text()


def test_adapters_beside_their_target_are_found(tmp_path: Path) -> None:
    folder = Path(save(planted(1, layers=3)[0], tmp_path / "target"))
    target = load_model(str(folder), "target", None, "float64").adapter
    assert pick(target, None) is None
    folder_of(folder / "kangaroo", target, 1)
    trained = pick(target, None)
    assert trained is not None
    assert trained.layer == 1
    assert trained.adapter.norm.weight.dtype == torch.float64
    assert pick(target, "lens") is None
    other = load_model(save(planted(2, layers=3)[0], tmp_path / "other"), "target", None, "float64").adapter
    assert pick(other, None) is None


@pytest.mark.parametrize(
    ("break_it", "says"),
    [
        (
            lambda f: (f / "adapter.safetensors").rename(f / "adapter.pt"),
            "pickled.*never opened.*specviz models convert ",
        ),
        (lambda f: (f / "adapter.safetensors").unlink(), "no .safetensors file"),
        (lambda f: (f / "adapter.safetensors").write_bytes(b"torn"), "cannot be read"),
        (lambda f: (f / "config.json").unlink(), "no config.json"),
        (lambda f: (f / "config.json").write_text("{"), "not JSON"),
        (lambda f: edit(f, format="specviz-exit-heads"), "no weights of an adapter"),
        (lambda f: edit(f, version=9), "version 9"),
        (lambda f: (f / "config.json").write_text("[" * 100_000), "not JSON"),
        (lambda f: weights(f, {"norm.weight": torch.full((32,), float("nan"))}), "'norm.weight' holds NaN"),
        (lambda f: weights(f, {"norm.weight": torch.ones(32, dtype=torch.int64)}), "of type int64"),
        (lambda f: edit(f, shape=shape(n_heads=7)), "not what config.json says"),
        (lambda f: edit(f, shape=shape(n_heads=32)), "not what config.json says"),
        (lambda f: edit(f, shape=shape(rope={"rope_type": "default", "rope_theta": -5.0})), "no finite numbers"),
        (lambda f: edit(f, target="0" * 32), r"made for zoo \(weights 00000000\).*specviz train kangaroo"),
        (lambda f: edit(f, layer=3), "layer 3.* 1 to 2"),
        (lambda f: edit(f, layer="two"), "layer"),
        (lambda f: edit(f, shape=shape(n_heads=0)), "not what config.json says"),
        (lambda f: edit(f, shape=shape(n_heads=2, rope={"rope_type": "magic"})), "not what config.json says"),
        (
            lambda f: edit(f, shape={"width": 64, "n_heads": 2, "eps": 1e-6, "context": 64, "rope": {}}),
            "not what|width",
        ),
    ],
)
def test_what_is_refused_in_one_line(tmp_path: Path, break_it: Any, says: str) -> None:
    target = target_of()
    break_it(folder_of(tmp_path, target))
    with pytest.raises(ModelError, match=says) as caught:
        pick(target, str(tmp_path))
    assert "\n" not in str(caught.value)
    assert "--adapter" in str(caught.value)


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no such folder"):
        pick(target_of(), str(tmp_path / "nowhere"))


def test_the_fallback_is_said_once(tmp_path: Path) -> None:
    def warnings(**knobs: Any) -> list[str]:
        sink = Sink("none")
        session(target_of(), None, PROMPT, method="kangaroo", sink=sink, max_new_tokens=8, **knobs).generate()
        return [fact.message for facts in sink.rounds for fact in facts if isinstance(fact, Warn)]

    (message,) = warnings()
    assert "logit lens" in message
    assert "specviz train kangaroo" in message
    assert warnings(adapter=["lens"]) == []
    folder = str(folder_of(tmp_path, target_of()))
    assert warnings(adapter=[folder]) == []
    (message,) = warnings(adapter=[folder], exit_layers=["1"])
    assert "the adapter reads layer 2" in message


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_low_precision_runs(tmp_path: Path, dtype: torch.dtype) -> None:
    target = target_of(dtype=dtype)
    folder = folder_of(tmp_path, target)
    run = session(target, None, PROMPT, method="kangaroo", adapter=[str(folder)], max_new_tokens=12)
    assert sum(len(done.draft) for done in run.rounds()) > 0
    assert len(run.new_tokens) == 12


def test_the_header_says_what_drafts(tmp_path: Path) -> None:
    target = target_of()
    knobs: dict[str, Any] = {"method": "kangaroo", "max_new_tokens": 4}
    with_one = session(target, None, PROMPT, adapter=[str(folder_of(tmp_path, target))], **knobs)
    layer = sum(parameter.numel() for parameter in target.layers[0].parameters())
    reads = (4 * 32**2 + 2 * 32 + 260 * 32) / layer
    words = with_one.drafter.parts()["adapter"]  # type: ignore[union-attr]
    assert words == f"behind layer 2, 4,160 weights; one draft reads {reads:.1f} layers' worth of weights besides"
    without = session(target, None, PROMPT, adapter=["lens"], **knobs)
    assert "own head drafts behind layer 1" in without.drafter.parts()["adapter"]  # type: ignore[union-attr]
