"""A lesson over the run on screen: it watches what is pressed, asks, judges, and goes on when a step is done."""

from dataclasses import replace
from pathlib import Path

from textual.binding import Binding

from specviz.errors import SpecvizError
from specviz.sources.lesson_progress import keep_progress, write_marks
from specviz.sources.lessons import next_lesson
from specviz.view import Frame
from specviz.view.frame.frame import Cursor
from specviz.view.lessons import LessonMoment, LessonNow, LessonScript, done, judge, read_number
from specviz.view.lessons.deeds import deeds_of
from specviz.view.lessons.picture import unanswered, with_marks
from specviz.view.words.palette import VALUE_MODES, Phase
from specviz_tui.common.actions import Actions
from specviz_tui.common.controller import TREE
from specviz_tui.common.frame_widget import LessonsAsked
from specviz_tui.common.keymap import Key
from specviz_tui.widgets.lesson_line import LessonLine, LessonState

# While an answer is waited for; whatever moves the view or works a verdict out would give it away.
_HARMLESS = frozenset(
    {"choose", "type_answer", "slide", "give_answer", "lesson", "back", "value", "theme", "help", "explain", "quit"}
)
_TYPED = {**{str(k): str(k) for k in range(10)}, "full_stop": ".", "comma": ".", "slash": "/", "percent_sign": "%"}
_LONGEST = 12  # characters of a number


class LearningActions(Actions):
    """What a lesson adds to the screen."""

    KEYS = (
        Key("lesson.next", "L", "lesson(1)", "L", "lessons; in one: the next step", "Run", "learn", 14),
        Key("lesson.back", "backspace", "lesson(-1)", "⌫", "in a lesson: the step before", "Run"),
    )
    BINDINGS = (
        *(Binding(str(k), f"choose({k})", show=False, priority=True) for k in range(1, 10)),
        *(Binding(key, f"type_answer({text!r})", show=False, priority=True) for key, text in _TYPED.items()),
        Binding("left", "slide(-1)", show=False, priority=True),
        Binding("right", "slide(1)", show=False, priority=True),
        Binding("enter", "give_answer", show=False, priority=True),
    )

    marks_file: Path | None = None  # where a teacher wants the marks

    _deeds: frozenset[str] = frozenset()  # done since the step began

    @property
    def lesson(self) -> LessonState | None:
        return self.controller.widget(LessonLine).state

    def begin_lesson(self, script: LessonScript, teach: bool = False) -> None:
        """From its first step; the recording holds still."""
        self.player.pause()
        self._walk(LessonState(script, teach=teach), 0)
        self.controller.paint_soon()

    def end_lesson(self) -> None:
        """The recording stays."""
        self._show(None)

    def _show(self, state: LessonState | None) -> None:
        self.controller.widget(LessonLine).state = state
        self.controller.mark(state is not None, "-lesson")

    def acted(self, action: str) -> None:
        """A key did something: `step(1)`. The frame that comes of it may be painted already."""
        if self.lesson is not None:
            self._deeds |= set(deeds_of(action))
            self.controller.later(self._follow_lesson)

    def painted(self, frame: Frame) -> None:
        """Every frame may be what the lesson waited for; widgets have it first."""
        if self.lesson is not None:
            self.controller.later(self._follow_lesson)

    def retouched(self, frame: Frame) -> Frame:
        """While something is asked; while a slider is moved, the round as it would have ended."""
        state = self.lesson
        question = state.question if state is not None else None
        if state is None or question is None:
            return frame
        frame = unanswered(frame) if state.open else frame
        if question.kind != "slider":
            return frame
        stop = question.stops[state.stop]
        return with_marks(frame, stop.marks, stop.words, self.feed.options.ascii) if stop.marks else frame

    def restart(self) -> None:
        """A lesson belongs to its recording."""
        self.end_lesson()

    def _follow_lesson(self) -> None:
        state, frame = self.lesson, self.frame
        if state is None or state.step is None or frame is None or state.teach:
            return
        if done(state.step, LessonNow(frame.round, int(frame.phase), self._deeds)):
            self._walk(state, state.at + 1)

    # Steps -----------------------------------------------------------------------------------------------------------

    def _walk(self, state: LessonState, at: int) -> None:
        """To a step; one that asks goes to the moment before its verdict."""
        self._deeds = frozenset()
        state = replace(state, at=at, typed="", stop=0, answer=None, verdict=None, shown=False, passing=False)
        step, question = state.step, state.question
        if question is not None and question.kind == "slider":
            state = replace(state, stop=question.start)
        self._show(state)
        if step is None:
            self._end_of(state)
            return
        self._look_at(step.value or (question.value if question is not None else ""))
        self._stand(question.before if question is not None and question.before is not None else step.at)

    def _look_at(self, value: str) -> None:
        """What stands beside the tokens; what the draft said, where the step does not say."""
        mode = next((mode for mode in VALUE_MODES if mode == value), VALUE_MODES[0])
        self.feed.options = replace(self.feed.options, value=mode)

    def _stand(self, moment: LessonMoment | None) -> None:
        self.controller.pinned = False
        self.controller.turn_to(TREE)
        if moment is None:
            self.controller.paint_soon()
            return
        self.player.pause()
        self.player.place = Cursor(moment.index, Phase(moment.phase), moment.step)
        self.controller.go(True)
        self.controller.select(None if moment.node == -1 else moment.node)

    def _end_of(self, state: LessonState) -> None:
        """The lesson was gone through."""
        try:
            keep_progress(state.script.id, state.result)
        except SpecvizError as error:
            self.controller.notify(str(error), severity="warning")

    # Answers ---------------------------------------------------------------------------------------------------------

    @property
    def asked(self) -> bool:
        """Whether an answer is waited for."""
        return self.lesson is not None and self.lesson.open

    def allows(self, action: str) -> bool:
        """The keys of answers are there for a question of their kind only, and nothing shows its verdict before."""
        state = self.lesson
        kind = state.question.kind if state is not None and state.question is not None and state.open else ""
        if action in ("choose", "type_answer", "slide"):
            return kind == {"choose": "choice", "type_answer": "number", "slide": "slider"}[action]
        if action == "give_answer":  # whoever chose by a figure may press enter as well: it pins nothing then
            chosen = state is not None and state.question is not None and state.question.kind == "choice"
            return kind in ("number", "place", "slider") or chosen
        return not kind or action in _HARMLESS

    def action_choose(self, number: int) -> None:
        """A choice, from 1."""
        state = self.lesson
        question = state.question if state is not None else None
        if question is not None and number <= len(question.choices):
            self._judge(number - 1, question.choices[number - 1])

    def action_type_answer(self, text: str) -> None:
        """One more character of a number."""
        if (state := self.lesson) is not None and len(state.typed) < _LONGEST:
            self._show(replace(state, typed=state.typed + text))

    def action_slide(self, by: int) -> None:
        """The slider by a stop."""
        state = self.lesson
        if state is None or state.question is None:
            return
        stop = max(0, min(state.stop + by, len(state.question.stops) - 1))
        self._show(replace(state, stop=stop, verdict=None))
        self.controller.paint_soon()

    def action_give_answer(self) -> None:
        """The number that is typed, the token that is looked at, the slider where it stands."""
        state, frame = self.lesson, self.frame
        question = state.question if state is not None else None
        if state is None or question is None:
            return
        if question.kind == "slider":
            self._judge(state.stop, question.stops[state.stop].label)
        elif question.kind == "place":
            node = frame.selected if frame is not None else None
            shown = frame.tree.node(node) if frame is not None and node is not None else None
            self._judge(-1 if node is None else node, shown.shown if shown is not None else "")
        elif (number := read_number(state.typed)) is not None:
            self._judge(number, state.typed)

    def _judge(self, answer: float, words: str) -> None:
        """Right shows the verdict, wrong may be tried again; while teaching either waits to be asked for."""
        state = self.lesson
        if state is None or state.question is None:
            return
        verdict = judge(state.question, answer)
        shown = verdict.right and not state.teach
        state = replace(state.marked(words, verdict.right), answer=answer, verdict=verdict, shown=shown, typed="")
        self._show(state)
        self._write_marks(state)
        if shown:
            self._reveal(state)

    def _reveal(self, state: LessonState) -> None:
        """The moment that shows the answer."""
        question = state.question
        self._stand(question.after if question is not None else None)

    def _write_marks(self, state: LessonState) -> None:
        if self.marks_file is None:
            return
        try:
            write_marks(self.marks_file, state.script, tuple(state.marks[at] for at in sorted(state.marks)))
        except SpecvizError as error:
            self.controller.notify(str(error), severity="warning")

    def action_lesson(self, by: int) -> None:
        """On or back by a step; without a lesson the list of lessons, behind the end of one the next."""
        state = self.lesson
        if state is None or (state.over and by > 0):
            if by > 0:
                self.controller.post(LessonsAsked((state and next_lesson(state.script.id)) or ""))
            return
        if state.open and by > 0 and not (state.teach or state.passing or state.verdict is not None):
            # A step that was done goes on by itself: a key pressed to go on there may not give the answer away.
            self._show(replace(state, passing=True))
        elif state.open and by > 0:
            state = replace(state if state.verdict is not None and state.teach else state.given_up(), shown=True)
            if state.verdict is None or not state.verdict.right:
                state = replace(state, stop=_right_stop(state))
            self._show(state)
            self._write_marks(state)
            self._reveal(state)
        elif state.open and state.typed and by < 0:
            self._show(replace(state, typed=state.typed[:-1]))
        else:
            self._walk(state, max(0, min(state.at + by, len(state.script.steps))))

    def leave(self) -> bool:
        """Escape: whether there was a lesson to leave."""
        if self.lesson is None:
            return False
        self.end_lesson()
        return True


def _right_stop(state: LessonState) -> int:
    """Where a slider is to be; where it stands, of another question."""
    question = state.question
    if question is None:
        return state.stop
    return next((k for k in range(len(question.stops)) if judge(question, k).right), state.stop)
