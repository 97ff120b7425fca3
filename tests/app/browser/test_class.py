"""Lessons in real browsers: a class with its teacher's page, and somebody who answers by the keys alone."""

from collections.abc import Callable
from typing import Any

from app.browser.acts import STAGE, until
from app.served import Served
from specviz.sources.lessons import bundled_lessons, lesson_script
from specviz.view.lessons import judge

FIRST = lesson_script(next(iter(bundled_lessons())))
ASKED = next(k for k, step in enumerate(FIRST.steps) if step.question is not None and step.question.kind == "number")
# One whose question leaves the picture where it is; a browser keeps how far one is, so it is of this test alone.
PAYS = lesson_script(list(bundled_lessons())[4])
PRICED = next(k for k, step in enumerate(PAYS.steps) if step.question is not None and step.question.kind == "number")


def _step(page: Any) -> str:
    return str(page.locator(f"{STAGE} .lesson .where").inner_text())


def _verdict(page: Any) -> str:
    return str(page.locator(f"{STAGE} .lesson .verdict").inner_text())


def test_a_class_goes_with_its_teacher_and_answers_on_its_own_page(
    recorded: Served, open_at: Callable[..., Any]
) -> None:
    teacher = open_at(f"{recorded.url}/stage?lesson={FIRST.number}&teach=1")
    teacher.locator(f"{STAGE} .lesson .say").wait_for()
    pupil = open_at(f"{recorded.url}/stage?mode=follow")
    pupil.locator(f"{STAGE} .lesson .say").wait_for()
    n = len(FIRST.steps)
    for k in range(1, ASKED + 1):
        teacher.keyboard.press("n")
        until(lambda k=k: f"{k + 1} of {n}" in _step(teacher), "the teacher's own page stays")
    until(lambda: f"{ASKED + 1} of {n}" in _step(pupil), "the class stays where it was")

    question = FIRST.steps[ASKED].question
    assert question is not None
    wrong = next(value for value in range(20) if not judge(question, value).right)
    box = pupil.get_by_label("your answer")
    box.fill(str(wrong))
    box.press("Enter")
    until(lambda: "Taken" in _verdict(pupil), "an answer is not taken")
    assert judge(question, wrong).words not in _verdict(pupil), "it is judged before the teacher shows it"
    assert _verdict(teacher) == "", "the answer of one is not the teacher's"

    teacher.keyboard.press("a")
    until(lambda: f"The answer: {question.shown}." in _verdict(pupil), "the class is not shown the answer")
    assert judge(question, wrong).words in _verdict(pupil), "nobody says what was wrong with it"
    assert f"The answer: {question.shown}." in _verdict(teacher)

    teacher.keyboard.press("n")
    until(lambda: f"{ASKED + 2} of {n}" in _step(pupil), "the class stays behind")
    assert _verdict(pupil) == ""


def test_a_number_is_written_without_a_click_and_over_the_one_before(
    recorded: Served, open_at: Callable[..., Any]
) -> None:
    page = open_at(f"{recorded.url}/stage?lesson={PAYS.number}")
    page.locator(f"{STAGE} .lesson .say").wait_for()
    for k in range(1, PRICED + 1):
        page.locator(f"{STAGE} .lesson .next").click()
        until(lambda k=k: f"{k + 1} of {len(PAYS.steps)}" in _step(page), "the lesson does not go on")
    question = PAYS.steps[PRICED].question
    assert question is not None
    wrong = next(value for value in range(10) if not judge(question, value).right)
    right = next(value for value in range(10) if judge(question, value).right)
    assert page.locator(".stage.quizzes").count() == 1
    assert page.locator(".stage.asks").count() == 0, "a question looks like what if"
    for typed in (str(wrong), str(right)):
        page.keyboard.type(typed)
        page.keyboard.press("Enter")
        until(lambda typed=typed: page.get_by_label("your answer").input_value() == typed, "it is written elsewhere")
    until(lambda: question.reason in _verdict(page), "the second answer is not judged")
