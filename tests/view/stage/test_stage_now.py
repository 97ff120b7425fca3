"""A run that goes on as the stage follows it: where it stands, and how its knobs are moved."""

from typing import Any

import pytest

from specviz.events import RoundStart
from specviz.knobs import KnobSpec
from specviz.view import Player
from specviz.view.stage.now import next_knobs, stage_now
from specviz.view.stage.parts import LiveUpdate
from support.traces import make_events


def _now(player: Player) -> LiveUpdate:
    return stage_now(player, player.frame(), "live1")


def test_a_bare_root_is_not_stood_at() -> None:
    events = list(make_events(new_tokens=24))
    first = next(k for k, event in enumerate(events) if isinstance(event, RoundStart))
    player = Player()
    player.extend(events[: first + 1])
    assert (_now(player).index, _now(player).n) == (-1, 1)
    player.extend(events[first + 1 :])
    player.live()
    now = _now(player)
    assert now.index == len(player.run.rounds) - 1
    assert now.still
    assert now.first + len(now.points) == now.n == len(player.run.rounds)


def test_a_round_that_has_grown_has_another_stamp() -> None:
    events = list(make_events(new_tokens=24))
    second = [k for k, event in enumerate(events) if isinstance(event, RoundStart)][1]
    stamps = set()
    player = Player(animate=False)
    for event in events[: second - 1]:
        player.extend([event])
        stamps.add(_now(player).stamp)
    assert len(stamps) > 2


def test_at_the_core_s_own_pace_nothing_is_waited_for() -> None:
    player = Player()
    player.extend(make_events(new_tokens=24))
    assert _now(player).ms == 0
    player.every, player.speed = True, 2.0
    assert _now(player).ms == 225


def test_every_knob_of_the_run_has_its_control() -> None:
    player = Player()
    player.extend(make_events(new_tokens=24))
    assert player.run.header is not None
    knobs = _now(player).knobs
    assert [knob.name for knob in knobs] == [spec.name for spec in player.run.header.knob_specs]
    assert all(bool(knob.moves) == (knob.kind != "texts") for knob in knobs)


def _spec(**more: Any) -> KnobSpec:
    return KnobSpec(name="x", help="x", **more)


@pytest.mark.parametrize(
    ("spec", "kind", "step"),
    [
        (_spec(kind="int", default=4, lo=1, hi=32), "slide", 1),
        (_spec(kind="int", default=4, lo=0, hi=100_000), "number", 1),
        (_spec(kind="float", default=0.5, lo=0.0, hi=1.0), "slide", 0.01),
        (_spec(kind="float", default=0.001, lo=0.0, hi=1.0), "number", 0.0005),
        (_spec(kind="int", default=4, lo=1, hi=32, applies="X"), "slide", 1),
        (_spec(kind="choice", default="a", choices=("a", "b")), "choice", 1),
        (_spec(kind="bool", default=True), "switch", 1),
        (_spec(kind="texts", default=[]), "", 1),
    ],
)
def test_a_knob_is_moved_by_what_reaches_its_values(spec: KnobSpec, kind: str, step: float) -> None:
    (knob,) = next_knobs([spec], {}, {})
    assert (knob.moves, knob.step) == (kind, step)


def test_the_knobs_of_the_next_run_stand_as_they_were_left_or_chosen_since() -> None:
    specs = [_spec(kind="int", default=4, lo=1, hi=32), KnobSpec(name="y", help="y", kind="bool", default=False)]
    now = next_knobs(specs, {"x": 6}, {"y": True})
    assert [(knob.value, knob.staged) for knob in now] == [(6, None), (False, True)]
    assert {knob.applies_text for knob in now} == {"next run"}
    assert not any(knob.disabled for knob in now)


def test_heading_and_values_are_of_now_wherever_the_picture_stands() -> None:
    """A change is told with its value, and with what it does to the promise, while a round before it is looked at."""
    player = Player(animate=False)
    player.extend(make_events(temperature=0.8, new_tokens=40, knob_at=5))
    player.seek_index(0)
    change = player.run.changes[-1]
    place = next(k for k, item in enumerate(player.frame().knobs.items) if item.name == change.name)
    knob = _now(player).knobs[place]
    assert (knob.value, knob.since) == (change.new, f"r{change.applied_r}")
    assert "T .80" in _now(player).title


def test_before_a_run_nothing_is_promised() -> None:
    now = _now(Player())
    assert (now.title, now.badge, now.facts) == ("", "", "")
