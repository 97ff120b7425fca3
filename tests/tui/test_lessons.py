"""Every lesson, done as it says: the keys it asks for lead from step to step on the real screen."""

from collections.abc import Sequence

import pytest
from textual.pilot import Pilot
from textual.widgets import OptionList

from specviz.sources.bundled import bundled_lessons
from specviz_tui.app import SpecvizApp
from specviz_tui.screens.library import LESSON, Library
from specviz_tui.screens.main import MainScreen
from specviz_tui.screens.open import OpenScreen
from specviz_tui.widgets.lesson_line import LessonLine
from support.live import WIDE, replay_app, shown

# What a learner presses at each step; a key that is to be pressed "until" may be pressed so often.
KEYS: dict[str, Sequence[Sequence[str]]] = {
    "1-one-round": [["home"], ["."], [">"], [">"], [">"], [">"], ["L"], ["2", "L"]],
    "2-why-rejected": [["}"], ["enter"], ["v"], ["enter"], ["1", "L"], ["]"]],
    "3-tree": [["left"], ["x"], ["}"], ["6"], ["1"]],
    "4-early-exit": [["2"], ["left"], ["v"], ["1"]],
    "5-in-parallel": [["3"], ["c"], ["]"], ["1"]],
    "6-backward-scan": [["5"], ["}"], [","], ["1"]],
    "7-does-it-pay": [["i"], ["enter"], ["6"], ["1"], ["L"]],
}
OFTEN = 8


def state(app: SpecvizApp) -> LessonLine:
    screen = app.screen_stack[0]
    assert isinstance(screen, MainScreen)
    return screen.query_one(LessonLine)


async def begun(pilot: Pilot[int], app: SpecvizApp, id: str) -> None:
    await app.workers.wait_for_complete()
    await pilot.pause()
    assert isinstance(app.screen, OpenScreen), "with nothing given the list is there"
    box = app.screen.query_one(OptionList)
    box.highlighted = [option.id for option in box.options].index(LESSON + id)
    await pilot.press("enter")
    await pilot.pause()


@pytest.mark.parametrize("id", sorted(bundled_lessons()))
async def test_doing_what_a_lesson_says_leads_through_it(id: str) -> None:
    app = SpecvizApp(Library(animate=False, look=list))
    async with app.run_test(size=WIDE) as pilot:
        await begun(pilot, app, id)
        line = state(app)
        assert line.state is not None
        assert len(KEYS[id]) == len(line.state.lesson.steps)
        for at, keys in enumerate(KEYS[id]):
            assert line.state is not None
            assert line.state.at == at
            assert line.state.lesson.steps[at].say[:20] in " ".join(shown(app).split())
            for _ in range(OFTEN):
                await pilot.press(*keys)
                await pilot.pause()
                if line.state.at > at:
                    break
            assert line.state.at == at + 1, f"step {at + 1}: {keys} does not do it"
        assert line.state.over


async def test_nothing_happens_by_itself_and_a_key_leads_on_without() -> None:
    app = SpecvizApp(Library(animate=False, look=list))
    async with app.run_test(size=WIDE) as pilot:
        await begun(pilot, app, "1-one-round")
        line = state(app)
        for key, at in (("v", 0), ("L", 1), ("backspace", 0), ("backspace", 0)):
            await pilot.press(key)
            await pilot.pause()
            assert line.state is not None
            assert line.state.at == at
        await pilot.press("escape")
        await pilot.pause()
        assert line.state is None
        assert app.feed.name == "explain-draft", "the recording stays"


async def test_a_question_hides_its_verdict_until_it_is_answered() -> None:
    app = SpecvizApp(Library(animate=False, look=list))
    async with app.run_test(size=WIDE) as pilot:
        await begun(pilot, app, "1-one-round")
        line = state(app)
        while line.state is not None and line.state.question is None:
            await pilot.press("L")
            await pilot.pause()
        before = app.feed.player.cursor
        for key in (".", ">", "]", "}", "u", "end", "9"):
            await pilot.press(key)
            await pilot.pause()
            assert app.feed.player.cursor == before, f"{key} would show the verdict"
        assert line.state is not None
        assert line.state.question is not None
        reason = line.state.question.reason
        assert "REJECTED" not in shown(app)
        await pilot.press("1")  # wrong
        await pilot.pause()
        assert line.state.open
        assert "Try again" in shown(app)
        await pilot.press("2")
        await pilot.pause()
        assert not line.state.open
        assert reason[:30] in shown(app)
        assert "REJECTED" in shown(app)
        await pilot.press("L")
        await pilot.pause()
        assert line.state.over
        assert "0 of 1 answered right at the first try" in shown(app)


async def test_without_a_lesson_the_key_opens_the_list_at_the_lessons(chain_trace: object) -> None:
    app = replay_app(chain_trace)  # type: ignore[arg-type]
    async with app.run_test(size=WIDE) as pilot:
        await pilot.press("L")
        await pilot.pause()
        assert isinstance(app.screen, OpenScreen)
        at = app.screen.query_one(OptionList).highlighted_option
        assert at is not None
        assert str(at.id).startswith(LESSON)
