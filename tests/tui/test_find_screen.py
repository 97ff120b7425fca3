"""The key / and what follows it: a filter is typed, matches are gone to, what is wrong with it is said in its place."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from textual.widgets import Input, Static

from specviz.errors import SpecvizError
from specviz.runlog.fold import fold
from specviz.trace import read_events
from specviz.view import Player
from specviz.view.find.search import filter_for, matches
from specviz_tui.actions import finding, seeking
from specviz_tui.app import SpecvizApp
from specviz_tui.screens.dialogs import AskScreen
from support.live import NARROW, WIDE, main_of, replay_app, shown


def place(app: SpecvizApp) -> tuple[int, int | None]:
    frame = main_of(app).frame
    assert frame is not None
    return frame.cursor.index, frame.selected


def every(path: Path, text: str) -> list[tuple[int, int | None]]:
    run = fold(read_events(path))
    wanted = filter_for(run, text)
    return [(record.index, node) for record in run.rounds for node in matches(record, wanted)]


async def typed(pilot, words: str) -> None:  # type: ignore[no-untyped-def]
    await pilot.press("slash")
    await pilot.pause()
    box = pilot.app.screen.query_one(Input)
    box.value = words
    await pilot.press("enter")
    await pilot.pause()
    await pilot.pause()


@pytest.mark.parametrize("size", [WIDE, NARROW])
async def test_matches_are_gone_through_and_back(tree_trace: Path, size: tuple[int, int]) -> None:
    wanted = every(tree_trace, "rejected and depth > 1")
    assert len(wanted) > 2
    app = replay_app(tree_trace)
    async with app.run_test(size=size) as pilot:
        await typed(pilot, "rejected and depth > 1")
        seen = [place(app)]
        for _ in wanted[1:]:
            await pilot.press("n")
            await pilot.pause()
            seen.append(place(app))
        assert seen == wanted
        assert "/ rejected and depth > 1" in shown(app)
        await pilot.press("n")
        await pilot.pause()
        assert place(app) == wanted[0]
        await pilot.press("N")
        await pilot.pause()
        assert place(app) == wanted[-1]
        await pilot.press("escape")
        await pilot.pause()
        assert "/ rejected" not in shown(app)


async def test_rounds_are_found_too(chain_trace: Path) -> None:
    wanted = every(chain_trace, "n_accepted = 0 or changed")
    app = replay_app(chain_trace)
    async with app.run_test(size=WIDE) as pilot:
        await typed(pilot, "n_accepted = 0 or changed")
        assert place(app)[0] in [index for index, _ in wanted]


async def test_what_is_wrong_is_said_where_it_is_typed(chain_trace: Path) -> None:
    app = replay_app(chain_trace)
    async with app.run_test(size=WIDE) as pilot:
        await typed(pilot, "dept > 2")
        assert isinstance(app.screen, AskScreen)
        assert "did you mean 'depth'?" in str(app.screen.query_one("#hint", Static).render())
        await pilot.press("escape")
        await typed(pilot, "?")
        assert "p: the target's probability" in str(app.screen.query_one("#hint", Static).render())
        await pilot.press("escape")
        await typed(pilot, "depth > 99")
        assert "nothing in this run" in shown(app)


async def test_a_long_run_is_looked_through_while_the_screen_goes_on(
    tree_trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With no time for more than one round at a time, it arrives all the same, ticks later."""
    monkeypatch.setattr(finding, "AT_ONCE_S", 0)
    monkeypatch.setattr(finding, "TICK_S", 1e-9)
    monkeypatch.setattr(seeking, "LONG", 1)
    last = every(tree_trace, "rejected")[-1]
    app = replay_app(tree_trace)
    async with app.run_test(size=WIDE) as pilot:
        await typed(pilot, f"rejected and node = {last[1]}")
        assert "looked through" in shown(app)
        main = main_of(app)
        search = main.controller.group(finding.FindActions)
        for _ in range(200):
            search.tick()
            if search._going is None:
                break
        await pilot.pause()
        assert place(app) == last
        run = main.feed.player.run
        words = "".join(run.rounds[-1].commit.texts) if run.rounds[-1].commit else ""
        main.controller.group(seeking.SeekActions).seek(words)
        while search._going is not None:
            search.tick()
        await pilot.pause()
        assert words in run.queries[0].text


async def test_a_place_that_is_not_there_is_answered_without_looking_through_the_text(
    tree_trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Player, "text_places", lambda *_: pytest.fail("a place is no piece of the text"))
    app = replay_app(tree_trace)
    async with app.run_test(size=WIDE) as pilot:
        main = main_of(app)
        places = main.controller.group(seeking.SeekActions)
        n = len(main.feed.player.run.rounds)
        assert places.place_hint("r2") == f"enter goes to round 2 of {n}"
        assert places.place_hint("r3500") == f"no round 3500 in query 0; it has rounds 1 to {n}"
        with pytest.raises(SpecvizError, match=f'it has rounds 1 to {n}; "r3500", in quotes, is looked for'):
            places.seek("r3500")
        await pilot.pause()


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    keys=st.lists(
        st.sampled_from(["slash", "n", "N", "escape", "enter", "right", "]", "r", "q", "greater_than_sign"]),
        max_size=25,
    )
)
async def test_any_keys_in_any_order(tree_trace: Path, keys: list[str]) -> None:
    app = replay_app(tree_trace)
    async with app.run_test(size=NARROW) as pilot:
        for key in keys:
            if key == "q" and not isinstance(app.screen, AskScreen):
                continue
            await pilot.press({"]": "right_square_bracket"}.get(key, key))
        await pilot.pause()
        assert app.is_running
        assert place(app)[0] >= 0
