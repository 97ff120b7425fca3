"""Lessons as data: those that come along can be read and are over recordings that come along; what is wrong is told."""

import pytest

from specviz.errors import SpecvizError
from specviz.metrics import measure
from specviz.runlog.fold import fold
from specviz.sources.bundled import bundled_lessons, bundled_traces
from specviz.trace import read_events
from specviz.view import Player
from specviz.view.lessons.lesson import LessonScene, PressStep, done, read_lesson
from specviz.view.lessons.quiz import make_question
from specviz.view.panels import all_panels
from support.traces import make_events

PLAIN = 'title = "T"\nabout = "a"\ntrace = "t"\n'


@pytest.mark.parametrize("id", sorted(bundled_lessons()))
def test_a_lesson_that_comes_along_leads_through_a_recording_that_comes_along(id: str) -> None:
    lesson = read_lesson(id, bundled_lessons()[id])
    assert 3 <= len(lesson.steps) <= 8
    assert lesson.trace in bundled_traces()
    player = Player(fold(read_events(bundled_traces()[lesson.trace])), animate=False)
    if lesson.at:
        player.seek(lesson.at)  # raises where there is no such place
    screens = {"tree", *(panel.id for panel in all_panels())}
    for step in lesson.steps:
        wanted = dict(step.until).get("panel", [])
        assert {wanted} if isinstance(wanted, str) else set(wanted) <= screens


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("title = ", "lesson x: "),
        ('title = "T"', "needs title, about and trace"),
        (PLAIN, "it has no [[step]]"),
        (PLAIN + "[[step]]\nsay = ''", "step 1: it needs 'say'"),
        (PLAIN + f"[[step]]\nsay = '{'word ' * 61}'", "step 1: 61 words; at most 60"),
        (PLAIN + "[[step]]\nsay = 'a'\nuntil = 3", "step 1: 'until' is a table"),
        (PLAIN + "[[step]]\nsay = 'a'\nask = 'keep'", "nothing can be asked as 'keep'; did you mean 'kept'"),
        (PLAIN + "[[step]]\nsay = 'a'\nask = 'kept'", "a question needs 'of'"),
        (PLAIN + "[[step]]\nsay = 'a'\nuntil.fase = 3", "nothing is known as until.fase; did you mean 'phase'"),
    ],
)
def test_what_is_wrong_with_a_lesson_is_one_line(text: str, told: str) -> None:
    with pytest.raises(SpecvizError) as error:
        read_lesson("x", text)
    assert told in str(error.value)
    assert "\n" not in str(error.value)


def test_a_step_is_done_when_all_of_it_is_so() -> None:
    player = Player(fold(make_events(temperature=0.8)), animate=False)
    player.seek_index(2)
    seen = LessonScene(player.frame(), "lanes", False, ("step(1)", "go_to('lanes')"))

    def holds(**until: object) -> bool:
        return done(PressStep("a", "b", tuple(until.items())), seen)

    assert holds(action="step")
    assert holds(action=["play", "step(1)"])
    assert not holds(action="step(-1)")
    assert holds(panel="lanes", round=3, phase=6, value="q", pinned=False)
    assert not holds(panel="lanes", round=4)
    assert not holds(phase=6, value="p")
    assert not holds(), "a step without conditions waits for the key"


def test_the_answers_to_a_question_come_from_the_recording() -> None:
    """Every node and round of a recording asked: what counts as right is what its records say."""
    player = Player(fold(read_events(bundled_traces()["explain-draft"])), animate=False)
    n_replaced = 0
    for record in list(player.run.rounds):
        place = f"r{record.r}"
        counted = make_question(PressStep("a", "", ask="n_kept", of=place), player)
        assert record.end is not None
        assert counted.choices[counted.right] == (str(record.end.n_accepted) if record.end.n_accepted else "none")
        for node, verdict in record.verdicts.items():
            if verdict.order is None:
                continue
            asked = make_question(PressStep("a", "", ask="kept", of=f"{place}/n{node}"), player)
            assert asked.choices[asked.right] == {"accepted": "kept"}.get(verdict.status, verdict.status)
            assert asked.before < asked.after
            if verdict.status == "rejected" and record.closing is not None and record.closing.token is not None:
                drawn = make_question(PressStep("a", "", ask="replaced", of=f"{place}/n{node}"), player)
                assert drawn.choices[drawn.right].startswith(player.run.word(record.closing.token))
                n_replaced += 1
    assert n_replaced, "the recording has rejections"
    with pytest.raises(SpecvizError):
        make_question(PressStep("a", "", ask="replaced", of="r1/n0"), player)


def test_what_the_texts_claim_is_true_of_their_recordings() -> None:
    """Numbers and fates that a lesson's words name, asked of the recording that it leads through."""
    tree = fold(read_events(bundled_traces()["explain-tree"]))
    for r in (1, 2):  # lesson 3: where its key for the next rejection may lead
        record = next(each for each in tree.rounds if each.r == r)
        lost = [record.nodes[node] for node, verdict in record.verdicts.items() if verdict.status == "rejected"]
        kept = [record.nodes[node].parent for node, verdict in record.verdicts.items() if verdict.status == "accepted"]
        assert lost
        assert all(node.parent in kept for node in lost), "a sibling of each was kept"
    dear = measure(read_events(bundled_traces()["code-specbound"]))
    assert dear.block_efficiency.value > 2  # lesson 7
    speed = None if dear.over_plain is None else dear.over_plain.times
    assert speed is not None
    assert speed.interval is not None
    assert speed.interval[1] < 1
