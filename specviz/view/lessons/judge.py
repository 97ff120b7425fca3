"""`judge(question, answer) -> LessonVerdict`, and `done(step, now)`: whether a person did what a step asks."""

from collections.abc import Collection
from dataclasses import dataclass

from specviz.view.lessons.parts import LessonQuestion, LessonStep, LessonUntil


@dataclass(frozen=True, slots=True)
class LessonVerdict:
    """Whether an answer is right, and why it is not, or why it is."""

    right: bool
    words: str


def judge(question: LessonQuestion, answer: float) -> LessonVerdict:
    """The first range that holds the answer speaks."""
    for answers in question.answers:
        if answers.lo <= answer <= answers.hi:
            return LessonVerdict(answers.right, answers.words)
    return LessonVerdict(False, question.otherwise)


def read_number(text: str) -> float | None:
    """A number as people type it: `.7`, `0,7`, `70%`, `7/10`; None for anything else."""
    plain = text.strip().replace(",", ".").replace(" ", "")
    scale = 0.01 if plain.endswith("%") else 1.0
    above, slash, below = plain.removesuffix("%").partition("/")
    try:
        value = float(above) / (float(below) if slash else 1.0) * scale
    except (ValueError, ZeroDivisionError):
        return None
    return value if abs(value) < 1e9 else None


@dataclass(frozen=True, slots=True)
class LessonNow:
    """What a step is judged by: the round and phase on screen, and the deeds done since the step began."""

    round: int
    phase: int
    deeds: Collection[str] = ()


def done(step: LessonStep, now: LessonNow) -> bool:
    """Whether everything the step waits for is so; never for one that waits for the key that leads on, or asks."""
    until = step.until
    if step.question is not None or until == LessonUntil():
        return False
    did = not until.did or until.did in now.deeds
    return did and now.phase >= until.phase and now.round >= until.round
