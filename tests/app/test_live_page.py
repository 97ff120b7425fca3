"""The live stage over a scripted core: loading, failing, starting, holding, knobs requested and applied."""

import os
import signal
import time
from collections.abc import Callable

import msgspec
import pytest

from app import onstage
from app.conftest import Open
from app.fakes import fake_settings, until
from specviz import events as ev
from specviz.commands import Pause, Resume, SetKnob, Start, StepRounds, Stop
from specviz.errors import SpecvizError
from specviz.events import Missing
from specviz.sources import Worker
from specviz.sources.bundled import bundled_prompts
from specviz.view import Cursor, Player
from specviz.view.words.palette import Phase
from specviz_app.server.core import LiveSource, ServedRun, Settings
from specviz_app.server.live_rounds import LiveRounds, run_key
from specviz_app.server.server import Server, current


def test_a_core_that_cannot_start_is_told_and_the_app_lives(open_page: Open) -> None:
    at = open_page(fake_settings("fail", live=True))
    core = current().core
    core.load()
    until(lambda: core.failed, "no failure")
    at.run()
    assert not at.exception
    assert at.error
    assert at.code[0].value == "no target model in 'models/x'; name a folder of save_pretrained"
    assert at.error[0].value == "The models could not be loaded."
    assert not core.has_run
    assert core.look(lambda frame, _: (frame.state.name, frame.notices)) == ("error", ())
    assert at.button(key="load").label == "Load the models"


@pytest.mark.parametrize(("manner", "on"), [("chat", False), ("talks", True)])
def test_the_switch_for_messages_begins_as_the_model_is(manner: str, on: bool, open_page: Open) -> None:
    at = open_page(fake_settings("0.02", manner, live=True))
    core = current().core
    core.load()
    until(lambda: core.catalogue, "no catalogue")
    at.run()
    assert at.toggle(key="chat").value is on
    assert onstage.handed(at)["manner"]["talks"] is on
    at.toggle(key="chat").set_value(not on).run()
    assert not at.exception
    assert onstage.handed(at)["manner"]["talks"] is not on


def test_there_is_no_chat_switch_without_a_template(open_page: Open) -> None:
    at = open_page(fake_settings(live=True))
    core = current().core
    core.load()
    until(lambda: core.catalogue, "no catalogue")
    at.run()
    assert not [toggle for toggle in at.toggle if toggle.key == "chat"]


def test_without_the_engine_the_page_prints_the_install_line(open_page: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("specviz_app.server.core.find_spec", lambda name: None)
    at = open_page(Settings(live=True))
    at.button(key="load").click().run()
    assert not at.exception
    assert "pip install 'specviz-llm[engine]'" in at.error[0].value.replace("\\", "")


def test_start_hands_over_prompt_method_and_knobs(open_page: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    at = open_page(fake_settings(live=True))
    core = current().core
    core.load()
    until(lambda: core.catalogue, "no catalogue")
    at.run()
    assert not at.exception
    at.slider(key="draft.gamma").set_value(7)
    at.selectbox(key="pace").set_value("held: step by hand")
    starts: list[Start] = []
    monkeypatch.setattr(core, "start", lambda start, paced: starts.append(start))
    onstage.tell(at, "say", "def f(")
    assert not at.exception
    assert not at.error
    assert [(s.prompt, s.method, s.verifier, s.knobs, s.paused) for s in starts] == [
        ("def f(", "draft", None, {"gamma": 7}, True)
    ]


def test_a_text_of_spaces_begins_nothing(open_page: Open) -> None:
    at = open_page(fake_settings(live=True))
    core = current().core
    core.load()
    until(lambda: core.catalogue, "no catalogue")
    at.run()
    onstage.tell(at, "say", "  ")
    assert not at.exception
    assert not core.has_run


def test_knobs_without_an_effect_are_off_and_say_why(open_page: Open) -> None:
    at = open_page(fake_settings(live=True))
    core = current().core
    core.load()
    until(lambda: core.catalogue, "no catalogue")
    at.run()
    budget = at.get_by_key("draft.node_budget")
    assert budget.disabled
    assert "needs shape tree" in budget.help


def test_a_knob_is_sent_then_acknowledged_with_the_round_it_applied_in(core: ServedRun) -> None:
    core.start(Start(prompt="x", paused=True))
    until(lambda: core.has_run, "no run")
    core.set_knobs({"gamma": 6})
    sent = core.look(lambda frame, _: frame.knobs.pending)
    assert "sent" in sent
    core.command(StepRounds(n=2))
    until(lambda: core.run.changes, "no acknowledgement")
    assert [(c.name, c.new) for c in core.run.changes] == [("gamma", 6)]
    assert core.run.changes[0].applied_r >= core.run.changes[0].requested_r
    assert core.look(lambda frame, _: frame.knobs.pending) == ""


def test_hold_step_and_go_on(core: ServedRun) -> None:
    core.start(Start(prompt="x", paused=True))
    until(lambda: core.has_run, "no run")
    rounds = lambda: core.look(lambda frame, _: len(frame.timeline.points))  # noqa: E731
    core.command(StepRounds())
    until(lambda: rounds() == 1, "no round")
    core.command(Resume())
    until(lambda: rounds() > 2, "it does not go on")
    core.command(Pause())
    core.command(Stop())
    until(lambda: not core.running, "it does not stop")


def test_a_run_at_the_pace_of_the_eye_goes_round_by_round(server: Callable[[Settings], Server]) -> None:
    core = server(fake_settings("0.15")).core
    core.load()
    steps: list[StepRounds] = []
    send = core.send
    core.send = lambda command: (steps.append(command) if isinstance(command, StepRounds) else None, send(command))[1]  # type: ignore[method-assign, func-returns-value]
    core.start(Start(prompt="x", knobs={"max_new_tokens": 12}), paced=True)
    until(lambda: core.has_run and not core.running, "it does not end")
    n_rounds = core.look(lambda frame, _: len(frame.timeline.points))
    assert n_rounds > 2
    assert len(steps) == n_rounds  # one for each, however often a slow core is looked at


def test_a_pause_holds_a_watched_run_and_going_on_keeps_its_pace(core: ServedRun) -> None:
    sent: list[object] = []
    send = core.send
    core.send = lambda command: (sent.append(command), send(command))[1]  # type: ignore[method-assign]
    core.start(Start(prompt="x", knobs={"max_new_tokens": 24}), paced=True)
    rounds = lambda: core.look(lambda frame, _: len(frame.timeline.points))  # noqa: E731
    until(lambda: rounds() >= 2, "it does not go on by itself")
    core.command(Pause())
    assert core.look(lambda frame, _: frame.state.name) == "paused"
    with core.lock:  # the pacer asks for nothing, however often it looks
        sent.clear()
        core.tick(time.monotonic())
        assert sent == []
        core.command(Resume())
        assert sent == []  # the core is not let loose: rounds are asked for one by one
        assert core.paced
    until(lambda: not core.running, "it does not end")
    assert not any(isinstance(command, Resume) for command in sent)
    assert sum(isinstance(command, StepRounds) for command in sent) >= 2


def test_the_prompt_of_the_command_line_is_watched_not_rushed_through(server: Callable[[Settings], Server]) -> None:
    core = server(fake_settings(start=Start(prompt="x", knobs={"max_new_tokens": 8}))).core
    core.load()
    until(lambda: core.has_run, "no run")
    assert core.paced


def test_a_stop_leaves_no_complaint_of_rounds_nobody_asked_for(core: ServedRun) -> None:
    core.start(Start(prompt="x", knobs={"max_new_tokens": 24}), paced=True)
    until(lambda: core.running, "no run")
    core.command(Stop())
    assert not core.paced
    for number in list(core._own):
        core.take([ev.Refused(id=number, message="nothing is running: start a run first")])
    assert core.refusals == []
    core.take([ev.Refused(id=10_000, message="no knob 'x'")])
    assert core.refusals == ["no knob 'x'"]
    core.command(Pause())
    assert core.refusals == []  # it was about what was asked before


@pytest.mark.parametrize("n", [0, -1, 1001, 100_000_000])
def test_steps_are_a_number_of_rounds_a_person_could_mean(core: ServedRun, n: int) -> None:
    with pytest.raises(SpecvizError, match="step takes 1 to 1,000 rounds"):
        core.command(StepRounds(n=n))


def test_only_touched_knobs_are_sent_and_every_tab_shows_what_was_asked(open_page: Open) -> None:
    at = open_page(fake_settings(live=True))
    core = current().core
    core.load()
    until(lambda: core.catalogue, "no catalogue")
    core.start(Start(prompt="x", knobs={"gamma": 7}, paused=True))
    until(lambda: core.has_run, "no run")
    core.set_knobs({"temperature": 0.5})
    core.command(StepRounds(n=2))
    until(lambda: core.run.changes, "no acknowledgement")
    at.run()  # a tab that has touched nothing
    assert not at.exception
    assert at.slider(key="draft.gamma").value == 7
    assert at.get_by_key("draft.temperature").value == 0.5
    at.button(key="apply").click().run()
    assert any("Nothing was moved" in c.value for c in at.caption)
    at.slider(key="draft.gamma").set_value(3)
    at.button(key="apply").click().run()
    assert any("Requested: gamma" in c.value.replace("\\", "") for c in at.caption)


def test_a_link_with_a_tree_opens_with_its_knobs_on(open_page: Open) -> None:
    query = {"draft.shape": "tree", "draft.gamma": "999", "method": "draft"}
    at = open_page(fake_settings(live=True), **query)
    core = current().core
    core.load()
    until(lambda: core.catalogue, "no catalogue")
    at.run()
    assert not at.exception
    assert not at.get_by_key("draft.node_budget").disabled
    assert any("gamma: '999'" in w.value.replace("\\", "") for w in at.warning)


def test_an_unknown_method_in_a_link_is_said(open_page: Open) -> None:
    at = open_page(fake_settings(live=True), method="drft")
    core = current().core
    core.load()
    until(lambda: core.catalogue, "no catalogue")
    at.run()
    assert any("did you mean 'draft'" in w.value.replace("\\", "") for w in at.warning)


def test_an_error_of_our_own_is_told_and_nothing_hangs(core: ServedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(now: float) -> bool:
        raise RuntimeError("a bug in the view")

    monkeypatch.setattr(core.live_player, "tick", broken)
    until(lambda: core.failed, "nothing is said")
    assert core.failed == "RuntimeError: a bug in the view"
    assert not core.loaded


def test_another_prompt_ends_the_run_in_hand_first(core: ServedRun) -> None:
    core.start(Start(prompt="x", paused=True))
    until(lambda: core.has_run, "no run")
    first = core.generation
    core.start(Start(prompt="y", knobs={"max_new_tokens": 4}))
    until(lambda: core.generation == first + 1 and not core.running, "the second run does not come")
    assert core.refusals == []


def test_a_method_that_cannot_run_is_marked_refused_in_words_and_ends_nothing(open_page: Open) -> None:
    """The list has it last, the page says what is missing; a text leaves the run in hand alone."""
    page = open_page(fake_settings(live=True))
    core = current().core
    core.load()
    until(lambda: core.catalogue, "no catalogue")
    assert core.catalogue is not None
    (medusa,) = [info for info in core.catalogue.methods if info.name == "medusa"]
    medusa.missing = Missing(why="no heads for the target", command="specviz train medusa", knob="drafter")
    core.start(Start(prompt="x", paused=True))
    until(lambda: core.has_run, "no run")
    generation = core.generation
    page.run()
    assert page.selectbox(key="method").options[-1] == "medusa (not here)"
    page.selectbox(key="method").select("medusa").run()
    manner = onstage.handed(page)["manner"]
    assert "specviz train medusa" in manner["command"]
    assert "medusa cannot run here" in manner["why"]
    assert not manner["able"]
    onstage.tell(page, "say", "a tab that knew no better")
    assert not page.exception
    assert any("medusa cannot run here" in problem.value for problem in page.error)
    assert core.running
    assert core.generation == generation


def test_a_tap_gives_every_event_once_and_follows_to_the_next_run(core: ServedRun) -> None:
    tap = LiveSource(core)
    core.start(Start(prompt="x", knobs={"max_new_tokens": 8}))
    events = []
    until(lambda: events.extend(tap.poll()) or (core.has_run and not core.running), "it does not end")
    events += tap.poll()
    assert [e.i for e in events] == list(range(len(events)))
    core.start(Start(prompt="x", knobs={"max_new_tokens": 4}))
    again: list[object] = []
    until(lambda: again.extend(tap.poll()) or again, "no second run")
    assert type(again[0]).__name__ == "Header"


def test_a_stopped_core_is_told_on_the_page_until_it_goes_on(core: ServedRun) -> None:
    """SIGSTOP: seen within 5 s, and nothing is ended, for it may come back."""
    assert isinstance(core.source, Worker)
    pid = core.source.pid
    os.kill(pid, signal.SIGSTOP)
    try:
        deadline = time.monotonic() + 5
        while core.look(lambda frame, _: frame.state.name) != "silent":
            assert time.monotonic() < deadline, "not seen within 5 s"
            time.sleep(0.02)
        state = core.look(lambda frame, _: frame.state)
        assert (state.text, state.detail[:37]) == ("NO ANSWER", "the core is stopped by a signal; kill")
        assert core.failed is None
    finally:
        os.kill(pid, signal.SIGCONT)
    until(lambda: core.look(lambda frame, _: frame.state.name) == "idle", "it answers again")


def test_a_killed_core_is_told_within_seconds(core: ServedRun) -> None:
    assert isinstance(core.source, Worker)
    os.kill(core.source.pid, signal.SIGKILL)
    deadline = time.monotonic() + 5
    while core.failed is None:
        assert time.monotonic() < deadline, "not seen within 5 s"
        time.sleep(0.02)
    assert "SIGKILL" in core.failed


def test_a_watched_run_is_shown_from_its_first_step_and_passes_over_nothing(
    core: ServedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looked at by hand, in the lock, at every turn of the draining thread."""
    cursors: list[Cursor] = []
    tick = Player.tick

    def looking(player: Player, now: float) -> bool:
        moved = tick(player, now)
        if player.run.rounds and (not cursors or cursors[-1] != player.cursor):
            cursors.append(player.cursor)
        return moved

    monkeypatch.setattr(Player, "tick", looking)
    core.live_player.animate = True  # as a server does outside of tests
    core.start(Start(prompt="a", method="draft"), paced=True)
    core.live_player.speed = 16.0
    until(lambda: len({cursor.index for cursor in cursors}) >= 3, "three rounds")
    assert cursors[0] == Cursor(0, Phase.ROOT)
    rounds = [cursor.index for cursor in cursors]
    assert rounds == sorted(rounds)
    assert set(rounds) == set(range(max(rounds) + 1))


def test_what_cannot_be_asked_is_refused(core: ServedRun, server: Callable[[Settings], Server]) -> None:
    with pytest.raises(SpecvizError, match="started from the page"):
        core.command(Start(prompt="x"))
    with pytest.raises(SpecvizError, match="load the models first"):
        server(Settings()).core.command(SetKnob(name="gamma", value=1))


def test_frames_are_json_with_every_part_the_component_paints(core: ServedRun) -> None:
    core.start(Start(prompt="x", knobs={"max_new_tokens": 8}))
    until(lambda: core.has_run and not core.running, "it does not end")
    number, body = current().frame()
    frame = msgspec.json.decode(body)
    assert frame["seq"] == number
    assert frame["state"]["name"] == "ended"
    assert frame["now"]["run"] == run_key(core)
    assert frame["now"]["points"]
    whole = msgspec.json.decode(LiveRounds(core, run_key(core)).rounds(frame["now"]["index"], 1))
    assert -1 in {look["id"] for look in whole[0]["looks"]}
    assert whole[0]["moments"][-1]["phase"] == Phase.COMMIT


def test_a_file_of_prompts_is_decoded_as_a_stream(open_page: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    at = open_page(fake_settings(live=True))
    core = current().core
    core.load()
    until(lambda: core.catalogue, "no catalogue")
    at.run()
    starts: list[Start] = []
    monkeypatch.setattr(core, "start", lambda start, paced: starts.append(start))
    at.selectbox(key="stream").set_value("all bundled prompts").run()
    at.button(key="start").click().run()
    assert not at.exception
    assert starts[0].prompt == ""
    assert {p.text for p in starts[0].stream} == set(bundled_prompts().values())
    assert {p.domain for p in starts[0].stream} == {"code", "prose", "sums"}
    at.selectbox(key="stream").set_value("a file").run()
    lines = b'{"prompt": "def f(", "domain": "code"}\n{"prompt": "The module"}\n'
    at.file_uploader(key="stream-file").set_value(("mine.jsonl", lines, "application/jsonl")).run()
    at.button(key="start").click().run()
    assert not at.exception
    assert [(p.text, p.domain) for p in starts[1].stream] == [("def f(", "code"), ("The module", "mine")]


def test_a_bad_file_of_prompts_is_refused_with_its_line(open_page: Open) -> None:
    at = open_page(fake_settings(live=True))
    core = current().core
    core.load()
    until(lambda: core.catalogue, "no catalogue")
    at.run()
    at.selectbox(key="stream").set_value("a file").run()
    at.file_uploader(key="stream-file").set_value(("bad.jsonl", b'{"prompt": "x"}\nnope\n', "application/jsonl")).run()
    assert not at.exception
    assert "bad.jsonl line 2 is not JSON" in at.error[0].value.replace("\\", "")


def test_knobs_that_other_methods_are_known_by_are_off_with_a_reason(open_page: Open) -> None:
    at = open_page(fake_settings(live=True), method="specblock")
    core = current().core
    core.load()
    until(lambda: core.catalogue, "no catalogue")
    at.run()
    assert not at.exception
    assert at.slider(key="specblock.blocks").value == 2
    off = {s.label: s for s in at.slider if s.key and s.key.startswith("absent.")}
    assert set(off) == {"ε", "α", "τ"}
    assert all(s.disabled for s in off.values())
    assert "specblock has no tau" in off["τ"].help
