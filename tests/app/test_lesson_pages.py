"""Every lesson as one file: small, asking nobody for anything; what it names is seen, and it judges as Python does."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

pytest.importorskip("playwright", reason="playwright is not installed (extra dev)")
from specviz.sources.lesson_file import lesson_file
from specviz.sources.lessons import bundled_lessons, lesson_script
from specviz.view.lessons import LessonQuestion, judge, read_number
from specviz.view.lessons.deeds import DEEDS
from specviz.view.stage.chromium import chromium, executable
from specviz.view.stage.page import painter

pytestmark = pytest.mark.skipif(
    executable() is None, reason="no chromium on this machine: apt-get install chromium, or name one in CHROMIUM"
)
MOST_BYTES = 400_000
SIZES = ((1280, 720), (390, 844))
LESSONS = tuple(bundled_lessons())
_TYPED = (
    "3",
    " 3 ",
    ".25",
    "0,25",
    "1/4",
    "25%",
    "-1",
    "1e3",
    "",
    "x",
    "1/0",
    "1//2",
    "3 4",
    "%",
    "1/4%",
    "1.2.3",
    "1e99",
)
# Texts that are in the window and not below something else, but for what the lesson itself says.
_SEEN = """() => {
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), seen = [];
  for (let text = walk.nextNode(); text; text = walk.nextNode()) {
    const element = text.parentElement;
    if (!text.textContent.trim() || !element.checkVisibility({ opacityProperty: true })) continue;
    if (element.closest(".say, .question, .verdict, .do, script, style, noscript")) continue;
    const range = document.createRange();
    range.selectNodeContents(text);
    const box = range.getBoundingClientRect();
    const at = [box.left + Math.min(box.width / 2, 8), box.top + box.height / 2];
    const over = box.width && document.elementFromPoint(...at);
    if (over && (over.contains(element) || element.parentElement.contains(over))) seen.push(text.textContent);
  }
  return seen;
}"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pages = tmp_path_factory.mktemp("lessons")
    for id in LESSONS:
        (pages / f"{id}.html").write_text(lesson_file(id, siblings=True), encoding="utf-8")
    return pages


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as chrome:
        yield chrome


@pytest.fixture
def opened(browser: Any, folder: Path) -> Iterator[Any]:
    """Opens a lesson in a window that reaches nothing; it must have asked for nothing, and complained of nothing."""
    addresses: list[str] = []
    context = browser.new_context(offline=True, reduced_motion="reduce")

    def opened(id: str, size: tuple[int, int] = SIZES[0], behind: str = "") -> Any:
        page = context.new_page()
        page.set_viewport_size({"width": size[0], "height": size[1]})
        page.on("request", lambda request: addresses.append(request.url))
        page.on("console", lambda message: addresses.append(message.text))
        page.on("pageerror", lambda error: addresses.append(str(error)))
        page.goto(f"file://{folder / id}.html{behind}")
        page.wait_for_function("() => globalThis.lesson?.at >= 0")
        return page

    yield opened
    context.close()
    assert [line for line in addresses if not line.startswith("file://")] == []


@pytest.mark.parametrize("id", LESSONS)
def test_a_lesson_is_small_and_what_it_names_is_seen_on_a_laptop_and_on_a_phone(
    opened: Any, folder: Path, id: str
) -> None:
    assert (folder / f"{id}.html").stat().st_size <= MOST_BYTES
    steps = lesson_script(id).steps
    for size in SIZES:
        page = opened(id, size)
        for k, step in enumerate(steps):
            page.evaluate("k => lesson.go(k)", k)
            parts = " ".join(page.evaluate(_SEEN))
            missing = [name for name in step.see if name not in parts]
            assert not missing, f"step {k + 1} at {size} names {missing}, which is not to be seen"
            if step.question is not None:
                spoilt = _answers_in(page.inner_text(".why"), step.question)
                assert not spoilt, f"step {k + 1} at {size} asks for {spoilt}, which WHY tells"
        assert page.evaluate("document.documentElement.scrollWidth") == size[0]
        page.close()


def _answers_in(why: str, question: LessonQuestion) -> list[str]:
    """What of the answer a text gives away: a chance or a mean, a choice by its name, or what would flip a test."""
    answers = [question.shown] if question.kind != "number" or "." in question.shown else []
    return [words for words in (*answers, "What would flip it", "lossy") if words.casefold() in why.casefold()]


_TREE = """() => {
  const box = document.querySelector(".canvas").getBoundingClientRect();
  const nodes = [...document.querySelectorAll(".node:not(.away)")];
  const cards = nodes.map((node) => node.querySelector(".card").getBoundingClientRect());
  const letter = (one) => parseFloat(getComputedStyle(one).fontSize) * one.getScreenCTM().a;
  return { n: nodes.length, away: document.querySelectorAll(".node.away").length,
    out: cards.filter(({ left, right, top, bottom }) =>
      left < box.left || right > box.right || top < box.top || bottom > box.bottom).length,
    least: Math.min(...nodes.map((node) => letter(node.querySelector(".word")))) };
}"""


@pytest.mark.parametrize("id", LESSONS)
def test_on_a_laptop_a_lesson_s_tree_is_all_there_and_can_be_read(opened: Any, id: str) -> None:
    page = opened(id)
    for k in range(len(lesson_script(id).steps)):
        page.evaluate("k => lesson.go(k)", k)
        page.wait_for_timeout(60)  # as below
        tree = page.evaluate(_TREE)
        assert (tree["away"], tree["out"]) == (0, 0), k
        assert tree["least"] > 10, k


def test_on_a_phone_a_lesson_s_tree_is_as_much_of_it_as_can_be_read(opened: Any) -> None:
    id = LESSONS[3]
    page, n_folded = opened(id, SIZES[1]), 0
    for k in range(len(lesson_script(id).steps)):
        page.evaluate("k => lesson.go(k)", k)
        page.wait_for_timeout(60)  # the box is another one where a place is asked for
        tree = page.evaluate(_TREE)
        assert (tree["n"] > 3, tree["out"]) == (True, 0), k
        assert tree["least"] > 10.9, k
        n_folded += tree["away"] > 0
    assert n_folded


def test_what_would_flip_a_test_is_told_when_the_answer_is_there(opened: Any) -> None:
    id = LESSONS[2]
    page = opened(id)
    k = next(k for k, step in enumerate(lesson_script(id).steps) if step.question and step.question.kind == "choice")
    page.evaluate("k => lesson.go(k)", k)
    flip = page.locator(".why .flip")
    assert flip.count() == 1
    assert not flip.is_visible()
    page.keyboard.press("a")
    flip.wait_for()


def test_the_last_lesson_leads_on(opened: Any) -> None:
    page, script = opened(LESSONS[-1]), lesson_script(LESSONS[-1])
    page.evaluate("k => lesson.go(k)", len(script.steps))
    ending = page.inner_text(".lesson .body")
    assert [f"{door.say}: {door.command}" in ending for door in script.then] == [True, True]


def _answers(question: LessonQuestion) -> list[float]:
    """Every choice, node and stop; of a number the ends of every range, and a little beside them."""
    if question.kind == "number":
        ends = [end for answer in question.answers for end in (answer.lo, answer.hi)]
        return [value for end in ends for value in (end, end - 1e-9, end + 1e-9, end - 1, end + 1)]
    if question.kind == "place":
        return [*question.places, -1, 10**6]
    return [*map(float, range(len(question.choices) + len(question.stops) + 1)), -1]


def test_a_page_judges_answers_and_reads_numbers_as_python_does(browser: Any) -> None:
    asked = [step.question for id in LESSONS for step in lesson_script(id).steps if step.question is not None]
    page = browser.new_page()
    names = "judged, readNumber, isDone, deeds: Object.keys(DEEDS)"
    page.add_script_tag(type="module", content=f"{painter('lesson')}\nglobalThis.found = {{ {names} }};")
    page.wait_for_function("() => globalThis.found")
    grid = [_answers(question) for question in asked]
    by_page = page.evaluate(
        "([asked, grid]) => asked.map((question, k) => grid[k].map((answer) => found.judged(question, answer)))",
        [msgspec.to_builtins(asked), grid],
    )
    own = [[judge(question, answer) for answer in answers] for question, answers in zip(asked, grid, strict=True)]
    assert by_page == [[{"right": verdict.right, "words": verdict.words} for verdict in verdicts] for verdicts in own]
    assert {verdict.right for verdicts in own for verdict in verdicts} == {True, False}
    assert page.evaluate("typed => typed.map(found.readNumber)", list(_TYPED)) == [read_number(text) for text in _TYPED]
    assert page.evaluate("found.deeds") == list(DEEDS)
    acted = "{round: 9, phase: 6, acts: new Set(['choose', 'round 1'])}"
    waits = page.evaluate(f"[{{}}, {{did: 'next round'}}].map((until) => found.isDone({{ until }}, {acted}))")
    assert waits == [False, True], "a step that waits for nothing is left by the button, as in the terminal"
    page.close()


def _first_choice(id: str) -> tuple[int, int]:
    """The first step of a lesson that offers choices, and one that is wrong."""
    for k, step in enumerate(lesson_script(id).steps):
        if step.question is not None and step.question.kind == "choice":
            return k, next(c for c in range(len(step.question.choices)) if not judge(step.question, c).right)
    raise AssertionError(f"no choice in {id}")


def test_answers_are_judged_kept_and_taken_away_and_wait_for_the_teacher_s_key(opened: Any) -> None:
    id = LESSONS[1]
    k, wrong = _first_choice(id)
    question = lesson_script(id).steps[k].question
    assert question is not None
    page, verdict = opened(id), ".lesson .verdict"
    page.evaluate("k => lesson.go(k)", k)
    page.locator(".lesson .choice").nth(wrong).click()
    assert judge(question, wrong).words in page.inner_text(verdict)
    page.reload()
    page.wait_for_function("k => globalThis.lesson?.at === k", arg=k)  # where it was left
    with page.expect_download() as download:
        page.evaluate("() => lesson.download('Ada')")
    marks = msgspec.json.decode(download.value.path().read_bytes())
    own = marks["lessons"][id]
    assert (own["name"], own["asked"]) == ("Ada", lesson_script(id).n_questions)
    assert own["marks"] == [
        {
            "step": k + 1,
            "question": question.text,
            "answers": [question.choices[wrong]],
            "first_right": False,
            "passed": False,
        }
    ]

    taught = opened(LESSONS[2], behind="?teach=1")
    k, wrong = _first_choice(LESSONS[2])
    asked = lesson_script(LESSONS[2]).steps[k].question
    assert asked is not None
    taught.evaluate("k => lesson.go(k)", k)
    taught.locator(".lesson .choice").nth(wrong).click()
    assert judge(asked, wrong).words not in taught.inner_text(verdict)
    taught.keyboard.press("a")
    taught.get_by_text(f"The answer: {asked.shown}.").wait_for()
