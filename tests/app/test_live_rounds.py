"""The newest run of the core for the stage: where it stands, its rounds, its knobs, and what is refused."""

import json
from typing import Any

import pytest

from app.fakes import until
from specviz.commands import SetKnob, Start, StepRounds
from specviz.errors import SpecvizError
from specviz.view.stage.document import head, one_round, wire
from specviz_app.server.core import ServedRun, SetPace, decode_asked
from specviz_app.server.live_rounds import LIVE_RUN, LiveRounds, conversation, run_key
from specviz_app.server.live_rounds import now as now_of
from specviz_app.server.stages import MOST_ROUNDS, RunStore


def _now(core: ServedRun) -> dict[str, Any]:
    now: dict[str, Any] = json.loads(core.look(now_of))
    return now


def _held(core: ServedRun, rounds: int) -> None:
    """A run that stands after so many rounds."""
    core.start(Start(prompt="x", paused=True))
    until(lambda: core.running, "no run")
    core.command(StepRounds(n=rounds))
    until(lambda: len(core.run.rounds) >= rounds and core.run.rounds[rounds - 1].complete, "no round")


def test_before_the_first_round_nothing_is_stood_at(core: ServedRun) -> None:
    assert _now(core)["now"]["index"] == -1
    core.start(Start(prompt="x", paused=True))
    until(lambda: core.running, "no run")
    now = _now(core)["now"]
    assert (now["index"], now["points"]) in [(-1, []), (-1, now["points"])]


def test_rounds_and_head_are_those_of_the_run_and_the_knobs_can_be_moved(core: ServedRun) -> None:
    _held(core, 3)
    run = LiveRounds(core, run_key(core))
    document = json.loads(run.head())
    with core.lock:
        builder = core.live_player.builder
        assert document["points"] == json.loads(_json(head(builder, "").points))
        assert json.loads(run.rounds(1, 2)) == [json.loads(wire(one_round(builder, k))) for k in (1, 2)]
    kinds = {knob["name"]: knob.get("moves", "") for knob in document["knobs"]}
    assert kinds["gamma"] == "slide"
    assert kinds["temperature"] == "number"
    assert set(kinds.values()) <= {"slide", "number", "switch", "choice", ""}
    assert json.loads(run.points(2)) == document["points"][2:]


def _json(document: Any) -> bytes:
    import msgspec

    return msgspec.json.encode(document)


def test_a_moved_knob_is_asked_for_then_in_force_from_a_round(core: ServedRun) -> None:
    _held(core, 2)
    place = [spec.name for spec in core.run.header.knob_specs].index("gamma") if core.run.header else 0
    core.command(SetKnob(name="gamma", value=7))
    assert _now(core)["now"]["knobs"][place]["sent_text"] == "7"
    core.command(StepRounds(n=1))
    until(lambda: core.run.changes, "no acknowledgement")
    knob = _now(core)["now"]["knobs"][place]
    applied = core.run.changes[-1].applied_r
    assert ("sent_text" in knob, knob["since"]) == (False, f"r{applied}")
    until(lambda: "cannot be told yet" in _now(core)["now"].get("last", ""), "nothing is said of what it did")
    until(lambda: len(core.run.rounds) >= applied, "no round")
    assert "◆" in json.loads(LiveRounds(core, run_key(core)).points(applied - 1))[0]["markers"]


def test_a_run_that_another_one_followed_is_refused_as_the_newest_and_played_as_a_past_one(core: ServedRun) -> None:
    _held(core, 2)
    first = LiveRounds(core, run_key(core))
    core.start(Start(prompt="y", paused=True))
    until(lambda: core.generation == 2, "no second run")
    with pytest.raises(SpecvizError, match="another run has begun"):
        first.rounds(0, 1)
    assert run_key(core).startswith(LIVE_RUN)
    name = next(iter(core.past))
    stages = RunStore()
    run = stages.run(stages.offer_events(lambda: core.events_of(name), name))
    assert json.loads(run.head())["name"] == name
    assert json.loads(run.rounds(0, 1))[0]["index"] == 0


def test_one_request_gets_so_many_rounds_at_most(core: ServedRun) -> None:
    _held(core, MOST_ROUNDS + 2)
    assert len(json.loads(LiveRounds(core, run_key(core)).rounds(0, 999_999_999))) == MOST_ROUNDS


@pytest.mark.parametrize("index", [-1, 99])
def test_a_round_that_is_not_there_is_refused(index: int, core: ServedRun) -> None:
    _held(core, 1)
    with pytest.raises(SpecvizError, match="no round"):
        LiveRounds(core, run_key(core)).rounds(index, 1)


def test_the_pace_of_the_picture_is_changed_for_all(core: ServedRun) -> None:
    core.start(Start(prompt="x"), paced=True)
    until(lambda: core.running, "no run")
    core.command(decode_asked(b'{"cmd":"pace","speed":0.5}'))
    assert _now(core)["now"]["ms"] == 900
    core.command(SetPace(speed=0))
    assert not core.paced
    assert _now(core)["now"]["ms"] == 0
    with pytest.raises(SpecvizError, match="no speed 3"):
        core.command(SetPace(speed=3))


def test_the_same_message_refused_again_is_told_again(core: ServedRun) -> None:
    """A page that saw nothing between the two has sent it away, and needs it back."""
    messages = [_now(core)["said"]]
    for _ in range(2):
        core.talk.unsent = ""  # the message is sent
        core.talk.give_back("this is too long")
        messages.append(_now(core)["said"])
    assert len(set(messages)) == 3
    core.talk.unsent = ""  # and it is sent once more
    assert _now(core)["said"] == messages[0]


def test_what_was_said_is_told_as_text(core: ServedRun) -> None:
    assert json.loads(conversation(core)) == {"above": [], "below": "", "shown": False, "unsent": ""}


def test_what_is_awaited_is_told_with_the_step_and_its_seconds(core: ServedRun) -> None:
    """From the models to the first round; nothing once there is one."""
    assert _now(core)["awaits"] == ""
    with core.lock:
        core.catalogue, core.loading = None, "step 2 of 3, the draft model"
        assert "step 2 of 3, the draft model" in _now(core)["awaits"]
        assert _now(core)["seconds"] >= 0


def test_the_knobs_of_the_next_run_are_those_that_were_set_and_it_begins_with_them(core: ServedRun) -> None:
    core.command(SetKnob(name="gamma", value=7))
    knobs = json.loads(LiveRounds(core, run_key(core)).knobs_of("draft"))
    (gamma,) = [knob for knob in knobs if knob["name"] == "gamma"]
    assert (gamma["staged"], gamma["staged_text"]) == (7, "7")
    assert core.with_knobs(Start(prompt="x")).knobs["gamma"] == 7
    with pytest.raises(SpecvizError, match="no method that is loaded has a knob 'nonsense'"):
        core.command(SetKnob(name="nonsense", value=1))
    with pytest.raises(SpecvizError, match="gamma"):
        core.command(SetKnob(name="gamma", value="many"))
