"""The live stage as a conversation over a scripted core: asked, answered, asked again, stopped, refused, lost."""

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from app import onstage
from app.conftest import Open
from app.fakes import FAKE, fake_settings, until
from specviz.commands import Start, Stop
from specviz.local_models.found import LocalModel
from specviz.sources import Worker
from specviz.sources.chat_examples import CHAT_EXAMPLES
from specviz.text import running
from specviz_app.screens import live_models
from specviz_app.server.core import ServedRun, Settings
from specviz_app.server.live_rounds import LiveRounds, conversation, run_key
from specviz_app.server.server import current

if TYPE_CHECKING:
    from streamlit.testing.v1 import AppTest

MINE = LocalModel("mine", "store", Path("/nowhere"), "llama", 9, 9, "v", True)


def _opened(open_page: Open, *manner: str, pause: str = "0.01") -> "tuple[AppTest, ServedRun]":
    """A page whose model talks, at full speed."""
    at = open_page(fake_settings(pause, "talks", *manner, live=True))
    core = current().core
    core.load()
    until(lambda: core.catalogue, "no catalogue")
    at.run()
    assert not at.exception
    at.selectbox(key="pace").set_value("full speed").run()
    return at, core


def _send(at: "AppTest", message: str) -> None:
    onstage.tell(at, "say", message)
    assert not at.exception


def _answered(core: ServedRun, n: int) -> None:
    until(lambda: len(core.talk.spoken) == 2 * n and not core.running, f"no answer {n}")


def _said(core: ServedRun) -> list[tuple[str, str]]:
    """Who said what above the newest answer, then what waits below it, as the stage fetches it."""
    talk = msgspec.json.decode(conversation(core))
    below = [("user", talk["below"])] if talk["below"] else []
    return [(turn["role"], turn["text"]) for turn in talk["above"]] + below


def _frame() -> dict[str, Any]:
    frame: dict[str, Any] = msgspec.json.decode(current().frame()[1])
    return frame


def test_a_conversation_goes_on_with_what_was_said(open_page: Open) -> None:
    at, core = _opened(open_page)
    _send(at, "why?")
    assert _said(core) == [("user", "why?")]
    _answered(core, 1)
    assert _frame()["answers"] is True
    first = core.talk.spoken[1].text
    at.run()
    assert _said(core) == [("user", "why?")], "the newest answer stands in the tree, not above it"
    _send(at, "and then?")
    assert [role for role, _ in _said(core)] == ["user", "assistant", "user"]
    _answered(core, 2)
    assert core.started is not None
    assert [turn.text for turn in core.started.history] == ["why?", first]
    assert core.started.chat is True


def test_an_example_is_one_press_away(open_page: Open) -> None:
    at, core = _opened(open_page)
    examples = onstage.handed(at)["manner"]["examples"]
    assert examples == CHAT_EXAMPLES
    message = next(iter(examples.values()))
    _send(at, message)
    _answered(core, 1)
    assert [body for _, body in _said(core)] == [message], "the stage offers examples while nothing was said"


def test_stop_ends_the_answer_and_not_the_conversation(open_page: Open) -> None:
    at, core = _opened(open_page, pause="0.1")
    _send(at, "why?")
    until(lambda: core.talk.run and len(core.run.rounds) > 2, "no rounds")
    core.command(Stop())
    _answered(core, 1)
    came = core.talk.spoken[1]
    assert came.stopped
    assert came.text
    _send(at, "go on")
    _answered(core, 2)
    assert core.started is not None
    assert core.started.history[1].text == came.text


def test_a_message_in_the_middle_of_an_answer_ends_it(open_page: Open) -> None:
    at, core = _opened(open_page, pause="0.1")
    _send(at, "why?")
    until(lambda: core.talk.run and len(core.run.rounds) > 2, "no rounds")
    before = _frame()["said"]
    _send(at, "and then?")
    until(lambda: core.started and core.started.prompt == "and then?", "the second message is not handed over")
    assert core.talk.spoken[1].stopped
    until(lambda: _frame()["said"] != before, "nobody tells the page")


def test_a_refused_message_is_told_in_a_line_and_goes_back_into_the_box(open_page: Open) -> None:
    at, core = _opened(open_page)
    _send(at, "why?")
    _answered(core, 1)
    _send(at, "this is too long")
    until(lambda: core.talk.unsent, "it is not refused")
    assert any("no space is left" in words for words in _frame()["refusals"])
    assert msgspec.json.decode(conversation(core))["unsent"] == "this is too long"
    assert _said(core) == [("user", "why?")]
    _send(at, "shorter")
    _answered(core, 2)


def test_a_core_that_dies_loses_neither_conversation_nor_message(open_page: Open) -> None:
    at, core = _opened(open_page, pause="0.1")
    _send(at, "why?")
    until(lambda: core.talk.run and len(core.run.rounds) > 2, "no rounds")
    core.command(Stop())
    _answered(core, 1)
    _send(at, "and then?")
    until(lambda: core.talk.run, "no second run")
    assert isinstance(core.source, Worker)
    os.kill(core.source.pid, signal.SIGKILL)
    until(lambda: core.failed, "nobody sees it")
    at.run()
    assert not at.exception
    assert any("is kept" in error.value for error in at.error)
    assert "SIGKILL" in at.code[0].value
    assert ("user", "why?") in _said(core)
    at.button(key="load").click().run()
    until(lambda: core.catalogue, "it does not come back")
    at.run()
    _send(at, "and then?")
    _answered(core, 2)
    assert core.started is not None
    assert [turn.role for turn in core.started.history] == ["user", "assistant"]


def test_a_new_conversation_begins_with_nothing(open_page: Open) -> None:
    at, core = _opened(open_page)
    _send(at, "why?")
    _answered(core, 1)
    at.run()
    onstage.tell(at, "anew", True)
    assert not at.exception
    assert _said(core) == []
    assert not msgspec.json.decode(conversation(core))["shown"], "the examples are offered again"
    _send(at, "hello")
    _answered(core, 1)
    assert core.started is not None
    assert core.started.history == []
    assert core.past, "the run of the conversation before can still be opened"


def test_a_first_message_loads_the_models_and_is_answered_by_what_can_run(
    open_page: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a draft model the usual method cannot: the first that drafts and can is taken."""
    monkeypatch.setattr(live_models, "local_models", lambda: [MINE])
    page = open_page(Settings(command=(sys.executable, FAKE, "0.001", "talks", "bare")), "live")
    core = current().core
    assert not core.has_core
    _send(page, "why?")
    assert core.models.target == "mine"
    core.talk_paced = False
    _answered(core, 1)
    assert core.started is not None
    assert core.catalogue is not None
    (info,) = [info for info in core.catalogue.methods if info.name == core.started.method]
    assert not info.needs_draft
    assert not info.traits.plain


@pytest.mark.parametrize("manner", [(), ("bare",)])
def test_a_first_message_is_answered_as_the_command_line_says(
    manner: tuple[str, ...], open_page: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the models are loaded for it; of a method that cannot run, by what the next one knows."""
    monkeypatch.setattr(live_models, "local_models", lambda: [MINE])
    start = Start(method="draft", knobs={"gamma": 2, "temperature": 0.5})
    command = (sys.executable, FAKE, "0.001", "talks", *manner)
    page = open_page(Settings(command=command, start=start), "live")
    core = current().core
    _send(page, "why?")
    core.talk_paced = False
    _answered(core, 1)
    assert core.started is not None
    assert (core.started.method == "draft") == (not manner)
    assert core.catalogue is not None
    (info,) = [info for info in core.catalogue.methods if info.name == core.started.method]
    asked = {name: value for name, value in start.knobs.items() if name in {spec.name for spec in info.knobs}}
    assert "temperature" in asked
    assert asked.items() <= core.started.knobs.items()


def test_another_model_is_spoken_to_as_it_is_whatever_the_one_before_was(
    open_page: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_models, "local_models", lambda: [MINE])
    at, core = _opened(open_page)
    _send(at, "why?")
    _answered(core, 1)
    at.run()
    at.toggle(key="chat").set_value(False).run()
    assert not onstage.handed(at)["manner"]["talks"]
    at.selectbox(key="target").select("mine").run()
    at.button(key="load").click().run()
    until(lambda: core.catalogue, "no second catalogue")
    at.run()
    assert not at.exception
    assert at.toggle(key="chat").value is True
    assert ("user", "why?") in _said(core)
    _send(at, "and then?")
    _answered(core, 2)
    assert core.started is not None
    assert [turn.role for turn in core.started.history] == ["user", "assistant"]
    assert core.past


def test_an_earlier_answer_leads_to_its_rounds(open_page: Open) -> None:
    at, core = _opened(open_page)
    for n, message in enumerate(("why?", "and then?"), 1):
        _send(at, message)
        _answered(core, n)
    at.run()
    run = core.talk.spoken[1].run
    names = [turn["run"] for turn in msgspec.json.decode(conversation(core))["above"]]
    assert core.name_of(run) in names
    onstage.tell(at, "look", core.name_of(run))
    assert not at.exception
    assert at.selectbox(key="src").value == core.name_of(run)
    assert core.name_of(run) in core.past


def test_an_answer_is_shown_in_lines_and_what_the_model_was_given_apart(open_page: Open) -> None:
    at, core = _opened(open_page)
    _send(at, "why?")
    _answered(core, 1)
    head = msgspec.json.decode(LiveRounds(core, run_key(core)).head())
    assert head["queries"][0]["prompt"]
    tokens = [token for point in head["points"] for token in point["tokens"]]
    assert tokens
    assert all(mark != "prompt" for _, mark, _ in tokens)
    assert not any("⏎" in text.replace("⏎\n", "") for text, _, _ in tokens)


@pytest.mark.parametrize("text", ["<b>bold</b>", "**x** [l](http://a)", "\x1b[31mred"])
def test_what_was_said_is_text_and_nothing_else(text: str, open_page: Open) -> None:
    at, core = _opened(open_page)
    _send(at, text)
    _answered(core, 1)
    at.run()
    (shown,) = [body for _, body in _said(core)]
    assert shown == running(text), "the stage sets it as text alone: a test in the browser sees no element made of it"
    assert "\x1b" not in shown
