"""Scripts of lessons: every lesson that comes along becomes one, its answers are what its recording says."""

import shlex
from math import isclose
from pathlib import Path

import click
import msgspec
import pytest

from specviz.cli import group, main
from specviz.errors import SpecvizError
from specviz.events import prob
from specviz.probability.philox import uniform
from specviz.sources.lessons import (
    bundled_lessons,
    lesson_id,
    lesson_minutes,
    lesson_script,
    next_lesson,
    open_recording,
)
from specviz.trace.bundled import all_bundled
from specviz.view.frame.frame import Cursor, Feed, Options
from specviz.view.lessons import (
    LessonAnswer,
    LessonNow,
    LessonQuestion,
    LessonScript,
    LessonStep,
    LessonUntil,
    done,
    judge,
    make_script,
    read_lesson,
    read_number,
)
from specviz.view.lessons.asks import ASKS, AskScene
from specviz.view.lessons.lesson import Lesson
from specviz.view.words.palette import Phase
from specviz.whatif import token_law

IDS = list(bundled_lessons())
DOCS = Path(__file__).parents[3] / "docs"
PLAIN = 'title = "T"\nabout = "a"\ntrace = "explain-draft"\n'


def questions(script: LessonScript) -> list[LessonQuestion]:
    return [step.question for step in script.steps if step.question is not None]


def answers(question: LessonQuestion) -> list[float]:
    """What a learner can answer: all there is to choose from; of a number the ends of every range."""
    if question.kind == "choice":
        return list(range(len(question.choices)))
    if question.kind == "place":
        return list(question.places)
    if question.kind == "slider":
        return list(range(len(question.stops)))
    return [(answer.lo + answer.hi) / 2 for answer in question.answers]


@pytest.mark.parametrize("id", IDS)
def test_a_lesson_asks_at_least_twice_and_ends_with_a_command(id: str) -> None:
    script = lesson_script(id)
    assert script.n_questions >= 2
    assert script.steps[-1].command.startswith("specviz ")
    assert all_bundled()[script.trace].stat().st_size < 1_500_000


def test_how_long_it_takes_goes_by_words_and_acts_and_is_what_the_page_says() -> None:
    step, page = {"say": "word " * 50}, (DOCS / "learn.md").read_text("utf-8")
    reading, asking = [Lesson("", "", "", "", "", (one,) * 8).minutes for one in (step, {**step, "ask": "n_kept"})]
    assert reading == 2  # 400 words
    assert asking > 2 * reading
    assert f"lessons of {lesson_minutes()} each" in page


@pytest.mark.parametrize("id", IDS)
def test_no_answer_stands_in_the_why_panel_while_it_is_asked_for(id: str) -> None:
    """Of a chance or a mean; a count may be any number that is seen."""
    script = lesson_script(id)
    player = open_recording(script.trace)
    for question in filter(None, (step.question for step in script.steps)):
        if question.kind == "number" and question.before is not None and "." in question.shown:
            at = question.before
            options = Options(selected=at.node if at.node >= 0 else None)
            why = player.builder.frame(Cursor(at.index, Phase(at.phase), at.step), options, Feed()).why
            assert why is None or question.shown not in {row.value for row in why.rows}


@pytest.mark.parametrize("id", IDS)
def test_what_one_can_say_at_the_end_is_what_the_page_promises(id: str) -> None:
    lesson = bundled_lessons()[id]
    page = (Path(__file__).parents[3] / "docs/learn.md").read_text(encoding="utf-8")
    assert f"| {lesson.number} | {lesson.title} | {lesson.can} |" in page


def test_a_prefix_is_made_up_for_where_its_weight_grows() -> None:
    """By the weights of the rule itself: whole prefixes keep at least as much at every place, and more in all."""
    board = next(step.board for step in lesson_script(IDS[6]).steps if step.board and "Chance" in step.board.title)
    *places, total = board.rows
    assert all(row.bar is not None and row.bar >= float(row.note.split()[-1]) - 1e-3 for row in places)
    assert float(total.value) > float(total.note.split()[-1])
    asked = next(question for question in questions(lesson_script(IDS[6])) if "makes up" in question.text)
    assert {judge(asked, place).right for place in asked.places} == {True, False}
    assert "nothing before it is weak" in judge(asked, asked.places[0]).words


@pytest.mark.parametrize("id", IDS)
def test_every_answer_is_judged_and_some_are_right_and_some_wrong(id: str) -> None:
    for question in questions(lesson_script(id)):
        verdicts = [judge(question, answer) for answer in answers(question)]
        assert {verdict.right for verdict in verdicts} == {True, False}, question.text
        assert all(verdict.words for verdict in verdicts), question.text
        assert question.shown, question.text
        if question.kind == "number":
            assert judge(question, 1e6).words, "any number gets an answer"
        if question.kind == "slider":
            assert not judge(question, question.start).right, f"{question.text}: it begins at its end"


@pytest.mark.parametrize("id", IDS)
def test_a_script_is_plain_data_and_the_same_each_time(id: str) -> None:
    script = lesson_script(id)
    data = msgspec.json.encode(script)
    assert msgspec.json.decode(data, type=LessonScript) == script
    assert msgspec.json.encode(make_script(bundled_lessons()[id], open_recording)) == data
    assert len(data) < 40_000


def test_a_question_is_answered_by_its_records() -> None:
    """Of every round of a recording: the answer that counts as right is what was recorded."""
    player = open_recording("story-weak")
    n_drawn = 0
    for index, record in enumerate(player.run.rounds):
        assert record.end is not None
        scene = AskScene("here", player, open_recording, index, None, {})
        assert judge(ASKS["n_kept"](scene), record.end.n_accepted).right
        assert judge(ASKS["n_written"](scene), record.end.n_emitted).right
        lost = [node for node, verdict in record.verdicts.items() if verdict.status == "rejected"]
        if lost:
            assert judge(ASKS["first_lost"](scene), lost[0]).right
        for node, verdict in record.verdicts.items():
            if verdict.u is None:
                continue
            here = AskScene("here", player, open_recording, index, node, {})
            assert judge(ASKS["kept"](here), int(verdict.status != "accepted")).right
            p, q = prob(verdict.logp), prob(record.nodes[node].logq)
            assert p is not None
            assert q
            assert judge(ASKS["keep_chance"](here), min(1.0, p / q)).right
            if verdict.status == "rejected":
                drawn = ASKS["replaced"](here)
                assert record.closing is not None
                best = max(record.closing.row or [], key=lambda row: row[1] - (row[2] or 0.0))
                (right,) = (choice for k, choice in enumerate(drawn.choices) if judge(drawn, k).right)
                assert right.startswith(player.run.word(best[0]))
                n_drawn += 1
    assert n_drawn


def test_a_number_that_was_not_drawn_is_the_one_that_would_have_been() -> None:
    player = open_recording("story-weak")
    for index, record in enumerate(player.run.rounds):
        scene = AskScene("here", player, open_recording, index, None, {})
        assert record.query.prefill is not None
        for node, verdict in record.verdicts.items():
            keyed = uniform(record.query.prefill.seed, "accept", record.r, record.nodes[node].pos)
            assert isclose(scene.u(node), keyed, abs_tol=1e-12), (record.r, node, verdict.u)


def test_the_law_of_one_place_is_exact() -> None:
    p, q = (0.5, 0.3, 0.2), (0.1, 0.2, 0.7)
    for rule in ("tokenwise", "hsd_ref", "blockwise", "walk"):
        assert token_law(p, q, rule) == pytest.approx(p, abs=1e-12)
    assert token_law(p, q, "slack", slack=1.0) == pytest.approx(q, abs=1e-12), "all is kept"
    with pytest.raises(SpecvizError, match="both laws need the same ones"):
        token_law(p, (1.0,), "tokenwise")


def test_wrong_ideas_are_answered_by_name() -> None:
    one, why, still = (questions(lesson_script(IDS[k])) for k in range(3))
    counted_bonus = judge(one[0], float(one[0].shown) + 1)
    assert "of the target's own" in counted_bonus.words
    chance = next(question for question in why if question.kind == "number")
    assert "That is p:" in judge(chance, 0.164).words
    law = next(question for question in still if question.kind == "number")
    assert "how often the draft guesses" in judge(law, 0.3).words
    assert "replacement from p" in judge(law, 0.7).words


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("title = ", "lesson x: "),
        ('title = "T"', "needs title, about and trace"),
        (PLAIN, "it has no [[step]]"),
        (PLAIN + "[[step]]\nsay = ''", "step 1: it needs 'say'"),
        (PLAIN + f"[[step]]\nsay = '{'word ' * 61}'", "step 1: 61 words; at most 60"),
        (PLAIN + "[[step]]\nsay = 'a'\nuntil = 3", "step 1: 'until' is a table"),
        (PLAIN + "[[step]]\nsay = 'a'\nuntil.fase = 3", "nothing is known as until.fase; did you mean 'phase'"),
        (PLAIN + "[[step]]\nsay = 'a'\nsai = 'a'", "nothing is known as 'sai'; did you mean 'say'"),
        (PLAIN + "[[step]]\nsay = 'a'\nask = 'keep'", "nothing can be asked as 'keep'; did you mean 'kept'"),
        (PLAIN + "[[step]]\nsay = 'a'\nask = 'kept'\nof = 'r1'", "step 1: no node with a test of its own"),
        (PLAIN + "[[step]]\nsay = 'a'\nask = 'n_kept'\nof = 'r999'", "step 1: no round 999"),
        (PLAIN + "[[step]]\nsay = 'a'\nask = 'n_kept'\ndo = 'next step'", "it has no 'do' and no 'until'"),
        (
            PLAIN + "[[step]]\nsay = 'a'\ndo = 'next stop'",
            "done as 'next stop'; did you mean 'next step'",
        ),
        (PLAIN + "[[step]]\nsay = 'a'\nboard = 'law'", "nothing can be shown as 'law'"),
        (PLAIN + "[[step]]\nsay = '{r1/n0.pp}'", "{r1/n0.pp}: no 'pp' here"),
        (PLAIN + "[[step]]\nsay = '{nowhere.p}'", "no place 'nowhere'"),
        (PLAIN + "[[step]]\nsay = 'a'\nat = 'r1'\nphase = 9", "phase 9 is none of 1 to 6"),
        (PLAIN.replace("explain-draft", "explain-draught") + "[[step]]\nsay = 'a'", "did you mean 'explain-draft'"),
    ],
)
def test_what_is_wrong_with_a_lesson_is_one_line(text: str, message: str) -> None:
    with pytest.raises(SpecvizError) as error:
        make_script(read_lesson("x", text), open_recording)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_the_first_range_that_holds_an_answer_judges_it() -> None:
    ranges = (LessonAnswer(1, 2, "right", True), LessonAnswer(0, 9, "near"))
    question = LessonQuestion("number", "?", ranges, otherwise="far", shown="1", reason="so")
    assert judge(question, 2).right
    assert judge(question, 3).words == "near"
    assert judge(question, 10).words == "far"


def test_a_step_is_done_when_all_of_it_is_so() -> None:
    deed = LessonStep("a", until=LessonUntil(did="next round"))
    far = LessonStep("a", until=LessonUntil(phase=4, round=3))
    assert done(deed, LessonNow(1, 1, ("next round",)))
    assert not done(deed, LessonNow(9, 6))
    assert done(far, LessonNow(3, 4))
    assert not done(far, LessonNow(2, 6))
    assert not done(far, LessonNow(3, 3))
    assert not done(LessonStep("a"), LessonNow(9, 6)), "a step without conditions waits for the key"


def test_numbers_are_read_as_people_type_them() -> None:
    assert [read_number(text) for text in (".7", "0,7", "70 %", "7/10")] == pytest.approx([0.7] * 4)
    assert [read_number(text) for text in ("", "seven", "1/0", "nan", "inf", "1e400")] == [None] * 6


def test_lessons_are_called_by_number_and_by_name() -> None:
    first = IDS[0]
    assert lesson_id("1") == lesson_id(first) == lesson_id(first.partition("-")[2]) == first
    assert next_lesson(first) == IDS[1]
    assert next_lesson(IDS[-1]) is None
    with pytest.raises(SpecvizError, match="no lesson '99'; known: 1-one-round"):
        lesson_id("99")


@pytest.mark.parametrize("id", IDS)
def test_the_command_at_the_end_is_one(id: str) -> None:
    """Its options are read as the command line reads them; `&&` joins two."""
    script = lesson_script(id)
    commands = [script.steps[-1].command, *(door.command for door in script.then)]
    assert bool(script.then) == (next_lesson(id) is None), "behind the last lesson no other leads on"
    for line in " && ".join(commands).split(" && "):
        words = shlex.split(line)
        assert words[0] == "specviz"
        command: click.Command | None = group
        context, rest = click.Context(group), words[1:]
        while isinstance(command, click.Group):
            _, command, rest = command.resolve_command(context, rest)
        assert command is not None
        command.make_context("specviz", rest, parent=context)


def test_learn_lists_lessons_and_refuses_what_is_none(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["learn"]) == 0
    out = capsys.readouterr().out
    assert all(lesson.title in out for lesson in bundled_lessons().values())
    for words, message in (
        (["learn", "one-rond"], "did you mean '1-one-round'"),
        (["learn", "--teach"], "--teach and --marks go with a lesson"),
        (["learn", "1", "--marks", str(tmp_path)], "it is a folder"),
        (["learn", "1"], "no terminal: a lesson needs one"),
    ):
        assert main(words) == 2
        error = capsys.readouterr().err
        assert message in error
        assert error.count("\n") == 1
