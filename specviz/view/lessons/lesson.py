"""`read_lesson(id, text) -> Lesson`: a lesson as it is written, in TOML.

    title, about, trace   what it is called, what one learns, the recording it is over
    can                   what one can say behind it; it is asked for at the end
    [[then]]              where it leads on to when it is done: `say` and `command`
    [[step]]
    say     what is seen, at most 60 words; {r3/n12.p} is filled in from the recording (`facts`)
    do      a deed (`deeds`), which every front-end words by its own control; `for`: what it is done for, behind it
    until   what the step waits for besides: { phase = 4, round = 3 }; with `do` alone it waits for the deed
    at      where the picture goes when the step begins, "r3/n12"; `phase`: to this phase of the round (1 to 6)
    see     what the words name and the picture must show, a list
    value   what stands beside the tokens: q, p, p/q, u, rank
    board   numbers to stand beside the picture (`asks.BOARDS`)
    ask     a question (`asks.ASKS`) with `of`, the place it asks about; other fields are its own
    command a line for a shell

The answer is never written here: the recording gives it.
"""

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from specviz.errors import SpecvizError, suggestion
from specviz.view.lessons.parts import LessonThen

MOST_WORDS = 60
_READ = 200  # words a minute, of somebody new to them
_ASKED, _DONE = 2 / 3, 1 / 4  # minutes: for a question with its answer; for a deed, or numbers to look at
FIELDS = ("say", "do", "for", "until", "at", "phase", "see", "value", "board", "ask", "of", "command", "with")
_UNTIL = ("phase", "round")


@dataclass(frozen=True, slots=True)
class Lesson:
    """A lesson as written. `steps`: tables whose fields are known, with texts still to be filled in."""

    id: str
    title: str
    about: str
    trace: str
    can: str
    steps: tuple[Mapping[str, Any], ...]
    then: tuple[LessonThen, ...] = ()

    @property
    def number(self) -> int:
        """Its place in the list: what its name begins with; 0 for one that has none."""
        head = self.id.partition("-")[0]
        return int(head) if head.isascii() and head.isdigit() else 0

    @property
    def minutes(self) -> int:
        """How long it takes at a first reading, by its words and by what is done and answered in it."""
        words = sum(len(f"{step['say']} {step.get('for', '')}".split()) for step in self.steps)
        acts = sum(_ASKED * ("ask" in step) + _DONE * (("do" in step) + ("board" in step)) for step in self.steps)
        return math.ceil(words / _READ + acts)

    def here(self, number: int) -> str:
        """A step, counted from 1, as refusals name it."""
        return f"lesson {self.id}, step {number}"


def read_lesson(id: str, text: str) -> Lesson:
    """Raises SpecvizError with the lesson, the step and what is wrong."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SpecvizError(f"lesson {id}: {error}") from None
    words = [data.get(name) for name in ("title", "about", "trace")]
    if not all(isinstance(word, str) and word for word in words):
        raise SpecvizError(f"lesson {id}: it needs title, about and trace, each a text")
    steps = data.get("step", [])
    if not isinstance(steps, list) or not steps:
        raise SpecvizError(f"lesson {id}: it has no [[step]]")
    try:
        then = msgspec.convert(data.get("then", []), tuple[LessonThen, ...])
    except msgspec.ValidationError as error:
        raise SpecvizError(f"lesson {id}: [[then]]: {error}") from None
    title, about, trace = map(str, words)
    lesson = Lesson(id, title, about, trace, str(data.get("can", "")), tuple(steps), then)
    for number, step in enumerate(steps, 1):
        _check(lesson.here(number), step)
    return lesson


def _check(here: str, step: Any) -> None:
    if not isinstance(step, dict) or not isinstance(step.get("say"), str) or not step["say"].strip():
        raise SpecvizError(f"{here}: it needs 'say', a text")
    for name, value in step.items():
        if name not in FIELDS:
            raise SpecvizError(f"{here}: nothing is known as '{name}'{suggestion(name, dict.fromkeys(FIELDS))}")
        kind = {"until": dict, "with": dict, "see": list, "phase": int}.get(name, str)
        if not isinstance(value, kind):
            names = {dict: "a table", list: "a list of texts", int: "a whole number", str: "a text"}
            raise SpecvizError(f"{here}: '{name}' is {names[kind]}")
    if (n := len(step["say"].split())) > MOST_WORDS:
        raise SpecvizError(f"{here}: {n} words; at most {MOST_WORDS} are read")
    for name, value in step.get("until", {}).items():
        if name not in _UNTIL:
            raise SpecvizError(f"{here}: nothing is known as until.{name}{suggestion(name, dict.fromkeys(_UNTIL))}")
        if not isinstance(value, int):
            raise SpecvizError(f"{here}: until.{name} is a whole number")
    if step.get("ask") and (step.get("do") or step.get("until")):
        raise SpecvizError(f"{here}: a question waits for its answer, it has no 'do' and no 'until'")
