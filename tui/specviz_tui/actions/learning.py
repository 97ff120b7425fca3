"""A lesson over the run on screen: it watches what is pressed and goes on when a step is done."""

from dataclasses import replace

from textual.binding import Binding

from specviz.errors import SpecvizError
from specviz.view import Frame
from specviz.view.lessons.lesson import LessonScene, PressLesson, done
from specviz.view.lessons.quiz import PressQuestion, make_question
from specviz_tui.common.actions import Actions
from specviz_tui.common.controller import TREE
from specviz_tui.common.frame_widget import LessonsAsked
from specviz_tui.common.keymap import Key
from specviz_tui.widgets.lesson_line import LessonLine, LessonState

# While an answer is waited for; whatever moves the view or works a verdict out would give it away.
_HARMLESS = frozenset({"answer", "lesson", "back", "value", "theme", "help", "explain", "quit"})


class LearningActions(Actions):
    """What a lesson adds to the screen."""

    KEYS = (
        Key("lesson.next", "L", "lesson(1)", "L", "guided lessons; in one: the next step", "Run"),
        Key("lesson.back", "backspace", "lesson(-1)", "⌫", "in a lesson: the step before", "Run"),
    )
    BINDINGS = tuple(Binding(str(k), f"answer({k})", show=False, priority=True) for k in range(1, 10))

    _done: tuple[str, ...] = ()  # actions since the step began

    @property
    def lesson(self) -> LessonState | None:
        return self.controller.widget(LessonLine).state

    def begin_lesson(self, lesson: PressLesson) -> None:
        """From its first step; the recording holds still."""
        self.player.pause()
        self._walk(LessonState(lesson), 0)
        self.controller.paint_soon()

    def end_lesson(self) -> None:
        """The recording stays."""
        self._to_step(None)

    def _to_step(self, state: LessonState | None) -> None:
        self._done = ()
        self.controller.widget(LessonLine).state = state
        self.controller.mark(state is not None, "-lesson")

    def acted(self, action: str) -> None:
        """A key did something: `step(1)`. The frame that comes of it may be painted already."""
        if self.lesson is not None:
            self._done = (*self._done, action)
            self.controller.later(self._follow_lesson)

    def painted(self, frame: Frame) -> None:
        """Every frame may be what the lesson waited for."""
        if self.lesson is not None:
            self._follow_lesson()

    def restart(self) -> None:
        """A lesson belongs to its recording."""
        self.end_lesson()

    def _follow_lesson(self) -> None:
        state, frame = self.lesson, self.frame
        if state is None or state.over or frame is None:
            return
        seen = LessonScene(frame, self.controller.shown, self.controller.pinned, self._done)
        if done(state.lesson.steps[state.at], seen):
            self._walk(state, state.at + 1)

    # Questions -------------------------------------------------------------------------------------------------------

    @property
    def asked(self) -> bool:
        """Whether an answer is waited for."""
        return self.lesson is not None and self.lesson.open

    def allows(self, action: str) -> bool:
        """The keys of answers are there for a question only, and nothing shows its verdict before."""
        return self.asked if action == "answer" else not self.asked or action in _HARMLESS

    def _walk(self, state: LessonState, at: int) -> None:
        """To a step; one that asks goes to the moment before its verdict."""
        state = replace(state, at=at, question=None, given=None, shown=False)
        if not state.over and state.lesson.steps[at].ask:
            try:
                question = make_question(state.lesson.steps[at], self.player)
            except SpecvizError as error:
                self.controller.notify(str(error), severity="warning")
            else:
                state = replace(state, question=question)
                self._stand(question, shown=False)
        self._to_step(state)

    def _stand(self, question: PressQuestion, shown: bool) -> None:
        self.controller.pinned = False
        self.player.place = question.after if shown else question.before
        self.controller.turn_to(TREE)
        self.controller.go(True)
        self.controller.select(question.node)

    def action_answer(self, number: int) -> None:
        """Keys 1 to 9: right shows the verdict, wrong may be tried again."""
        state = self.lesson
        question = state.question if state is not None else None
        if state is None or question is None or state.shown or number > len(question.choices):
            return
        right = number - 1 == question.right
        first = right and state.at not in state.answered
        state = replace(
            state,
            given=number - 1,
            shown=right,
            right=state.right | {state.at} if first else state.right,
            answered=state.answered | {state.at},
        )
        self._to_step(state)
        if right:
            self._stand(question, shown=True)

    def _pass_on(self, state: LessonState, question: PressQuestion) -> None:
        """The answer without having found it."""
        self._to_step(replace(state, given=None, shown=True, answered=state.answered | {state.at}))
        self._stand(question, shown=True)

    def action_lesson(self, by: int) -> None:
        """On or back by a step; without a lesson, and behind its end, the list of lessons."""
        state = self.lesson
        if state is None or (state.over and by > 0):
            if by > 0:
                self.controller.post(LessonsAsked())
            return
        if state.open and state.question is not None and by > 0:
            self._pass_on(state, state.question)
            return
        self._walk(state, max(0, min(state.at + by, len(state.lesson.steps))))

    def leave(self) -> bool:
        """Escape: whether there was a lesson to leave."""
        if self.lesson is None:
            return False
        self.end_lesson()
        return True
