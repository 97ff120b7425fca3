"""What is found on a machine: our store, the hub's cache, LM Studio's and Ollama's folders, and which go together."""

import json
from pathlib import Path

import pytest
import torch

from specviz.cli import BAD_INPUT, main
from specviz.local_models import store
from specviz.local_models.found import has_template, local_models, local_path, pairs
from specviz.local_models.gguf_header import read_header
from support.gguf_files import write_gguf
from support.models import build, tokenizer


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with nothing on it."""
    for name in ("HF_HOME", "HF_HUB_CACHE", "OLLAMA_MODELS", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv(store.VARIABLE, str(tmp_path / "store"))
    return tmp_path


def _stored(home: Path, name: str, layers: int = 3) -> Path:
    folder = home / "store" / name
    build("llama", num_hidden_layers=layers).to(torch.bfloat16).save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return folder


def _ollama(home: Path, name: str, tag: str, layers: int = 3) -> Path:
    root = home / ".ollama" / "models"
    manifest = root / "manifests" / "registry.ollama.ai" / "library" / name / tag
    manifest.parent.mkdir(parents=True)
    (root / "blobs").mkdir(exist_ok=True)
    layer = {"mediaType": "application/vnd.ollama.image.model", "digest": "sha256:abc123"}
    manifest.write_text(json.dumps({"layers": [{"mediaType": "text", "digest": "sha256:none"}, layer]}))
    return write_gguf(root / "blobs" / "sha256-abc123", build("llama", num_hidden_layers=layers))


def test_a_bare_machine_has_no_models_and_says_how_to_get_one(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert local_models() == []
    assert main(["models", "list"]) == 0
    assert "specviz models get smollm2" in capsys.readouterr().out


def test_models_of_every_place_have_a_name_that_leads_to_them(home: Path) -> None:
    _stored(home, "ours")
    blob = _ollama(home, "llama3.2", "1b")
    studio = home / ".lmstudio" / "models" / "some" / "repo" / "tiny.gguf"
    studio.parent.mkdir(parents=True)
    write_gguf(studio, build("llama"), template="")
    snapshot = home / ".cache/huggingface/hub/models--owner--name/snapshots/r1"
    build("llama").save_pretrained(snapshot)
    tokenizer().save_pretrained(snapshot)
    by_name = {model.name: model for model in local_models()}
    assert list(by_name) == ["ours", "owner/name", "lmstudio:some/repo/tiny", "ollama:llama3.2:1b"]
    assert local_path("ollama:llama3.2:1b") == blob
    assert local_path("lmstudio:some/repo/tiny") == studio
    assert local_path("ours") == home / "store" / "ours"
    assert {name: model.chat for name, model in by_name.items()} == {
        "ours": False,
        "owner/name": False,
        "lmstudio:some/repo/tiny": False,
        "ollama:llama3.2:1b": True,
    }


def test_pairs_are_those_that_number_the_same_tokens(home: Path) -> None:
    _stored(home, "small", layers=1)
    _stored(home, "large", layers=6)
    _ollama(home, "other", "1b", layers=1)  # a file in float32 with another last token
    models = local_models()
    assert [(target.name, draft.name) for target, draft in pairs(models)] == [("large", "small")]
    by_name = {model.name: model for model in models}
    assert by_name["small"].vocabulary != by_name["ollama:other:1b"].vocabulary


def test_a_file_and_a_folder_of_one_vocabulary_are_told_alike(home: Path, tmp_path: Path) -> None:
    from specviz.engine.model.files import gguf_model
    from specviz.local_models.vocabulary import vocabulary_of

    path = write_gguf(tmp_path / "tiny.gguf", build("llama"))
    gguf_model.read_tokenizer(path).save_pretrained(tmp_path / "folder")
    header = read_header(path)
    assert vocabulary_of(tmp_path / "folder") == (header.tokens, header.vocabulary)


def test_what_cannot_be_used_is_listed_with_the_reason(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    blob = _ollama(home, "broken", "latest")
    blob.write_bytes(blob.read_bytes()[:500])
    pickled = home / "store" / "pickled"
    _stored(home, "pickled")
    (pickled / "model.safetensors").rename(pickled / "model.bin")
    assert main(["models", "list"]) == 0
    out = capsys.readouterr().out
    assert "ollama:broken:latest  cannot be used: sha256-abc123 is no GGUF file, or is cut short" in out
    assert "cannot be used: no .safetensors file in it" in out


@pytest.mark.parametrize(
    "text", ["[]", '{"layers": 3}', '{"layers": [{"mediaType": "x"}]}', "no json", '{"layers": [1]}']
)
def test_a_manifest_of_another_shape_names_nothing(text: str, home: Path) -> None:
    _ollama(home, "odd", "1b")
    next((home / ".ollama").rglob("1b")).write_text(text)
    assert local_models() == []


def test_a_manifest_cannot_name_a_file_elsewhere(home: Path) -> None:
    _ollama(home, "odd", "1b")
    manifest = next((home / ".ollama").rglob("1b"))
    manifest.write_text(manifest.read_text().replace("abc123", "/../../../secret"))
    assert local_models() == []


def test_removing_frees_the_folder_and_refuses_what_is_not_ours(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = _stored(home, "tiny")
    assert main(["models", "remove", "tinny"]) == BAD_INPUT
    assert "did you mean 'tiny'?" in capsys.readouterr().err
    assert main(["models", "remove", "../store/tiny"]) == BAD_INPUT
    assert folder.is_dir()
    assert main(["models", "remove", "tiny"]) == 0
    assert not folder.exists()
    assert main(["models", "remove", "tiny"]) == BAD_INPUT
    assert "none is stored" in capsys.readouterr().err


def test_a_template_is_seen_without_running_it(home: Path) -> None:
    folder = _stored(home, "tiny")
    assert not has_template(folder)
    (folder / "chat_template.jinja").write_text("{{ 1 / 0 }}")
    assert has_template(folder)


def test_the_list_for_programs_names_models_and_pairs(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _stored(home, "small", layers=1)
    _stored(home, "large", layers=6)
    assert main(["models", "list", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["pairs"] == [{"target": "large", "draft": "small"}]
    assert [model["name"] for model in report["models"]] == ["large", "small"]
    assert {"smollm2"} <= {model["name"] for model in report["known"]}
