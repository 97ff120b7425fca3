"""The page Live as a conversation over a scripted core: asked, answered, asked again, stopped, refused, lost."""

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

from app.conftest import Open
from app.fakes import FAKE, fake_settings, until
from specviz.commands import Stop
from specviz.local_models.found import LocalModel
from specviz.sources import Worker
from specviz.sources.chat_examples import CHAT_EXAMPLES
from specviz_app.screens import live_models
from specviz_app.server.core import ServedRun, Settings
from specviz_app.server.live_rounds import LiveRounds, run_key
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
    at.chat_input(key="message").set_value(message).run()
    assert not at.exception


def _answered(core: ServedRun, n: int) -> None:
    until(lambda: len(core.talk.spoken) == 2 * n and not core.running, f"no answer {n}")


def _said(at: "AppTest") -> list[tuple[str, str]]:
    """Who said what above the newest answer, as the page shows it."""
    turns = [(turn.name, each.body) for turn in at.chat_message for each in turn.get("html")]
    return [(name, body.split(">", 1)[1].removesuffix("</div>")) for name, body in turns if "sv-turn" in body]


def _frame() -> dict[str, object]:
    found: dict[str, object] = msgspec.json.decode(current().frame()[1])
    return found


def test_a_conversation_goes_on_with_what_was_said(open_page: Open) -> None:
    at, core = _opened(open_page)
    _send(at, "why?")
    assert _said(at) == [("user", "why?")]
    _answered(core, 1)
    assert _frame()["answers"] is True
    first = core.talk.spoken[1].text
    at.run()
    assert _said(at) == [("user", "why?")], "the newest answer stands in the tree, not above it"
    _send(at, "and then?")
    assert [role for role, _ in _said(at)] == ["user", "assistant", "user"]
    _answered(core, 2)
    assert core.started is not None
    assert [said.text for said in core.started.history] == ["why?", first]
    assert core.started.chat is True


def test_an_example_is_one_press_away_and_goes_when_something_was_said(open_page: Open) -> None:
    at, core = _opened(open_page)
    name, message = next(iter(CHAT_EXAMPLES.items()))
    at.button(key=f"example-{name}").click().run()
    _answered(core, 1)
    at.run()
    assert [body for _, body in _said(at)] == [message]
    assert not [button for button in at.button if button.key == f"example-{name}"]


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
    before = _frame()["page"]
    _send(at, "and then?")
    until(lambda: core.started and core.started.prompt == "and then?", "the second message is not handed over")
    assert core.talk.spoken[1].stopped
    until(lambda: _frame()["page"] != before, "nobody tells the page")


def test_a_refused_message_is_told_in_a_line_and_goes_back_into_the_box(open_page: Open) -> None:
    at, core = _opened(open_page)
    _send(at, "why?")
    _answered(core, 1)
    _send(at, "this is too long")
    if not at.error:
        until(lambda: core.talk.unsent, "it is not refused")
        at.run()
    assert not at.exception
    assert "no space is left" in at.error[0].value
    assert at.chat_input(key="message").proto.value == "this is too long"
    assert _said(at) == [("user", "why?")]
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
    assert ("user", "why?") in _said(at)
    at.button(key="load").click().run()
    until(lambda: core.catalogue, "it does not come back")
    at.run()
    _send(at, "and then?")
    _answered(core, 2)
    assert core.started is not None
    assert [said.role for said in core.started.history] == ["user", "assistant"]


def test_a_new_conversation_begins_with_nothing(open_page: Open) -> None:
    at, core = _opened(open_page)
    _send(at, "why?")
    _answered(core, 1)
    at.run()
    at.button(key="new").click().run()
    assert not at.exception
    assert _said(at) == []
    assert [button for button in at.button if str(button.key).startswith("example-")]
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


def test_another_model_is_spoken_to_as_it_is_whatever_the_one_before_was(
    open_page: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_models, "local_models", lambda: [MINE])
    at, core = _opened(open_page)
    _send(at, "why?")
    _answered(core, 1)
    at.run()
    at.toggle(key="chat").set_value(False).run()
    assert not at.chat_input
    at.selectbox(key="target").select("mine").run()
    at.button(key="load").click().run()
    until(lambda: core.catalogue, "no second catalogue")
    at.run()
    assert not at.exception
    assert at.toggle(key="chat").value is True
    assert ("user", "why?") in _said(at)
    _send(at, "and then?")
    _answered(core, 2)
    assert core.started is not None
    assert [said.role for said in core.started.history] == ["user", "assistant"]
    assert core.past


def test_an_earlier_answer_leads_to_its_rounds(open_page: Open) -> None:
    at, core = _opened(open_page)
    for n, message in enumerate(("why?", "and then?"), 1):
        _send(at, message)
        _answered(core, n)
    at.run()
    run = core.talk.spoken[1].run
    at.button(key=f"rounds-{run}").click().run()
    assert not at.exception
    assert at.selectbox(key="src").value == core.name_of(run)
    assert core.name_of(run) in core.past


def test_an_answer_is_shown_in_lines_and_what_the_model_was_given_apart(open_page: Open) -> None:
    at, core = _opened(open_page)
    _send(at, "why?")
    _answered(core, 1)
    told = msgspec.json.decode(LiveRounds(core, run_key(core)).head())
    assert told["queries"][0]["prompt"]
    tokens = [token for point in told["points"] for token in point["tokens"]]
    assert tokens
    assert all(mark != "prompt" for _, mark, _ in tokens)
    assert not any("⏎" in text.replace("⏎\n", "") for text, _, _ in tokens)


@pytest.mark.parametrize("text", ["<b>bold</b>", "**x** [l](http://a)", "\x1b[31mred"])
def test_what_was_said_is_text_and_nothing_else(text: str, open_page: Open) -> None:
    at, core = _opened(open_page)
    _send(at, text)
    _answered(core, 1)
    at.run()
    (shown,) = [body for _, body in _said(at)]
    assert "<b>" not in shown
    assert "\x1b" not in shown
