"""Every lesson, gone through on the real screen, with wrong answers, at the sizes of a small terminal and a projector.

What a step names (its `see`, and every glyph in its words) must stand on the screen outside the lesson's own box.
"""

import json
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import OptionList

from specviz.errors import SpecvizError
from specviz.sources.lesson_progress import LessonMark, LessonResult, check_marks, kept_progress, write_marks
from specviz.sources.lessons import bundled_lessons, lesson_script
from specviz.view.lessons import LessonQuestion, LessonStep, judge
from specviz.view.lessons.deeds import DEEDS
from specviz.view.words.palette import STYLES
from specviz_tui.actions.learning import LearningActions
from specviz_tui.app import SpecvizApp
from specviz_tui.screens.library import LESSON, LessonStart, Library
from specviz_tui.screens.open import OpenScreen
from specviz_tui.widgets.lesson_line import LessonLine, LessonState
from support.live import WIDE, lines, main_of, replay_app, shown

IDS = list(bundled_lessons())
SIZES = ((80, 24), (100, 30))
KEYS = {
    "first moment": "home",
    "next step": ".",
    "next phase": ">",
    "next round": "]",
    "next rejection": "}",
    "look at nodes": "down",
}
GLYPHS = {style.glyph for style in STYLES.values()} - {" "}
TYPED = {".": "full_stop"}


def learn_app(id: str, **learning: object) -> SpecvizApp:
    return SpecvizApp(Library(animate=False, look=list, learning=LessonStart(id, **learning)))  # type: ignore[arg-type]


def state(app: SpecvizApp) -> LessonState:
    lesson_state = main_of(app).query_one(LessonLine).state
    assert lesson_state is not None
    return lesson_state


async def settle(pilot: Pilot[int]) -> None:
    """Until what a key began has been painted."""
    await pilot.pause()
    await pilot.pause()


async def begun(pilot: Pilot[int], app: SpecvizApp) -> None:
    await app.workers.wait_for_complete()
    for _ in range(20):
        await settle(pilot)
        if main_of(app).query_one(LessonLine).state is not None:
            return
    raise AssertionError("the lesson does not begin")


def picture(app: SpecvizApp) -> str:
    """What is on the screen outside the lesson's box."""
    box = main_of(app).query_one(LessonLine).region
    return "\n".join(line for y, line in enumerate(lines(app)) if not box.y <= y < box.bottom)


def named(step: LessonStep) -> set[str]:
    """Glyphs that stand by themselves in a step's words, and what it says is seen."""
    return {word for word in step.say.replace(":", " ").split() if word in GLYPHS} | set(step.see)


def wrong_and_right(question: LessonQuestion) -> tuple[float, float]:
    """An answer of either kind that a learner can give."""
    if question.kind == "number":
        answers = [round((answer.lo + answer.hi) / 2, 3) for answer in question.answers if answer.hi < 1e6]
    elif question.kind == "place":
        answers = list(question.places)
    else:
        answers = list(range(len(question.choices) or len(question.stops)))
    judged = [(judge(question, answer).right, answer) for answer in answers]
    return next(a for right, a in judged if not right), next(a for right, a in judged if right)


async def give(pilot: Pilot[int], app: SpecvizApp, question: LessonQuestion, answer: float) -> None:
    if question.kind == "choice":
        await pilot.press(str(int(answer) + 1))
    elif question.kind == "number":
        await pilot.press(*(TYPED.get(letter, letter) for letter in f"{answer:g}"), "enter")
    elif question.kind == "place":
        main_of(app).controller.select(int(answer))
        await settle(pilot)
        await pilot.press("enter")
    else:
        by = int(answer) - state(app).stop
        await pilot.press(*(["right"] * by if by > 0 else ["left"] * -by), "enter")
    await settle(pilot)


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("id", IDS)
async def test_a_lesson_can_be_gone_through_and_shows_what_it_names(id: str, size: tuple[int, int]) -> None:
    app = learn_app(id)
    script = lesson_script(id)
    async with app.run_test(size=size) as pilot:
        await begun(pilot, app)
        for at, step in enumerate(script.steps):
            assert state(app).at == at
            words, seen = " ".join(shown(app).replace("│", " ").split()), picture(app)
            assert " ".join(step.say.split()[:4]) in words, step.say
            missing = [name for name in named(step) if name not in seen]
            assert not missing, f"step {at + 1} names {missing}, and the screen shows\n{seen}"
            box = main_of(app).query_one(LessonLine)
            assert box.max_scroll_y == 0, f"step {at + 1} does not fit into its box"
            if step.question is not None:
                assert "Flip" not in seen, "it names borders and rules that are asked for"
                wrong, right = wrong_and_right(step.question)
                before = app.feed.player.cursor
                await give(pilot, app, step.question, wrong)
                assert state(app).open
                assert app.feed.player.cursor == before, "a wrong answer shows nothing"
                assert box.max_scroll_y == 0, f"step {at + 1}, answered wrongly, does not fit into its box"
                assert "Not quite" in shown(app)
                await give(pilot, app, step.question, right)
                assert not state(app).open, step.question.text
                assert "Right:" in shown(app)
                await pilot.press("L")
            elif step.do is not None:
                assert KEYS[step.do.name] in ("home", "down") or KEYS[step.do.name] in step.do.terminal
                await pilot.press(KEYS[step.do.name])
                if not DEEDS[step.do.name].ends:
                    await settle(pilot)
                    assert state(app).at == at, "looking around is not cut short"
                    await pilot.press("L")
            else:
                await pilot.press("L")
            await settle(pilot)
        assert state(app).over
        n = script.n_questions
        assert f"0 of {n} answered right at the first try" in shown(app)
        assert [door.command in shown(app) for door in script.then] == [True] * len(script.then)
        assert main_of(app).query_one(LessonLine).max_scroll_y == 0, "the end does not fit into its box"
        assert kept_progress() == {id: LessonResult(0, n)}
        await pilot.press("L")
        await settle(pilot)
        following = IDS[IDS.index(id) + 1 :]
        if following:
            assert state(app).script.id == following[0], "L goes on to the next lesson"
        else:
            assert isinstance(app.screen, OpenScreen)


def test_every_deed_has_a_key_here() -> None:
    assert set(DEEDS) == set(KEYS)


async def test_nothing_happens_by_itself_and_a_key_leads_on_without() -> None:
    app = learn_app(IDS[0])
    async with app.run_test(size=WIDE) as pilot:
        await begun(pilot, app)
        for key, at in (("v", 0), ("L", 1), ("backspace", 0), ("backspace", 0)):
            await pilot.press(key)
            await settle(pilot)
            assert state(app).at == at
        await pilot.press("escape")
        await settle(pilot)
        assert main_of(app).query_one(LessonLine).state is None
        assert app.feed.name == "explain-draft", "the recording stays"


async def test_a_question_hides_its_verdict_until_it_is_answered() -> None:
    app = learn_app(IDS[1])
    async with app.run_test(size=WIDE) as pilot:
        await begun(pilot, app)
        await pilot.press("L")
        await settle(pilot)
        before = app.feed.player.cursor
        for key in (".", ">", "]", "}", "u", "end", "9", "enter"):
            await pilot.press(key)
            await settle(pilot)
            assert app.feed.player.cursor == before, f"{key} would show the verdict"
        assert state(app).open
        assert "REJECTED" not in shown(app)
        await pilot.press("L")  # may have been meant for the step before
        await settle(pilot)
        assert "L again: the answer" in shown(app)
        assert state(app).open
        await pilot.press("L")  # passes
        await settle(pilot)
        assert "The answer: rejected" in shown(app)
        assert "REJECTED" in shown(app)
        assert state(app).result == LessonResult(0, lesson_script(IDS[1]).n_questions)


async def test_a_teacher_goes_on_by_one_key_and_has_the_marks_in_a_file(tmp_path: Path) -> None:
    """Answers are not judged on screen until they are asked for, and no deed leads on."""
    marks = tmp_path / "marks.json"
    app = learn_app(IDS[0], teach=True, marks=marks)
    async with app.run_test(size=WIDE) as pilot:
        await begun(pilot, app)
        await pilot.press(">")
        await settle(pilot)
        assert state(app).at == 0, "only the teacher's key leads on"
        await pilot.press("L", "L")
        await settle(pilot)
        question = state(app).question
        assert question is not None
        wrong, right = wrong_and_right(question)
        for answer in (right, wrong):
            await give(pilot, app, question, answer)
            assert state(app).open
            assert "Right" not in shown(app)
            assert f"Answered: {answer:g}." in shown(app)
        await pilot.press("L")
        await settle(pilot)
        assert f"The answer: {question.shown}" in shown(app), "the last answer counts on screen"
    kept = json.loads(marks.read_text())["lessons"][IDS[0]]
    assert kept["marks"][0]["answers"] == [f"{right:g}", f"{wrong:g}"]
    assert kept["marks"][0]["first_right"], "the first one in the marks"


def test_marks_are_not_written_over_what_they_are_not(tmp_path: Path) -> None:
    script = lesson_script(IDS[0])
    path = tmp_path / "marks.json"
    check_marks(path)
    assert not path.exists()
    write_marks(path, script, (LessonMark(3, "?", ("6",), True),))
    write_marks(path, lesson_script(IDS[1]), ())
    assert list(json.loads(path.read_text())["lessons"]) == IDS[:2], "those of other lessons stay"
    path.write_text("a letter")
    for refused, why in ((path, "holds no marks"), (tmp_path, "it is a folder"), (tmp_path / "no/m", "no folder")):
        with pytest.raises(SpecvizError, match=why):
            check_marks(refused)
    assert path.read_text() == "a letter"


async def test_the_list_marks_lessons_that_were_gone_through(chain_trace: object) -> None:
    """Without a lesson the key opens the list at the first that is still to be learnt."""
    from specviz.sources.lesson_progress import keep_progress

    keep_progress(IDS[0], LessonResult(3, 5))
    keep_progress(IDS[0], LessonResult(2, 5))
    app = replay_app(chain_trace)  # type: ignore[arg-type]
    async with app.run_test(size=WIDE) as pilot:
        await pilot.press("L")
        await settle(pilot)
        assert isinstance(app.screen, OpenScreen)
        at = app.screen.query_one(OptionList).highlighted_option
        assert at is not None
        assert str(at.id) == LESSON + IDS[1]
        prompts = [str(option.prompt) for option in app.screen.query_one(OptionList).options]
        assert any("✓ 3/5" in prompt for prompt in prompts), "the best result"
        app.screen.query_one(OptionList).action_select()
        await begun(pilot, app)
        assert state(app).script.id == IDS[1]
        assert main_of(app).controller.group(LearningActions).lesson is not None


async def test_a_slider_s_picture_does_not_keep_the_test_of_the_old_decision() -> None:
    """A token that another u keeps would stand there as kept with a u that fails."""
    app = learn_app(IDS[1])
    at = next(k for k, step in enumerate(lesson_script(IDS[1]).steps) if step.question and step.question.stops)
    async with app.run_test(size=WIDE) as pilot:
        await begun(pilot, app)
        while state(app).at < at:
            await pilot.press("L")
            await settle(pilot)
        was = main_of(app).frame
        question = state(app).question
        assert was is not None
        assert question is not None
        right = next(k for k in range(len(question.stops)) if judge(question, k).right)
        old = {node.id: node.mark for node in was.tree.nodes}
        assert any(node.values.u is not None for node in was.tree.nodes)
        await pilot.press(*["left"] * (question.start - right))
        await settle(pilot)
        now = main_of(app).frame
        assert now is not None
        turned = [node for node in now.tree.nodes if node.mark != old[node.id]]
        assert turned
        assert all(node.values.u is None and not node.note for node in turned)
