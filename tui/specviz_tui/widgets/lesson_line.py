"""What a lesson says now: where one is in it, what is seen, what to press."""

from dataclasses import dataclass

from rich.text import Text
from textual.reactive import reactive
from textual.widget import Widget

from specviz.view.lessons.lesson import Lesson
from specviz_tui.common.paint import FAINT, STRONG, painter_of

LAST = "L leads back to the list"
ON = "L: go on without"


@dataclass(frozen=True, slots=True)
class LessonState:
    """A lesson and the step one is at, from 0; behind the last one it is over."""

    lesson: Lesson
    at: int = 0

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
        self.border_title = Text(f"Lesson · {state.lesson.title}").markup
        dots = "".join("●" if k <= state.at else "○" for k in range(n))
        self.border_subtitle = Text(f"{min(state.at + 1, n)}/{n} {dots}").markup

    def render(self) -> Text:
        if self.state is None:
            return Text("")
        if self.state.over:
            return Text("That was it. ", style=STRONG).append(
                "L: the next lesson, esc: stay in this recording", style=FAINT
            )
        step = self.state.lesson.steps[self.state.at]
        tint = painter_of(self.app).tint("recovered") + STRONG
        text = Text(step.say).append("\n▸ ", style=tint).append(step.press, style=tint)
        return text.append("   L: skip · backspace: back · esc: leave the lesson", style=FAINT)
