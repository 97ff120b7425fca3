"""A lesson over the run on screen: it watches what is pressed and goes on when a step is done."""

from specviz.view import Frame
from specviz.view.lessons.lesson import Lesson, LessonScene, done
from specviz_tui.common.frame_widget import LessonsAsked
from specviz_tui.screens.run_screen import RunScreen
from specviz_tui.widgets.lesson_line import LessonLine, LessonState
from specviz_tui.widgets.why_panel import WhyPanel


class LearningActions(RunScreen):
    """What a lesson adds to the screen."""

    _done: tuple[str, ...] = ()  # actions since the step began

    @property
    def lesson(self) -> LessonState | None:
        return self.query_one(LessonLine).state

    def begin_lesson(self, lesson: Lesson) -> None:
        """From its first step; the recording holds still."""
        self.feed.player.pause()
        self._to_step(LessonState(lesson))
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
            self._to_step(LessonState(state.lesson, state.at + 1))

    def action_lesson(self, by: int) -> None:
        """On or back by a step; without a lesson, and behind its end, the list of lessons."""
        state = self.lesson
        if state is None or (state.over and by > 0):
            if by > 0:
                self.post_message(LessonsAsked())
            return
        self._to_step(LessonState(state.lesson, max(0, min(state.at + by, len(state.lesson.steps)))))

    def leave_lesson(self) -> bool:
        """Escape: whether there was a lesson to leave."""
        if self.lesson is None:
            return False
        self.end_lesson()
        return True
