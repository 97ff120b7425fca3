"""What a lesson says now: where one is in it, what is seen, what to press."""

from dataclasses import dataclass

from rich.style import Style
from rich.text import Text
from textual.reactive import reactive
from textual.widget import Widget

from specviz.view.lessons.lesson import PressLesson
from specviz.view.lessons.quiz import PressQuestion
from specviz_tui.common.paint import FAINT, STRONG, painter_of

LAST = "L leads back to the list"
ON = "L: go on without"


@dataclass(frozen=True, slots=True)
class LessonState:
    """A lesson and the step one is at, from 0; behind the last one it is over."""

    lesson: PressLesson
    at: int = 0
    question: PressQuestion | None = None  # of this step
    given: int | None = None  # the last answer, from 0
    shown: bool = False  # the verdict
    right: frozenset[int] = frozenset()  # steps whose first answer was right
    answered: frozenset[int] = frozenset()  # steps that had an answer, or were passed on

    @property
    def open(self) -> bool:
        """Whether an answer is waited for: no verdict may be seen."""
        return self.question is not None and not self.shown

    @property
    def score(self) -> str:
        """How many answers were right, "" in a lesson that asks nothing."""
        n = sum(bool(step.ask) for step in self.lesson.steps)
        return f"{len(self.right)} of {n} answered right at the first try. " if n else ""

    @property
    def over(self) -> bool:
        return self.at >= len(self.lesson.steps)


class LessonLine(Widget):
    """In a box above the keys, as long as there is a lesson."""

    EXPLAIN = "lessons"
    state: reactive[LessonState | None] = reactive(None, layout=True)

    def watch_state(self, state: LessonState | None) -> None:
        """The box has the lesson's name, and how far one is."""
        if state is None:
            return
        n = len(state.lesson.steps)
        self.border_title = Text(f"PressLesson · {state.lesson.title}").markup
        dots = "".join("●" if k <= state.at else "○" for k in range(n))
        self.border_subtitle = Text(f"{min(state.at + 1, n)}/{n} {dots}").markup

    def render(self) -> Text:
        if self.state is None:
            return Text("")
        if self.state.over:
            return Text(f"That was it. {self.state.score}", style=STRONG).append(
                "L: the next lesson, esc: stay in this recording", style=FAINT
            )
        step = self.state.lesson.steps[self.state.at]
        tint = painter_of(self.app).tint("recovered") + STRONG
        if self.state.question is not None:
            return _asked(self.state, self.state.question, step.say, tint)
        text = Text(step.say).append("\n▸ ", style=tint).append(step.press, style=tint)
        return text.append("   L: skip · backspace: back · esc: leave the lesson", style=FAINT)


def _asked(state: LessonState, question: PressQuestion, say: str, tint: Style) -> Text:
    """The question and its keys; behind the answer, whether it was right and why."""
    if state.shown:
        answer = question.choices[question.right]
        said = "Right" if state.given == question.right else "The answer"
        text = Text(f"{said}: {answer}. ", style=tint).append(question.reason)
        return text.append("   L: on · backspace: back", style=FAINT)
    text = Text(say).append(f"\n{question.text}\n", style=STRONG)
    text.append("▸ " + "   ".join(f"{k} {choice}" for k, choice in enumerate(question.choices, 1)), style=tint)
    if state.given is not None:
        text.append(f"\nNot {question.choices[state.given]}. Try again, or L shows the answer.", style=tint)
        return text
    return text.append("   L: pass · esc: leave", style=FAINT)
