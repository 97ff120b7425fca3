"""A lesson as a front-end takes it: steps and questions with their answers, as plain data that JSON can hold.

Everything that depends on the recording is worked out when the script is made (`script.make_script`), so a page without
a server can ask, judge and move the picture. Fields at their default are left out of the JSON.
"""

from typing import Literal

import msgspec

from specviz.runlog.run import Mark
from specviz.view.frame.parts import WhyRow

AskKind = Literal["choice", "number", "place", "slider"]


class LessonMoment(msgspec.Struct, frozen=True, omit_defaults=True):
    """A moment of the recording: the round (index over the run), phase 1 to 6, step in it; `k`: its place among the
    moments of the round, as the stage counts them. `node`: the one under the cursor, -1: none."""

    index: int
    phase: int
    step: int = 0
    k: int = 0
    node: int = -1


class LessonDeed(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a learner is to do: its name, and how that is said in a terminal and in a browser."""

    name: str
    terminal: str
    browser: str


class LessonUntil(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the step waits for: all that is set. `did`: the name of a deed; `phase`, `round`: at least so far (0: any).

    Nothing set: it waits for the key that leads on.
    """

    did: str = ""
    phase: int = 0
    round: int = 0


class LessonBoard(msgspec.Struct, frozen=True, omit_defaults=True):
    """Numbers beside the picture: rows as in the why panel, each with a name, a value, perhaps a bar (0..1)."""

    title: str
    rows: tuple[WhyRow, ...]


class LessonAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """Answers from `lo` to `hi`, both included: right or not, and the idea that leads there, in a sentence."""

    lo: float
    hi: float
    words: str
    right: bool = False


class SliderStop(msgspec.Struct, frozen=True, omit_defaults=True):
    """A place of a slider with what exactly comes of it. `marks`: fate of each node of the picture that is judged;
    `rows`: the numbers at this place, to stand in the board."""

    label: str
    words: str
    marks: dict[int, Mark] = {}
    rows: tuple[WhyRow, ...] = ()


class LessonQuestion(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is asked. An answer is a number: of a choice its place from 0, of a number itself, of a place in the picture
    the node, of a slider its stop from 0. The first of `answers` that holds it judges it, `otherwise` if none does.

    `before`: the moment that shows no verdict yet; `after`: the one that shows it; None: the picture stays.
    `shown`: the right answer in words, `reason`: why it is right. `value`: what is to stand beside the tokens.
    `start`: the stop that a slider begins at; `unit`: of a number, as "tokens".
    """

    kind: AskKind
    text: str
    answers: tuple[LessonAnswer, ...]
    otherwise: str
    shown: str
    reason: str
    choices: tuple[str, ...] = ()
    places: tuple[int, ...] = ()
    stops: tuple[SliderStop, ...] = ()
    start: int = 0
    name: str = ""  # of what a slider moves
    unit: str = ""
    value: str = ""
    before: LessonMoment | None = None
    after: LessonMoment | None = None


class LessonStep(msgspec.Struct, frozen=True, omit_defaults=True):
    """One step: something is said, then something is to be done, or answered. `see`: what its words name and the
    picture shows; `at`: where the picture goes when the step begins; `command`: a line for a shell, to try oneself."""

    say: str
    do: LessonDeed | None = None
    until: LessonUntil = LessonUntil()
    see: tuple[str, ...] = ()
    value: str = ""
    at: LessonMoment | None = None
    board: LessonBoard | None = None
    question: LessonQuestion | None = None
    command: str = ""


class LessonThen(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where a lesson leads on to."""

    say: str
    command: str


class LessonScript(msgspec.Struct, frozen=True, omit_defaults=True):
    """A lesson over one recording, ready to be played."""

    id: str
    number: int
    title: str
    about: str
    trace: str
    steps: tuple[LessonStep, ...]
    can: str = ""  # what one can say behind it
    then: tuple[LessonThen, ...] = ()

    @property
    def n_questions(self) -> int:
        return sum(step.question is not None for step in self.steps)
