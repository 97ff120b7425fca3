"""`LiveRun` over a scripted source: what is asked of a core, when, and what is said of its answers."""

import pytest

from specviz import events as ev
from specviz.commands import Pause, Resume, SetKnob, Start, StepRounds, Stop
from specviz.errors import SpecvizError
from specviz.sources import NoSource
from specviz.sources.live_run import IdleWords, LiveRun
from support.script import Script
from support.traces import make_events

WORDS = IdleWords("nothing", "ready", "preparing")
RUN = make_events(temperature=0.8, new_tokens=24)


def catalogue() -> ev.Catalogue:
    return ev.Catalogue(methods=[], verifiers=[], models=ev.Models(target=ev.ModelInfo(name="table")))


@pytest.fixture
def script() -> Script:
    return Script()


@pytest.fixture
def live(script: Script) -> LiveRun:
    """With models loaded."""
    live_run = LiveRun(script, WORDS)
    script.play([catalogue(), ev.State(state="idle")])
    live_run.tick(0.0)
    return live_run


def run(live: LiveRun, script: Script, n: int | None = None) -> None:
    """So many events of a run, all of them but its end without a number."""
    script.play(RUN[: len(RUN) - 1 if n is None else n])
    live.tick(1.0)


def kinds(script: Script) -> list[type]:
    return [type(command) for command in script.commands]


def test_a_start_that_comes_within_a_run_waits_for_the_worker_to_be_idle(live: LiveRun, script: Script) -> None:
    live.start(Start(prompt="a"))
    assert live.status().detail == "preparing"
    run(live, script)
    live.start(Start(prompt="b"))
    assert kinds(script) == [Start, Stop]
    script.play(RUN[-1:])
    live.tick(2.0)
    assert kinds(script) == [Start, Stop]
    assert live.last_start is not None
    assert live.last_start.prompt == "b"
    script.play([ev.State(state="idle")])
    live.tick(3.0)
    assert kinds(script) == [Start, Stop, Start]
    run(live, script)
    assert live.generation == 2


def test_whether_drafting_may_pause_holds_until_something_else_is_said(live: LiveRun, script: Script) -> None:
    for asked_for, handed_over in ((None, None), (False, False), (None, False), (True, True), (None, True)):
        live.start(Start(prompt="a", auto=asked_for))
        run(live, script, len(RUN))
        script.play([ev.State(state="idle")])
        live.tick(2.0)
        start = script.commands[-1]
        assert isinstance(start, Start)
        assert start.auto is handed_over


def test_a_start_behind_one_that_is_refused_needs_no_idle(live: LiveRun, script: Script) -> None:
    live.start(Start(prompt="too long"))
    live.start(Start(prompt="b"))
    script.play([ev.Refused(id=script.commands[0].id, message="the prompt is too long")])
    live.tick(1.0)
    assert kinds(script) == [Start, Stop, Start]
    (notice,) = live.take_notices()
    assert (notice.message, notice.severe) == ("the prompt is too long", True)
    assert live.take_notices() == []


def test_what_nobody_pressed_is_refused_in_silence(live: LiveRun, script: Script) -> None:
    live.start(Start(prompt="a"))
    run(live, script)
    live.stop()
    live.set_knobs({"gamma": 99})
    for command in script.commands[1:]:
        script.play([ev.Refused(id=command.id, message=f"no {type(command).__name__}")])
    live.tick(2.0)
    assert live.refusals == [notice.message for notice in live.take_notices()] == ["no SetKnob"]
    assert live.edits.sent == {}


def test_a_paced_core_is_asked_round_by_round_and_held_by_a_person_alone(live: LiveRun, script: Script) -> None:
    live.start(Start(prompt="a"), paced=True)
    (start,) = script.commands
    assert isinstance(start, Start)
    assert start.paused
    script.play([ev.State(state="paused")])
    run(live, script, next(k for k, event in enumerate(RUN) if isinstance(event, ev.RoundStart)))
    assert kinds(script) == [Start, StepRounds]
    assert not live.held
    live.hold(True)
    live.tick(2.0)
    live.hold(False)
    assert kinds(script) == [Start, StepRounds]  # to the worker it is held all the time
    assert live.switch_pace() is False
    live.hold(True)
    assert kinds(script)[2:] == [Resume, Pause]


def test_what_is_asked_ends_with_the_run(live: LiveRun, script: Script) -> None:
    live.start(Start(prompt="a"))
    run(live, script)
    live.set_knobs({"gamma": 6})
    assert isinstance(script.commands[-1], SetKnob)
    assert live.edits.sent == {"gamma": 6}
    script.play([ev.End(reason="error", message="not finite")])
    live.tick(2.0)
    assert (live.edits.sent, live.edits.staged) == ({}, {"gamma": 6}), "no round took it: it waits for the next run"
    assert [(notice.title, notice.message) for notice in live.take_notices()] == [("The run failed", "not finite")]
    assert live.live
    assert not live.running


def test_knobs_asked_for_between_runs_wait_and_a_start_says_all_of_its_own(live: LiveRun, script: Script) -> None:
    live.start(Start(prompt="a", knobs={"temperature": 0.7}))
    run(live, script, len(RUN))
    live.set_knobs({"gamma": 6})
    assert kinds(script) == [Start], "the worker would refuse it"
    assert live.edits.staged == {"gamma": 6}
    live.start(Start(prompt="b", knobs={"gamma": 5}))
    assert live.edits.staged == {}
    assert live.standing == {"gamma": 5}


def test_what_a_person_moved_stands_and_what_the_program_filled_in_does_not(live: LiveRun, script: Script) -> None:
    live.start(Start(prompt="a", knobs={"temperature": 0.7}))
    run(live, script)
    for name, by in (("gamma", "user"), ("node_budget", "specviz")):
        script.play([ev.Knob(name=name, old=4, new=6, requested_r=1, applied_r=2, by=by)])
    live.tick(2.0)
    assert live.run.knobs["shape"] == "chain"
    assert live.standing == {"temperature": 0.7, "gamma": 6}


@pytest.mark.parametrize("loaded", [True, False])
def test_a_core_that_goes_is_told_as_lost_only_if_it_was_ever_ready(loaded: bool, script: Script) -> None:
    live = LiveRun(script, WORDS)
    script.play([catalogue()] if loaded else [])
    script.play([ev.End(reason="core_lost", message="SIGKILL")])
    live.tick(0.0)
    script.die()
    live.tick(1.0)
    assert live.failed == "SIGKILL"
    assert live.status().name == ("core_lost" if loaded else "error")
    assert live.never_ready is not loaded


def test_another_core_keeps_what_was_decoded_until_it_decodes(live: LiveRun, script: Script) -> None:
    live.start(Start(prompt="a"))
    run(live, script)
    rounds = len(live.run.rounds)
    live.attach(second := Script())
    live.tick(2.0)
    assert len(live.run.rounds) == rounds
    assert live.status().name == "loading"
    second.play([catalogue(), *RUN[:3]])
    live.tick(3.0)
    assert len(live.run.rounds) < rounds


def test_without_a_source_all_is_refused() -> None:
    live = LiveRun(NoSource("load first"), WORDS)
    live.tick(0.0)
    assert live.status().detail == "nothing"
    with pytest.raises(SpecvizError, match="load first"):
        live.start(Start(prompt="a"))
    with pytest.raises(SpecvizError, match="load first"):
        live.hold(True)
