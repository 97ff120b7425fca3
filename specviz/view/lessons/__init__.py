"""Guided lessons over recordings: a TOML file and its recording become a script that every front-end plays."""

from specviz.view.lessons.judge import LessonNow, LessonVerdict, done, judge, read_number
from specviz.view.lessons.lesson import Lesson, read_lesson
from specviz.view.lessons.parts import (
    LessonAnswer,
    LessonBoard,
    LessonDeed,
    LessonMoment,
    LessonQuestion,
    LessonScript,
    LessonStep,
    LessonUntil,
    SliderStop,
)
from specviz.view.lessons.script import make_script

__all__ = [
    "Lesson",
    "LessonAnswer",
    "LessonBoard",
    "LessonDeed",
    "LessonMoment",
    "LessonNow",
    "LessonQuestion",
    "LessonScript",
    "LessonStep",
    "LessonUntil",
    "LessonVerdict",
    "SliderStop",
    "done",
    "judge",
    "make_script",
    "read_lesson",
    "read_number",
]
