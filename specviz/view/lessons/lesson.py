"""`read_lesson(text) -> PressLesson`: a lesson as data, and `done(step, seen)`: whether a person did what a step asks.

A lesson is a TOML file: `title`, `about` (what one learns, in a few words), `trace` (a bundled recording), `at` (a
place in it), and steps. A step has `say` (what is seen, at most 60 words), `press` (what to do, in a few words) and
`until`, all of which must be so for the lesson to go on:

    action    one of these was done since the step began: "step", "rejection(1)", "go_to('lanes')"; a name without
              arguments stands for any
    phase     the round on screen is in this phase, 1 to 6, or a later one
    round     this round, or a later one, is on screen
    panel     this screen is shown: "tree", "lanes", "overview"
    mark      the node under the cursor is "rejected", "recovered", "bonus", ..
    value     this value stands beside the tokens: "p", "p/q", ..
    pinned    the why panel is pinned (true) or not (false)

A step without `until` waits for the key that leads on.

A step may ask instead: `ask` is "kept" (was this token kept), "replaced" (by which of three tokens) or "n_kept" (how
many of the draft), and `of` a place, "r3/n12". The answer is never written here: the recording gives it (`quiz`).
"""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from specviz.errors import SpecvizError, suggestion
from specviz.view.frame.frame import Frame

MOST_WORDS = 60
_UNTIL = ("action", "phase", "round", "panel", "mark", "value", "pinned")
_ASKS = ("kept", "replaced", "n_kept")


@dataclass(frozen=True, slots=True)
class PressStep:
    """What is said, what to press, and when it counts as done."""

    say: str
    press: str
    until: tuple[tuple[str, Any], ...] = ()
    ask: str = ""  # what is asked, if anything
    of: str = ""  # of which round or node


@dataclass(frozen=True, slots=True)
class PressLesson:
    """Steps over one recording."""

    id: str
    title: str
    about: str
    trace: str
    at: str
    steps: tuple[PressStep, ...]


@dataclass(frozen=True, slots=True)
class LessonScene:
    """What a step is judged by. `actions`: done since it began, as `step(1)`; `panel`: the screen that is shown."""

    frame: Frame
    panel: str
    pinned: bool
    actions: Sequence[str]


def read_lesson(id: str, text: str) -> PressLesson:
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
    made = tuple(_step(id, number, step) for number, step in enumerate(steps, 1))
    return PressLesson(id, str(data["title"]), str(data["about"]), str(data["trace"]), str(data.get("at", "")), made)


def _step(id: str, number: int, data: Any) -> PressStep:
    here = f"lesson {id}, step {number}"
    if not isinstance(data, dict) or not isinstance(data.get("say"), str) or not data["say"].strip():
        raise SpecvizError(f"{here}: it needs 'say', a text")
    say = " ".join(data["say"].split())
    if len(say.split()) > MOST_WORDS:
        raise SpecvizError(f"{here}: {len(say.split())} words; at most {MOST_WORDS} are read")
    until = data.get("until", {})
    if not isinstance(until, dict):
        raise SpecvizError(f"{here}: 'until' is a table, as in until.phase = 4")
    for name in until:
        if name not in _UNTIL:
            raise SpecvizError(f"{here}: nothing is known as until.{name}{suggestion(name, dict.fromkeys(_UNTIL))}")
    ask, of = str(data.get("ask", "")), str(data.get("of", ""))
    if ask and ask not in _ASKS:
        raise SpecvizError(f"{here}: nothing can be asked as '{ask}'{suggestion(ask, dict.fromkeys(_ASKS))}")
    if ask and (until or not of):
        raise SpecvizError(f"{here}: a question needs 'of', a place as r3/n12, and has no 'until'")
    return PressStep(say, str(data.get("press", "")), tuple(until.items()), ask, of)


def done(step: PressStep, seen: LessonScene) -> bool:
    """Whether everything the step waits for is so; never for one that waits for the key that leads on."""
    return bool(step.until) and all(_holds(name, wanted, seen) for name, wanted in step.until)


def _holds(name: str, wanted: Any, seen: LessonScene) -> bool:
    frame = seen.frame
    if name == "action":
        return any(_is(action, each) for each in _several(wanted) for action in seen.actions)
    if name == "phase":
        return int(frame.phase) >= int(wanted)
    if name == "round":
        return frame.round >= int(wanted)
    if name == "panel":
        return seen.panel in _several(wanted)
    if name == "mark":
        return frame.why is not None and frame.why.decided and frame.why.mark in _several(wanted)
    if name == "value":
        return frame.value_mode in _several(wanted)
    return seen.pinned is bool(wanted)


def _several(wanted: Any) -> list[Any]:
    return wanted if isinstance(wanted, list) else [wanted]


def _is(action: str, wanted: str) -> bool:
    """`rejection(1)` is `rejection` and `rejection(1)`."""
    return action == wanted or action.partition("(")[0] == wanted
