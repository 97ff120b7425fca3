"""Names that are no folder here: one question to the hub, its cache, and the nearest local name, each in one line.

No test asks a real hub: the one place that does is acted, and every other way to the network fails a test.
"""

import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from specviz.engine.model.files import hub
from specviz.engine.model.files.loading import load
from specviz.errors import ModelError
from support.models import build, save

NAME = "pair/targt"


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that loads."""
    folder = tmp_path_factory.mktemp("models") / "good"
    save(build("llama"), folder)
    return folder


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of the hub, in an empty current folder."""
    folder = tmp_path / "hub"
    folder.mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(folder))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    return folder


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The addresses of models that were asked for. Nobody answers."""
    addresses: list[str] = []

    class Session:
        """As without a connection."""

        def __getattr__(self, _: str) -> Callable[..., None]:
            def ask(*words: str, **_: object) -> None:
                if "/models/" in words[-1]:  # the library's own question about who is calling is not ours
                    addresses.append(words[-1])
                raise OSError("Name or service not known")

            return ask

    monkeypatch.setattr("huggingface_hub.get_session", Session)
    monkeypatch.setattr("huggingface_hub.utils._http.get_session", Session)
    return addresses


def refused(name: str) -> str:
    """The one line."""
    with pytest.raises(ModelError) as caught:
        load(name, "target", "cpu", "float32")
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_without_a_connection_the_hub_is_asked_once(cache: Path, network: list[str], good: Path) -> None:
    """Not five times for each of several files, with waits between."""
    refusal = refused(NAME)
    assert refusal.startswith(
        f"--target {NAME}: no such folder here, not in the hub's cache, and the hub does not answer"
    )
    assert len(network) == 1
    assert network[0].endswith(f"/api/models/{NAME}")
    assert "the embedded pair/target is used when no model is named" in refusal
    shutil.copytree(good, "pair/target")
    assert refused(NAME).endswith("; did you mean 'pair/target'?")


def test_offline_nobody_is_asked(cache: Path, network: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert "not in the hub's cache, and HF_HUB_OFFLINE is set" in refused("owner/name")
    assert not network


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_model_that_the_hub_has_not(status: int, cache: Path, monkeypatch: pytest.MonkeyPatch, good: Path) -> None:
    """And which folder may have been meant."""
    monkeypatch.setattr(hub, "answer", lambda _name: status)
    assert "the hub has no such model, or keeps it from you" in refused("owner/name")
    shutil.copytree(good, "models/good")
    assert refused("models/godo").endswith("; did you mean 'models/good'?")
    assert refused("model/good").endswith("; did you mean 'models/good'?")


@pytest.mark.parametrize("offline", [False, True])
def test_what_lies_in_the_cache_is_used_without_an_answer(
    offline: bool, cache: Path, network: list[str], monkeypatch: pytest.MonkeyPatch, good: Path
) -> None:
    """Under the name that was asked for, and without another question."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", offline)
    folder = cache / "models--owner--name"
    shutil.copytree(good, folder / "snapshots" / "0123abcd")
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text("0123abcd")
    assert load("owner/name", "target", "cpu", "float32").info.name == "owner/name"
    assert len(network) == (0 if offline else 1)


def test_a_hub_that_keeps_silent_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is on the whole, the look-up of its name included, which no timeout of a request covers."""
    silent, over = threading.Event(), threading.Event()

    class Session:
        """Says nothing until the test is over."""

        def get(self, *_: object, **__: object) -> None:
            silent.wait(60)
            over.set()

    monkeypatch.setattr("huggingface_hub.get_session", Session)
    monkeypatch.setattr(hub, "PATIENCE_S", 0.05)
    assert hub.answer("owner/name") is None
    assert not over.is_set()
    silent.set()


@pytest.mark.parametrize("name", ["no spaces/here", "a..b", "x/y--z", "-dash"])
def test_what_can_be_no_hub_id(name: str, cache: Path, network: list[str]) -> None:
    assert "neither a folder nor a hub id of the form owner/name" in refused(name)
    assert not network
