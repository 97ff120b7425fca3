"""The first minute: who is welcomed, and what *Run it here* asks of the core."""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from app import onstage
from app.conftest import Open
from app.fakes import fake_settings, until
from specviz.commands import Start
from specviz.events import Event, Prefill
from specviz.local_models.found import LocalModel
from specviz.runlog.fold import Run, fold
from specviz.sources.bundled import bundled_traces
from specviz.sources.chat_examples import CHAT_EXAMPLES
from specviz.trace import read_events
from specviz_app.screens.first_minute import STEPS, _ask, _like, offer, prompt_of
from specviz_app.screens.live_models import proposed_draft, proposed_target, recorded_target
from specviz_app.server.core import ServedRun, Settings
from specviz_app.server.server import Server
from support.traces import make_events


def _run(text: str | None = None) -> Run:
    def said(event: Event) -> Event:
        return msgspec.structs.replace(event, text=text) if isinstance(event, Prefill) and text else event

    return fold(said(event) for event in make_events(temperature=0.8, new_tokens=8))


def _handed(at: Any) -> str:
    return str(at.get("bidi_component")[0].proto)


def test_who_asks_for_nothing_is_welcomed_until_it_is_put_away(open_page: Open) -> None:
    at = open_page(Settings(), "stage")
    assert not at.exception
    assert all(step["part"] in _handed(at) for step in STEPS)
    assert STEPS[0]["title"] in _handed(at)
    at.session_state["welcome-put-by"] = True
    assert STEPS[0]["title"] not in _handed(at.run())


def test_who_came_for_a_recording_is_not(chain_trace: Path, open_page: Open) -> None:
    assert STEPS[0]["title"] not in _handed(open_page(Settings(replay=chain_trace), "stage"))
    assert STEPS[0]["title"] not in _handed(open_page(Settings(), "stage", at="r2"))


def test_a_message_in_a_template_s_rows_is_asked_again_as_a_message() -> None:
    message = CHAT_EXAMPLES["explain"]
    assert prompt_of(_run(f"<|im_start|>user\n{message}<|im_end|>\n")) == (message, True)
    assert prompt_of(_run("def f(x):")) == ("def f(x):", False)
    assert prompt_of(Run()) == ("", False)


@pytest.mark.parametrize("path", bundled_traces().values(), ids=lambda path: path.name)
def test_every_recording_offers_its_own_target_and_draft_model(
    path: Path, server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a message where it is a model of messages; where it is not here the line that gets it stands behind."""
    run, own_server = fold(read_events(path)), server(Settings())
    assert run.header is not None
    assert run.header.models.target is not None
    name, was = run.header.models.target.name, run.header.models.draft
    monkeypatch.setattr("specviz_app.screens.live_models._found", list)
    assert f"specviz models get {name}" in offer(own_server, run)["help"]
    here = LocalModel(name, "store", path, chat=True)
    monkeypatch.setattr("specviz_app.screens.live_models._found", lambda: [here])
    assert offer(own_server, run)["text"] == f"Load {name}, run it here"
    assert prompt_of(run)[1]
    draft = proposed_draft(proposed_target(recorded_target(run.header), True), run.header)
    assert was is None or was.name in (draft, f"{name}:{draft.removeprefix('self:')}")


def test_the_recording_s_own_settings_are_asked_for() -> None:
    run = _run()
    assert run.header is not None
    like = _like(run.header, False)
    plain = {spec.name: spec.default for spec in run.header.knob_specs}
    assert like.method == run.header.method
    assert like.knobs["temperature"] == 0.8
    assert like.chat is False
    assert all(like.knobs[name] != plain[name] for name in like.knobs)


def test_the_same_prompt_is_decoded_by_what_is_loaded(core: ServedRun) -> None:
    _ask(core, Start(method="draft", knobs={"gamma": 3}, chat=False), "def f(x):")
    until(lambda: core.running, "no run")
    assert core.started is not None
    assert (core.started.prompt, core.started.method, core.started.knobs) == ("def f(x):", "draft", {"gamma": 3})
    assert core.paced


def test_a_method_that_lacks_a_part_gives_way_to_one_that_can_run(server: Any) -> None:
    own_server: Server = server(fake_settings("0.02", "bare"))
    own_server.core.load()
    until(lambda: own_server.core.catalogue, "no catalogue")
    _ask(own_server.core, Start(method="draft", knobs={"gamma": 3}, chat=False), "x")
    assert own_server.core.started is not None
    assert (own_server.core.started.method, own_server.core.started.knobs) == ("ngram", {})


def test_a_message_waits_for_the_models_and_is_answered(server: Any) -> None:
    own_server: Server = server(fake_settings("0.02", "talks"))
    own_server.core.load()
    _ask(own_server.core, Start(method="draft"), "why?")
    until(lambda: own_server.core.running, "no answer")
    assert own_server.core.talk.asked is not None
    assert own_server.core.paced


def test_where_nothing_can_be_decoded_the_button_says_what_is_missing(
    server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_server: Server = server(Settings())
    monkeypatch.setattr("specviz_app.server.core.find_spec", lambda name: None)
    offered = offer(own_server, _run())
    assert not offered["able"]
    assert "pip install" in offered["help"]


def test_a_recording_plays_on_while_models_are_loaded(open_page: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """Below what is awaited and for how long; then the run is shown, which nothing else leads to."""
    words = "Loading a_model: step 1 of 3, torch and the target"
    monkeypatch.setattr(ServedRun, "awaited", property(lambda core: words))
    at = open_page(Settings(), "stage")
    at.session_state["loads-for-a-run"] = True
    at.run()
    line = at.info[0].value.replace("\\", "")
    assert re.fullmatch(rf"{words} · \d+ s. This recording plays meanwhile\.", line)
    assert "events" not in onstage.handed(at), "it is left before there is a run"
    monkeypatch.setattr(ServedRun, "awaited", property(lambda core: ""))
    at.run()
    assert not at.exception
    assert "events" in onstage.handed(at)
    assert "loads-for-a-run" not in at.session_state
