"""Moving about: every way there has a way back, time is handed in, and a late view says what it passed over."""

import pytest

from specviz.errors import SpecvizError
from specviz.events import End, Event, RoundEnd
from specviz.runlog.fold import fold
from specviz.view import Cursor, Feed, Player
from specviz.view.play.player import ROUND_S, SPEEDS, STEP_S
from specviz.view.words.palette import Phase
from support.traces import make_events, plain_round, plain_run


@pytest.fixture
def player() -> Player:
    return Player(fold(make_events(shape="tree", temperature=0.8, seed=2)))


def walk(player: Player) -> list[Cursor]:
    player.first()
    seen = [player.cursor]
    while player.next_step():
        seen.append(player.cursor)
    return seen


def test_steps_go_through_the_phases_in_order(player: Player) -> None:
    seen = walk(player)
    assert seen == sorted(seen)
    assert len(set(seen)) == len(seen)
    first = [c for c in seen if c.index == 0]
    assert [c.phase for c in first if c.phase == Phase.ACCEPT] == [Phase.ACCEPT] * len(
        player.builder.round_tree(0).tests
    )
    assert {c.phase for c in first} == set(Phase)
    assert player.at_end


def test_back_is_the_way_there_reversed(player: Player) -> None:
    seen = walk(player)
    back = [player.cursor]
    while player.prev_step():
        back.append(player.cursor)
    assert back == seen[::-1]


def test_tests_come_in_their_true_order(player: Player) -> None:
    player.first()
    orders = []
    while player.next_step() and player.cursor.index == 0:
        frame = player.frame()
        if frame.phase == Phase.ACCEPT:
            node = frame.selected
            orders.append(player.run.rounds[0].verdicts[node].order if node is not None else None)
    assert orders == sorted(orders)
    assert len(orders) == len(player.builder.round_tree(0).tests)


def test_phases_and_rounds(player: Player) -> None:
    player.first()
    phases = []
    while player.cursor.index == 0:
        phases.append(player.cursor.phase)
        player.next_phase()
    assert phases == sorted(set(phases))
    assert player.cursor == Cursor(1, Phase.ROOT)
    player.next_round()
    assert player.cursor == Cursor(2, Phase.COMMIT)
    player.prev_round()
    assert player.cursor == Cursor(1, Phase.COMMIT)
    player.seek_index(10_000)
    assert player.at_end
    player.seek_index(-5)
    assert player.cursor.index == 0


def test_rejections(player: Player) -> None:
    """Forward through all failed tests of the run, backward through the same."""
    wanted = [
        (record.index, v.node)
        for record in player.run.rounds
        for v in player.builder.round_tree(record.index).tests
        if v.status == "rejected"
    ]
    player.first()
    forward = []
    while player.next_rejection():
        forward.append((player.cursor.index, player.frame().selected))
    assert forward == wanted
    backward = [forward[-1]]
    while player.prev_rejection():
        backward.append((player.cursor.index, player.frame().selected))
    assert backward == wanted[::-1]


def test_rejections_without_single_tests() -> None:
    player = Player(
        fold(plain_run([plain_round(1, 6, 4, 4, closing="bonus"), plain_round(2, 11, 4, 1), plain_round(3, 13, 4, 2)]))
    )
    player.first()
    assert player.next_rejection()
    assert player.frame().round == 2
    assert player.next_rejection()
    assert player.frame().round == 3
    assert not player.next_rejection()


def test_seek(player: Player) -> None:
    assert player.seek("r2/n17") == 17
    assert player.frame().round == 2
    assert player.seek("3") is None
    assert player.frame().round == 3
    assert player.seek("q0/r1") is None
    assert player.frame().round == 1
    with pytest.raises(SpecvizError, match="no round 999 in query 0; it has rounds 1 to"):
        player.seek("r999")
    with pytest.raises(SpecvizError, match="write a round and"):
        player.seek("over there")


def test_seek_by_position_time_and_text(player: Player) -> None:
    record = player.run.rounds[2]
    assert player.seek_position(record.start.n)
    assert player.cursor.index == 2
    assert not player.seek_position(10_000)
    player.first()
    player.seek_time(record.start.t + 1)
    assert player.cursor.index == 2
    assert record.commit is not None
    across = (player.run.rounds[1].commit.texts[-1] if player.run.rounds[1].commit else "") + record.commit.texts[0]
    player.seek_index(1)
    assert player.seek_text(across)
    texts = "".join(t for r in player.run.rounds[: player.cursor.index + 1] if r.commit for t in r.commit.texts)
    assert across in texts
    assert not player.seek_text("no such text")


# Time --------------------------------------------------------------------------------------------------------------


def test_playing_takes_one_step_when_its_time_has_come(player: Player) -> None:
    player.first()
    player.play()
    assert not player.tick(100.0)
    assert not player.tick(100.0 + STEP_S * 0.9)
    assert player.tick(100.0 + STEP_S * 1.01)
    assert player.cursor == walk(player)[1]


def test_speed_scales_time(player: Player) -> None:
    player.first()
    player.speed = 16.0
    player.play()
    player.tick(0.0)
    player.tick(STEP_S * 1.001)
    assert player.cursor == walk(player)[16]


def test_end_states_only(player: Player) -> None:
    player.animate = False
    player.first()
    player.play()
    player.tick(0.0)
    player.tick(ROUND_S + 0.01)
    assert player.cursor == Cursor(1, Phase.COMMIT)


def test_playing_as_recorded_follows_the_trace_clock(player: Player) -> None:
    ends = [r.end.t for r in player.run.rounds if r.end]
    player.seek_index(0)
    player.as_recorded()
    player.play()
    player.tick(0.0)
    gap = (ends[1] - ends[0]) / 1e9
    assert not player.tick(gap * 0.9)
    assert player.tick(gap * 1.01)
    assert player.cursor.index == 1
    assert player.frame().state.text == "PAUSED" or "as recorded" in player.frame().state.text


def test_a_recording_played_to_its_end_has_ended_and_starts_again(player: Player) -> None:
    player.first()
    player.play()
    assert player.frame().state.name == "replay"
    player.tick(0.0)
    player.tick(1e6)
    assert player.at_end
    assert player.frame().state.name == "ended"
    player.toggle()
    assert player.cursor == Cursor(0, Phase.ROOT)
    assert player.playing


def test_speeds_stop_at_both_ends() -> None:
    player = Player()
    for _ in range(20):
        player.faster()
    assert player.speed == SPEEDS[-1]
    for _ in range(20):
        player.slower()
    assert player.speed == SPEEDS[0]


# Live --------------------------------------------------------------------------------------------------------------


def rounds_of(events: list[Event]) -> list[list[Event]]:
    """The events cut after every round's end, the rest in the last piece."""
    pieces: list[list[Event]] = [[]]
    for event in events:
        pieces[-1].append(event)
        if isinstance(event, RoundEnd):
            pieces.append([])
    return pieces


def live() -> tuple[Player, list[list[Event]]]:
    pieces = rounds_of(make_events(shape="tree", temperature=0.8, seed=2, new_tokens=40))
    player = Player()
    player.extend(pieces[0])
    return player, pieces


def test_pausing_holds_the_screen_and_counts_what_waits() -> None:
    player, pieces = live()
    player.toggle()
    before = player.frame()
    for piece in pieces[1:4]:
        player.extend(piece)
        assert not player.tick(50.0)
    after = player.frame()
    assert after.cursor == before.cursor
    assert after.tree == before.tree
    assert after.state.text == "PAUSED (+3)"
    assert after.queue.text == "+3 waiting"
    assert len(after.timeline.points) == 4
    player.live()
    assert player.frame().round == 4
    assert player.frame().state.name == "live"


def test_a_view_that_keeps_up_animates_each_round() -> None:
    player, pieces = live()
    player.extend(pieces[1])
    seen = []
    for k in range(40):
        player.tick(k * STEP_S * 1.001)
        seen.append(player.cursor)
    assert {c.phase for c in seen if c.index == 1} >= {Phase.DRAFT, Phase.ACCEPT, Phase.COMMIT}
    assert player.frame().queue.text == ""


def test_a_late_view_passes_over_rounds_and_says_so() -> None:
    player, pieces = live()
    for piece in pieces[1:7]:
        player.extend(piece)
    assert player.tick(0.0)
    frame = player.frame()
    assert frame.round == 7
    assert frame.queue.text == "showing 1 of 6 rounds"
    assert [t.round for t in frame.strip.tokens if t.breaks] == [1, 2, 3, 4, 5, 6, 7]


def test_the_core_going_away_is_shown_and_the_trace_stays() -> None:
    player, pieces = live()
    player.extend([End(reason="core_lost", message="the worker went away")])
    frame = player.frame()
    assert frame.state.name == "core_lost"
    assert frame.state.detail == "the worker went away"
    assert frame.notices == ("core lost: the worker went away",)
    assert player.prev_step()
    assert len(pieces[0]) > 3


@pytest.mark.parametrize(
    ("feed", "name"),
    [
        (Feed("idle"), "idle"),
        (Feed("loading", "models"), "loading"),
        (Feed("error", "see the log"), "error"),
        (Feed("core_lost"), "core_lost"),
    ],
)
def test_states_before_a_run(feed: Feed, name: str) -> None:
    player = Player()
    frame = player.frame(feed=feed)
    assert frame.state.name == name
    assert frame.tree.missing == "waiting for the first round"
    for move in (
        player.next_step,
        player.prev_step,
        player.next_phase,
        player.first,
        player.live,
        player.next_rejection,
    ):
        assert not move()
    assert not player.tick(1.0)
