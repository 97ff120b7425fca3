"""A core held to the view: every round is asked for once, every step of it is shown, and nothing is passed over."""

from collections.abc import Iterator

import pytest

from specviz.events import End, Event, Header, RoundStart
from specviz.runlog.fold import fold
from specviz.view import Cursor, Pace, Player
from specviz.view.play.player import ROUND_S, STEP_S
from specviz.view.words.palette import Phase
from support.traces import make_events

EVENTS = make_events(shape="tree", temperature=0.8, seed=2, new_tokens=40)


def pieces() -> list[list[Event]]:
    """Header and prefill; then one list for every round; the end with the last round."""
    cut: list[list[Event]] = [[]]
    for event in EVENTS:
        if isinstance(event, RoundStart):
            cut.append([])
        cut[-1].append(event)
    return cut


def watched(animate: bool = True) -> Player:
    player = Player(animate=animate)
    player.every = True
    return player


def run(player: Player, tick_s: float, late: int = 0) -> Iterator[Cursor]:
    """A core that takes `late` looks for a round, until the last moment is on screen."""
    pace, (first, *rest), due = Pace(), pieces(), -1
    player.extend(first)
    for k in range(20_000):
        if due == k:
            player.extend(rest.pop(0))
        player.tick(k * tick_s)
        if player.run.rounds:
            yield player.cursor
        if player.run.end is None and pace.due(player):
            assert len(player.run.rounds) == len(EVENTS_BY_ROUND) - len(rest), "asked for twice"
            due = k + 1 + late
        if player.run.end is not None and player.at_end:
            return
    raise AssertionError(f"stands still at {player.cursor}")


EVENTS_BY_ROUND = pieces()[1:]


def moments() -> list[Cursor]:
    whole = Player(fold(EVENTS))
    whole.first()
    cursors = [whole.cursor]
    while whole.next_step():
        cursors.append(whole.cursor)
    return cursors


def unlike(seen: Iterator[Cursor]) -> list[Cursor]:
    cursors: list[Cursor] = []
    for cursor in seen:
        if not cursors or cursors[-1] != cursor:
            cursors.append(cursor)
    return cursors


@pytest.mark.parametrize("late", [0, 1, 40])
@pytest.mark.parametrize("speed", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("tick_s", [1 / 15, 0.7, 3.0])
def test_every_moment_of_every_round_is_shown_in_order(tick_s: float, speed: float, late: int) -> None:
    """Also by a terminal that looks once in three seconds, and with a core that takes its time."""
    player = watched()
    player.speed = speed
    assert unlike(run(player, tick_s, late)) == moments()


def test_without_animation_every_round_is_shown_for_its_time() -> None:
    player = watched(animate=False)
    stays: dict[int, int] = {}
    for cursor in run(player, ROUND_S / 10):
        assert cursor.phase == Phase.COMMIT
        stays[cursor.index] = stays.get(cursor.index, 0) + 1
    assert list(stays) == list(range(len(EVENTS_BY_ROUND)))
    assert min(list(stays.values())[1:-1]) >= 9


def test_the_core_is_at_most_one_round_ahead() -> None:
    player = watched()
    for cursor in run(player, 1 / 15):
        assert len(player.run.rounds) - cursor.index <= 2


def test_a_round_is_asked_for_once_however_often_one_looks() -> None:
    player, pace = watched(), Pace()
    player.extend(pieces()[0])
    assert [pace.due(player) for _ in range(3)] == [True, False, False]
    player.extend(pieces()[1])
    assert not pace.due(player)
    player.live()
    assert [pace.due(player) for _ in range(3)] == [True, False, False]


def test_the_run_counts_as_live_until_its_last_moment_is_on_screen() -> None:
    """The end comes with the last round, which is still to be seen."""
    player = watched()
    names = []
    for cursor in run(player, 1 / 15):
        if cursor.index == len(EVENTS_BY_ROUND) - 1:
            names.append(player.frame().state.name)
    assert player.run.end is not None
    assert set(names[:-1]) == {"live"}
    assert names[-1] == "ended"
    player.toggle()
    assert player.cursor == Cursor(0, Phase.ROOT)


@pytest.mark.parametrize("every", [True, False])
def test_following_never_goes_to_a_round_that_has_only_begun(every: bool) -> None:
    """Event by event: what is on screen has something to show, but for the first step of a round that is there."""
    player = Player()
    player.every = every
    for k, event in enumerate(EVENTS):
        player.extend([event])
        player.tick(k * STEP_S * 1.01)
        player.tick(k * STEP_S * 1.01 + 0.001)
        if player.run.rounds[1:]:
            steps = player.builder.steps(player.cursor.index)
            assert len(steps.moments) > 1, (k, event)
            player.live()
            assert len(player.builder.steps(player.cursor.index).moments) > 1, (k, event)


def test_a_live_view_does_not_make_up_for_the_time_it_waited() -> None:
    """A slow core: its next round is shown from its root on, step by step."""
    header_and_first = [e for piece in pieces()[:2] for e in piece]
    player = Player()
    player.extend(header_and_first)
    player.tick(0.0)
    player.tick(100.0)
    player.extend(pieces()[2])
    seen = [player.cursor]
    for k in range(4):
        player.tick(100.1 + k * STEP_S * 1.01)
        seen.append(player.cursor)
    every = [cursor for cursor in moments() if cursor.index == 1]
    assert [cursor for cursor in seen if cursor.index == 1] == every[:4]


def test_another_run_on_the_same_stream_is_shown_from_its_first_step() -> None:
    player = watched()
    player.extend(EVENTS)
    player.extend([event for event in EVENTS if not isinstance(event, End)][:12])
    assert isinstance(EVENTS[0], Header)
    assert player.cursor == Cursor(0, Phase.ROOT)
