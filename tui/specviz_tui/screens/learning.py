"""A lesson over the run on screen: it watches what is pressed and goes on when a step is done."""

from dataclasses import replace

from textual.binding import Binding

from specviz.errors import SpecvizError
from specviz.view import Frame
from specviz.view.lessons.lesson import Lesson, LessonScene, done
from specviz.view.lessons.quiz import LessonQuestion, make_question
from specviz_tui.common.frame_widget import LessonsAsked
from specviz_tui.screens.run_screen import TREE, RunScreen
from specviz_tui.widgets.lesson_line import LessonLine, LessonState
from specviz_tui.widgets.why_panel import WhyPanel

# While an answer is waited for; whatever moves the view or works a verdict out would give it away.
_HARMLESS = frozenset({"answer", "lesson", "back", "value", "theme", "help", "explain", "quit"})


class LearningActions(RunScreen):
    """What a lesson adds to the screen."""

    BINDINGS = [Binding(str(k), f"answer({k})", show=False, priority=True) for k in range(1, 10)]

    _done: tuple[str, ...] = ()  # actions since the step began

    @property
    def lesson(self) -> LessonState | None:
        return self.query_one(LessonLine).state

    def begin_lesson(self, lesson: Lesson) -> None:
        """From its first step; the recording holds still."""
        self.feed.player.pause()
        self._walk(LessonState(lesson), 0)
        self.paint_soon()

    def end_lesson(self) -> None:
        """The recording stays."""
        self._to_step(None)

    def _to_step(self, state: LessonState | None) -> None:
        self._done = ()
        self.query_one(LessonLine).state = state
        self.set_class(state is not None, "-lesson")

    def acted(self, action: str) -> None:
        """A key did something: `step(1)`. The frame that comes of it may be painted already."""
        if self.lesson is not None:
            self._done = (*self._done, action)
            self.call_later(self._follow_lesson)

    def watch_frame(self, frame: Frame | None) -> None:
        """Every frame may be what the lesson waited for."""
        if frame is not None and self.lesson is not None:
            self._follow_lesson()

    def _follow_lesson(self) -> None:
        state, frame = self.lesson, self.frame
        if state is None or state.over or frame is None:
            return
        seen = LessonScene(frame, self.shown, self.query_one(WhyPanel).pinned, self._done)
        if done(state.lesson.steps[state.at], seen):
            self._walk(state, state.at + 1)

    # Questions -------------------------------------------------------------------------------------------------------

    @property
    def asked(self) -> bool:
        """Whether an answer is waited for."""
        return self.lesson is not None and self.lesson.open

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """The keys of answers are there for a question only, and nothing shows its verdict before."""
        if action == "answer":
            return self.asked
        if self.asked and action not in _HARMLESS:
            return False
        return super().check_action(action, parameters)

    def _walk(self, state: LessonState, at: int) -> None:
        """To a step; one that asks goes to the moment before its verdict."""
        state = replace(state, at=at, question=None, given=None, shown=False)
        if not state.over and state.lesson.steps[at].ask:
            try:
                question = make_question(state.lesson.steps[at], self.feed.player)
            except SpecvizError as error:
                self.notify(str(error), severity="warning")
            else:
                state = replace(state, question=question)
                self._stand(question, shown=False)
        self._to_step(state)

    def _stand(self, question: LessonQuestion, shown: bool) -> None:
        self.query_one(WhyPanel).pinned = False
        self.feed.player.place = question.after if shown else question.before
        self.turn_to(TREE)
        self.go(True)
        self.select(question.node)

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

    def _pass_on(self, state: LessonState, question: LessonQuestion) -> None:
        """The answer without having found it."""
        self._to_step(replace(state, given=None, shown=True, answered=state.answered | {state.at}))
        self._stand(question, shown=True)

    def action_lesson(self, by: int) -> None:
        """On or back by a step; without a lesson, and behind its end, the list of lessons."""
        state = self.lesson
        if state is None or (state.over and by > 0):
            if by > 0:
                self.post_message(LessonsAsked())
            return
        if state.open and state.question is not None and by > 0:
            self._pass_on(state, state.question)
            return
        self._walk(state, max(0, min(state.at + by, len(state.lesson.steps))))

    def leave_lesson(self) -> bool:
        """Escape: whether there was a lesson to leave."""
        if self.lesson is None:
            return False
        self.end_lesson()
        return True
