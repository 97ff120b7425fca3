"""Replaying a trace: every key moves what it says, and what stands on the screen is the frame of the player."""

import gzip
from pathlib import Path

import pytest
from textual.geometry import Offset

from specviz.events import Warn
from specviz.trace import Recorder, Writer, read_events
from specviz_tui.app import SpecvizApp
from specviz_tui.screens.main import MainScreen
from specviz_tui.widgets.text_strip import TextStrip
from specviz_tui.widgets.timeline import Transport
from specviz_tui.widgets.tree import TreeCanvas
from specviz_tui.widgets.why_panel import WhyPanel
from support.live import WIDE, replay_app, shown


def frame_of(app: SpecvizApp):  # type: ignore[no-untyped-def]
    screen = app.screen_stack[0]
    assert isinstance(screen, MainScreen)
    assert screen.frame is not None
    return screen.frame


async def test_it_opens_at_the_end_of_the_first_round(chain_trace: Path) -> None:
    app = replay_app(chain_trace)
    async with app.run_test(size=WIDE) as pilot:
        await pilot.pause()
        frame = frame_of(app)
        assert (frame.round, frame.phase_text) == (1, "phase 6/6 COMMIT")
        assert "round 1 · phase 6/6 COMMIT" in shown(app)
        assert frame.counts.text in shown(app)


@pytest.mark.parametrize(
    ("keys", "rounds"), [("]", 2), ("]][", 2), ("[", 1), ("]]]", 4)], ids=["next", "and back", "not before 1", "three"]
)
async def test_brackets_go_by_rounds(chain_trace: Path, keys: str, rounds: int) -> None:
    app = replay_app(chain_trace)
    async with app.run_test(size=WIDE) as pilot:
        await pilot.press(*(key for key in keys))
        await pilot.pause()
        assert frame_of(app).round == rounds


async def test_home_and_end(chain_trace: Path) -> None:
    app = replay_app(chain_trace)
    async with app.run_test(size=WIDE) as pilot:
        await pilot.press("end")
        await pilot.pause()
        last = frame_of(app)
        assert last.round == last.n_rounds
        assert "ENDED" in shown(app)
        await pilot.press("home")
        await pilot.pause()
        assert (frame_of(app).round, frame_of(app).phase_text) == (1, "phase 1/6 ROOT")


async def test_steps_go_through_every_moment_and_phases_skip(chain_trace: Path) -> None:
    app = replay_app(chain_trace)
    async with app.run_test(size=WIDE) as pilot:
        await pilot.press("home")
        seen = []
        while frame_of(app).round == 1:
            await pilot.pause()
            seen.append((frame_of(app).phase, frame_of(app).step))
            await pilot.press("full_stop")
            await pilot.pause()
        assert seen == sorted(set(seen))  # forwards, each once
        assert {phase for phase, _ in seen} == {1, 2, 3, 4, 5, 6}
        await pilot.press("comma")
        await pilot.pause()
        assert (frame_of(app).round, frame_of(app).phase) == (1, 6)
        await pilot.press("home", "greater_than_sign", "greater_than_sign")
        await pilot.pause()
        assert frame_of(app).phase == 3


async def test_braces_stop_at_rejections_only(chain_trace: Path) -> None:
    app = replay_app(chain_trace)
    async with app.run_test(size=WIDE) as pilot:
        places = []
        for _ in range(3):
            await pilot.press("right_curly_bracket")
            await pilot.pause()
            frame = frame_of(app)
            places.append(frame.cursor)
            assert frame.why is not None
            assert frame.why.mark == "rejected"
            assert frame.why.headline in shown(app)
        await pilot.press("left_curly_bracket")
        await pilot.pause()
        assert frame_of(app).cursor == places[-2]


async def test_seek_takes_a_share_a_time_and_a_quoted_text(chain_trace: Path) -> None:
    app = replay_app(chain_trace)
    async with app.run_test(size=WIDE) as pilot:
        player = app.feed.player
        n = len(player.run.rounds)
        await pilot.press("g", *"50%")
        await pilot.pause()
        assert f"enter goes to round {round(0.5 * (n - 1)) + 1} of {n}" in shown(app)
        await pilot.press("enter")
        assert player.cursor.index == round(0.5 * (n - 1))
        await pilot.press("g", *"0s", "enter")
        assert player.cursor.index == 0
        text = player.run.rounds[2].commit.texts[0]
        await pilot.press("g", *f'"{text}"', "enter")
        await pilot.pause()
        assert any(text in token for token in player.run.rounds[player.cursor.index].commit.texts)
        here = player.cursor
        for typed, words in (
            ("101%", "behind the end"),
            ("9999s", "the run goes from 0s to"),
            ('"@@"', "is not found"),
        ):
            await pilot.press("g", *typed, "enter")
            await pilot.pause()
            assert words in shown(app)
            await pilot.press("escape")
        assert player.cursor == here


async def test_seek_takes_a_round_a_node_and_refuses_the_rest(chain_trace: Path) -> None:
    app = replay_app(chain_trace)
    async with app.run_test(size=WIDE) as pilot:
        await pilot.press("g", *"r3", "enter")
        await pilot.pause()
        assert frame_of(app).round == 3
        node = frame_of(app).tree.nodes[1].id
        await pilot.press("home", "g", *f"3/n{node}", "enter")
        await pilot.pause()
        assert (frame_of(app).round, frame_of(app).selected) == (3, node)
        await pilot.press("g", *"r999", "enter")
        await pilot.pause()
        assert "no round 999" in shown(app)
        await pilot.press("escape")
        await pilot.pause()
        assert frame_of(app).round == 3


async def test_a_place_on_the_command_line(chain_trace: Path) -> None:
    app = replay_app(chain_trace, at="r4")
    async with app.run_test(size=WIDE) as pilot:
        await pilot.pause()
        assert frame_of(app).round == 4


async def test_arrows_walk_the_tree_and_the_panel_follows(tree_trace: Path) -> None:
    app = replay_app(tree_trace)
    async with app.run_test(size=WIDE) as pilot:
        await pilot.press("h", *["h"] * 6)  # to the root
        await pilot.pause()
        assert frame_of(app).selected == -1
        await pilot.press("right")
        await pilot.pause()
        child = frame_of(app).selected
        tree = frame_of(app).tree
        assert tree.node(child).parent == -1
        await pilot.press("j")
        await pilot.pause()
        sibling = frame_of(app).tree.node(frame_of(app).selected)
        assert (sibling.column, sibling.row > tree.node(child).row) == (1, True)
        assert frame_of(app).why.node == sibling.id
        assert frame_of(app).why.title in shown(app)


async def test_a_click_selects_the_node_under_the_pointer(tree_trace: Path) -> None:
    app = replay_app(tree_trace)
    async with app.run_test(size=WIDE) as pilot:
        await pilot.pause()
        canvas = app.screen.query_one(TreeCanvas)
        wanted = [node for node in frame_of(app).tree.nodes if node.column == 1][-1]
        y = wanted.row
        x = next(x for x in range(canvas.size.width) if canvas.node_at(x, y) == wanted.id)
        await pilot.click(canvas, offset=(x, y))
        await pilot.pause()
        assert frame_of(app).selected == wanted.id


async def test_the_playhead_can_be_dragged(chain_trace: Path) -> None:
    app = replay_app(chain_trace)
    async with app.run_test(size=WIDE) as pilot:
        await pilot.pause()
        line = app.screen.query_one(Transport)
        await pilot.mouse_down(line, offset=Offset(60, 0))
        await pilot.pause()
        middle = frame_of(app).round
        assert 1 < middle < frame_of(app).n_rounds
        await pilot.hover(line, offset=Offset(118, 0))
        await pilot.mouse_up(line, offset=Offset(118, 0))
        await pilot.pause()
        assert frame_of(app).round == frame_of(app).n_rounds


async def test_enter_pins_the_panel_through_steps(chain_trace: Path) -> None:
    app = replay_app(chain_trace)
    async with app.run_test(size=WIDE) as pilot:
        await pilot.press("right_curly_bracket", "enter")
        await pilot.pause()
        pinned = frame_of(app).selected
        await pilot.press("full_stop")
        await pilot.pause()
        assert frame_of(app).selected == pinned
        await pilot.press("escape")
        await pilot.pause()
        assert not app.screen.query_one(WhyPanel).pinned


async def test_on_a_screen_without_room_for_both_enter_opens_the_panel(chain_trace: Path) -> None:
    app = replay_app(chain_trace)
    async with app.run_test(size=(80, 18)) as pilot:
        await pilot.press("right_curly_bracket")
        await pilot.pause()
        assert "REJECTED" not in shown(app)
        await pilot.press("enter")
        await pilot.pause()
        assert "REJECTED" in shown(app)
        await pilot.press("escape")
        await pilot.pause()
        assert "REJECTED" not in shown(app)


async def test_value_text_and_folding_change_their_form(tree_trace: Path) -> None:
    app = replay_app(tree_trace)
    async with app.run_test(size=WIDE) as pilot:
        modes = []
        for _ in range(5):
            await pilot.pause()
            modes.append(frame_of(app).value_mode)
            await pilot.press("v")
        assert modes == ["q", "p", "p/q", "u", "rank"]
        strip = app.screen.query_one(TextStrip)
        assert strip.mode == "text"
        await pilot.press("t", "t")
        assert strip.mode == "ids"
        before = len(frame_of(app).tree.nodes)
        await pilot.press("x")
        await pilot.pause()
        folded = len(frame_of(app).tree.nodes)
        await pilot.press("X")
        await pilot.pause()
        assert folded < before <= len(frame_of(app).tree.nodes)


async def test_a_bookmark_is_marked_listed_and_found(chain_trace: Path) -> None:
    app = replay_app(chain_trace)
    async with app.run_test(size=WIDE) as pilot:
        await pilot.press("]", "]", "b", *"odd", "enter")
        await pilot.pause()
        assert "⚑" in frame_of(app).timeline.points[2].markers
        await pilot.press("home", "B", "enter")
        await pilot.pause()
        assert frame_of(app).round == 3


async def test_two_bookmarks_of_one_round_stand_in_the_list(chain_trace: Path) -> None:
    app = replay_app(chain_trace)
    async with app.run_test(size=WIDE) as pilot:
        await pilot.press("]", "b", *"one", "enter", "b", *"two", "enter", "B")
        await pilot.pause()
        assert "one" in shown(app)
        assert "two" in shown(app)
        await pilot.press("j", "enter")
        await pilot.pause()
        assert frame_of(app).round == 2


async def test_export_writes_the_screen_and_the_node(
    chain_trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    app = replay_app(chain_trace)
    async with app.run_test(size=WIDE) as pilot:
        await pilot.press("right_curly_bracket", "e", "enter")
        await pilot.pause()
        await pilot.press("e", "j", "enter")
        await pilot.pause()
        node = frame_of(app).selected
    (svg,) = tmp_path.glob("*.svg")
    assert svg.read_text().startswith("<svg")
    (record,) = tmp_path.glob("*.json")
    assert f'"node": {node}' in record.read_text()


async def test_two_queries_are_one_time_line(two_queries: Path) -> None:
    app = replay_app(two_queries)
    async with app.run_test(size=WIDE) as pilot:
        await pilot.press("end")
        await pilot.pause()
        assert frame_of(app).query == 1
        assert "query 1" in shown(app)


async def test_a_recording_that_was_cut_off_says_so(chain_trace: Path, tmp_path: Path) -> None:
    whole = gzip.decompress(chain_trace.read_bytes()).splitlines(keepends=True)
    cut = tmp_path / "cut.sv.jsonl"
    cut.write_bytes(b"".join(whole[: len(whole) // 2]) + b'{"ev":"no')
    app = replay_app(cut)
    async with app.run_test(size=WIDE) as pilot:
        assert frame_of(app).round == 1
        await pilot.press("end")
        await pilot.pause()
        assert "cut off" in shown(app)
        assert "LIVE" not in shown(app)


async def test_a_file_that_still_grows_is_followed(chain_trace: Path, tmp_path: Path) -> None:
    events = read_events(chain_trace)
    half = len(events) // 2
    recorder = Recorder(tmp_path / "grows")
    for event in events[:half]:
        recorder.write(event)
    recorder.write(Warn(code="x", message="written at once"))  # a round in hand is flushed with it
    app = replay_app(tmp_path / "grows")
    async with app.run_test(size=WIDE) as pilot:
        await pilot.pause()
        before = frame_of(app)
        assert (before.state.name, before.round) == ("live", before.n_rounds)
        for event in events[half:]:
            recorder.write(event)
        app.screen.tick()
        await pilot.pause()
        after = frame_of(app)
        assert (after.state.name, after.round) == ("ended", after.n_rounds)
        assert after.n_rounds > before.n_rounds


async def test_the_palette_runs_what_the_keys_run(chain_trace: Path) -> None:
    app = replay_app(chain_trace)
    async with app.run_test(size=WIDE) as pilot:
        await pilot.press("ctrl+p")
        await pilot.pause()
        await pilot.press(*"last round")
        await app.workers.wait_for_complete()
        await pilot.pause(0.3)
        await pilot.press("enter")
        await pilot.pause(0.3)
        assert frame_of(app).round == frame_of(app).n_rounds


async def test_knobs_of_a_recording_cannot_be_moved(chain_trace: Path) -> None:
    app = replay_app(chain_trace)
    async with app.run_test(size=WIDE) as pilot:
        await pilot.press("K", "right")
        await pilot.pause()
        assert "a recording" in shown(app)
        assert all(item.staged is None for item in frame_of(app).knobs.items)


async def test_a_run_of_a_loop_without_knobs_does_not_say_that_nothing_has_started(tmp_path: Path) -> None:
    with Writer(tmp_path / "loop", "engine", known="counts", clock=lambda: 0) as writer:
        writer.round(n_drafted=4)
        writer.committed([-1, -1], n_accepted=1)
    app = replay_app(writer.path)
    async with app.run_test(size=WIDE) as pilot:
        await pilot.pause()
        assert frame_of(app).n_rounds == 1
        assert "nothing has started" not in shown(app)
        assert "what made this run told none" in shown(app)
