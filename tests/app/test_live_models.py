"""The live stage before and between models: what is offered, what a choice leaves alone, what a switch keeps."""

from collections.abc import Callable
from pathlib import Path

import pytest

from app import onstage
from app.conftest import Open
from app.fakes import fake_settings, until
from specviz.commands import Start
from specviz.local_models.catalogue import KNOWN
from specviz.local_models.choices import NO_DRAFT
from specviz.local_models.found import LocalModel
from specviz.sources import Worker
from specviz.sources.model_names import ModelNames
from specviz_app.screens import live_models
from specviz_app.server.core import ServedRun
from specviz_app.server.server import current
from specviz_app.ui.library import LIVE, choices, opened


def _found(*models: LocalModel) -> Callable[[], list[LocalModel]]:
    return lambda: list(models)


def _model(name: str, size: int = 270_000_000) -> LocalModel:
    return LocalModel(name, "store", Path("/nowhere") / name, "llama", size, 9, "v", True)


def _plain(at: object) -> str:
    texts = [line.value for kind in ("warning", "error", "caption") for line in getattr(at, kind)]
    return " ".join(texts).replace("\\", "")


def test_what_is_here_is_offered_first_and_choosing_loads_nothing(
    open_page: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_models, "local_models", _found(_model("mine"), _model("small", 9_000_000)))
    at = open_page(fake_settings(), "live")
    core = current().core
    assert not at.exception
    assert at.selectbox(key="target").value == "mine"
    assert "embedded pair" in at.selectbox(key="target").options
    assert at.selectbox(key="draft of mine").options[0] == "small"
    manner = onstage.handed(at)["manner"]
    assert (manner["talks"], manner["able"], manner["placeholder"]) == (True, True, "Message to mine")
    at.selectbox(key="target").select("").run()
    assert not at.exception
    assert not onstage.handed(at)["manner"]["talks"], "the pair that comes along goes on with texts"
    assert not core.has_core
    at.button(key="load").click().run()
    assert core.models == ModelNames()
    assert core.loaded


def test_a_known_model_that_is_not_here_comes_with_the_command_that_gets_it(open_page: Open) -> None:
    at = open_page(fake_settings(), "live")
    name = next(iter(KNOWN))
    assert at.selectbox(key="target").value == ""
    at.selectbox(key="target").select(name).run()
    assert not at.exception
    assert "is not here yet" in _plain(at)
    assert at.code[0].value == f"specviz models get {name}"
    assert at.button(key="load").disabled
    assert not onstage.handed(at)["manner"]["able"]


def test_a_folder_that_was_named_goes_to_the_core_as_it_is(open_page: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    at = open_page(fake_settings(argv=("--target", "models/x", "--dtype", "float32"), live=True), "live")
    words: list[list[str]] = []
    make = Worker.__init__

    def noted(self: Worker, argv: list[str], *rest: object, **more: object) -> None:
        words.append(list(argv))
        make(self, argv, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(Worker, "__init__", noted)
    assert at.selectbox(key="target").value == "models/x"
    at.selectbox(key="draft of models/x").select(NO_DRAFT).run()
    at.button(key="load").click().run()
    assert not at.exception
    assert words == [["--dtype", "float32", "--target", "models/x", "--no-draft"]]


def test_another_model_is_another_core_and_the_run_before_can_be_opened(core: ServedRun) -> None:
    core.start(Start(prompt="x", paused=True))
    until(lambda: core.has_run, "no run")
    before = core.source
    core.load("models/y")
    assert core.source is not before
    assert core.catalogue is None
    assert core.run.header is not None, "what was decoded stays on the page"
    assert core.run.end is not None
    assert core.run.end.reason == "cancelled"
    until(lambda: core.catalogue, "the other core says nothing")
    until(lambda: (before.poll(), before.ended)[1], "the core before stays")
    core.start(Start(prompt="y", knobs={"max_new_tokens": 4}))
    until(lambda: core.past, "the run before is gone")
    (name,) = core.past
    assert list(choices(current(), {}))[:2] == [LIVE, name]
    kept = opened(name, current(), {})
    assert type(kept.poll()[0]).__name__ == "Header"
    assert kept.ended


def test_the_same_models_again_change_nothing(core: ServedRun) -> None:
    before = core.source
    core.load()
    assert core.source is before


def test_a_model_that_went_meanwhile_leaves_what_was_said(core: ServedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    core.start(Start(prompt="x", knobs={"max_new_tokens": 8}))
    until(lambda: core.has_run and not core.running, "it does not end")
    monkeypatch.setattr(core, "settings", fake_settings("fail"))
    core.load("models/gone")
    until(lambda: core.failed, "nothing is said")
    assert "no target model" in str(core.failed)
    assert core.run.header is not None
