"""`specviz models convert`: tensors come through unchanged, programs do not run, everything else is one line."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner, Result
from safetensors.torch import load_file

from specviz.cli.look.convert import command, read
from specviz.cli.models import command as models
from specviz.engine.model.adapter import ModelAdapter
from specviz.errors import ModelError, SpecvizError
from specviz.methods.early_exit.heads import load
from support.models import build


def convert(*words: Any) -> Result:
    return CliRunner().invoke(command, [str(word) for word in words])


def test_it_is_a_command_on_models() -> None:
    assert models.commands["convert"] is command


def test_a_published_tuned_lens_becomes_one_that_decodes(tmp_path: Path) -> None:
    """In the layout it is published in: `config.json`, and `params.pt` with `l.weight` and `l.bias`. Refused before."""
    adapter = ModelAdapter(build("llama", seed=2))
    noise = torch.Generator().manual_seed(4)
    weights = {f"{k}.weight": torch.randn(32, 32, generator=noise) * 0.1 for k in range(3)}
    weights |= {f"{k}.bias": torch.randn(32, generator=noise) for k in range(3)}
    torch.save(weights, tmp_path / "params.pt")
    lens = {
        "lens_type": "linear_tuned_lens",
        "base_model_name_or_path": "some/base",
        "d_model": 32,
        "num_hidden_layers": 3,
        "bias": True,
    }
    (tmp_path / "config.json").write_text(json.dumps(lens))
    with pytest.raises(ModelError, match=r"params.pt is pickled.*specviz models convert"):
        load(tmp_path, adapter)
    result = convert(tmp_path)
    assert result.exit_code == 0, result.output
    assert result.output.strip() == str(tmp_path / "params.safetensors")
    heads = load(tmp_path, adapter)
    hidden = torch.randn(2, 32, generator=noise)
    want = adapter.logits((hidden + hidden @ weights["1.weight"].T + weights["1.bias"])[None])
    assert torch.allclose(heads.logits(1, hidden), want, atol=1e-5)


def test_tensors_that_share_memory_and_wrapped_ones(tmp_path: Path) -> None:
    whole = torch.arange(12.0).reshape(3, 4)
    torch.save({"epoch": 3, "state_dict": {"a": whole, "b": whole[1:], "c": whole.T}}, tmp_path / "x.ckpt")
    assert convert(tmp_path / "x.ckpt", "--out", tmp_path / "y.safetensors").exit_code == 0
    tensors = load_file(tmp_path / "y.safetensors")
    assert torch.equal(tensors["a"], whole)
    assert torch.equal(tensors["b"], whole[1:])
    assert torch.equal(tensors["c"], whole.T)


class Runs:
    """A pickle that would make a folder when it is opened by a loader that runs it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.folder),)


@pytest.mark.parametrize("what", ["program", "list", "number", "empty", "torn", "missing"])
def test_what_is_refused_in_one_line(tmp_path: Path, what: str) -> None:
    file = tmp_path / "x.pt"
    held = {"program": Runs(tmp_path / "ran"), "list": [torch.ones(2)], "number": {"a": torch.ones(2), "b": 3}}
    if what == "torn":
        file.write_bytes(b"torn")
    elif what != "missing":
        torch.save(held.get(what, {}), file)
    with pytest.raises(ModelError) as caught:
        convert_or_raise(tmp_path)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "ran").exists()
    assert not list(tmp_path.glob("*.safetensors"))


def convert_or_raise(folder: Path) -> None:
    result = convert(folder)
    assert result.exception is not None
    raise result.exception


def test_nothing_is_written_over_unasked(tmp_path: Path) -> None:
    torch.save({"a": torch.ones(2)}, tmp_path / "x.pt")
    (tmp_path / "x.safetensors").write_text("mine")
    assert isinstance(convert(tmp_path / "x.pt").exception, SpecvizError)
    assert (tmp_path / "x.safetensors").read_text() == "mine"
    assert convert(tmp_path / "x.pt", "--force").exit_code == 0
    assert torch.equal(load_file(tmp_path / "x.safetensors")["a"], read(tmp_path / "x.pt")["a"])


@pytest.mark.parametrize(
    ("held", "says"),
    [
        ({"a": torch.eye(3).to_sparse()}, "a is sparse"),
        ({"a": torch.ones(2, device="meta")}, "a is sparse, nested, quantized, empty of data"),
        ({"a": torch.ones(2, dtype=torch.complex128)}, "of 128 bits"),
        ({1: torch.ones(2), "1": torch.zeros(2)}, "two entries have one name"),
        ({}, "it is empty"),
    ],
    ids=["sparse", "meta", "complex128", "names", "empty"],
)
def test_tensors_that_safetensors_cannot_hold(tmp_path: Path, held: Any, says: str) -> None:
    torch.save(held, tmp_path / "x.pt")
    with pytest.raises(ModelError, match=says):
        read(tmp_path / "x.pt")


def test_places_that_are_refused(tmp_path: Path) -> None:
    """Nothing but a plain file is written over, and the source never."""
    source = tmp_path / "x.pt"
    torch.save({"a": torch.ones(2)}, source)
    before = source.read_bytes()
    for out, says in (
        (tmp_path, "it is a folder"),
        (tmp_path / "no" / "y.safetensors", "there is no folder"),
        (source, "is what is read"),
        (Path(os.devnull), "no plain file"),
    ):
        result = convert(source, "--force", "--out", out)
        assert says in str(result.exception), result.output
        assert isinstance(result.exception, SpecvizError)
    assert source.read_bytes() == before
    assert convert(source).exit_code == 0
    assert "already; it needs no" in str(convert(tmp_path / "x.safetensors", "--force").exception)
    assert "no such file" in str(convert(tmp_path / "nowhere").exception)
