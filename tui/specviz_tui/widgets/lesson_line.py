"""What a lesson says now: where one is in it, what is seen, what to press or to answer, and the board beside it."""

from dataclasses import dataclass, field, replace

from rich.style import Style
from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.reactive import reactive
from textual.widgets import Static

from specviz.sources.lesson_progress import LessonMark, LessonResult
from specviz.sources.lessons import next_lesson
from specviz.view.frame.parts import WhyRow
from specviz.view.lessons import LessonQuestion, LessonScript, LessonStep, LessonVerdict
from specviz_tui.common.paint import FAINT, STRONG, bar, painter_of

ON = "L: on · backspace: back · esc: leave"
PASS = "L: show the answer · esc: leave"
PASS_AGAIN = "L again: the answer · esc: leave"
BAR = 6  # cells of a bar on the board
LOW = 28  # lines of a screen on which what was said makes room for the judgement
SHORT = 60  # letters of choices that stand in one line, half of it beside a board


@dataclass(frozen=True, slots=True)
class LessonState:
    """A lesson and the step one is at, from 0; behind the last one it is over. `marks`: by step.

    `teach`: whether answers stay hidden until they are asked for. `answer`: that was given to this step's question;
    `shown`: its verdict stands. `typed`: of a number that is being written; `stop`: of a slider.
    `passing`: the answer was asked for once, with nothing tried.
    """

    script: LessonScript
    at: int = 0
    teach: bool = False
    typed: str = ""
    stop: int = 0
    answer: float | None = None
    verdict: LessonVerdict | None = None
    shown: bool = False
    passing: bool = False
    marks: dict[int, LessonMark] = field(default_factory=dict)

    @property
    def over(self) -> bool:
        return self.at >= len(self.script.steps)

    @property
    def step(self) -> LessonStep | None:
        return None if self.over else self.script.steps[self.at]

    @property
    def question(self) -> LessonQuestion | None:
        return None if self.step is None else self.step.question

    @property
    def open(self) -> bool:
        """Whether an answer is waited for: no verdict may be seen."""
        return self.question is not None and not self.shown

    @property
    def result(self) -> LessonResult:
        return LessonResult(sum(mark.first_right for mark in self.marks.values()), self.script.n_questions)

    def marked(self, words: str, right: bool) -> "LessonState":
        """With one more answer to the question of this step."""
        mark = self._mark
        first = right and not mark.answers and not mark.passed
        mark = LessonMark(mark.step, mark.question, (*mark.answers, words), mark.first_right or first, mark.passed)
        return replace(self, marks={**self.marks, self.at: mark})

    def given_up(self) -> "LessonState":
        """With the answer asked for before it was found."""
        mark = self._mark
        passed = LessonMark(mark.step, mark.question, mark.answers, mark.first_right, not mark.first_right)
        return replace(self, marks={**self.marks, self.at: passed})

    @property
    def _mark(self) -> LessonMark:
        text = "" if self.question is None else self.question.text
        return self.marks.get(self.at, LessonMark(self.at + 1, text))


class LessonLine(Horizontal):
    """In a box above the keys, as long as there is a lesson: words at the left, the board at the right."""

    EXPLAIN = "lessons"
    state: reactive[LessonState | None] = reactive(None)

    def compose(self) -> ComposeResult:
        yield Static("", id="lesson-text", markup=False)
        yield Static("", id="lesson-board", markup=False)

    def watch_state(self, state: LessonState | None) -> None:
        """The box has the lesson's name, and how far one is."""
        if state is None:
            return
        n = len(state.script.steps)
        self.border_title = Text(f"Lesson {state.script.number} · {state.script.title}").markup
        dots = "".join("●" if k <= state.at else "○" for k in range(n))
        self.border_subtitle = Text(f"{min(state.at + 1, n)}/{n} {dots}").markup
        self.set_class(state.teach, "-teach")
        self.query_one("#lesson-text", Static).update(self._words(state))
        board = self.query_one("#lesson-board", Static)
        rows, title = _board(state)
        board.display = bool(rows)
        board.update(self._table(title, rows) if rows else "")

    def _table(self, title: str, rows: tuple[WhyRow, ...]) -> Table:
        table = Table.grid(padding=(0, 1))
        for _ in range(4):
            table.add_column(no_wrap=True)
        tint = painter_of(self.app).tint("accepted")
        for row in rows:
            drawn = Text(bar(row.bar, BAR), style=tint) if row.bar is not None else Text("")
            table.add_row(Text(row.label), Text(row.value, style=STRONG), drawn, Text(row.note, style=FAINT))
        outer = Table.grid()
        outer.add_row(Text(title, style=FAINT))
        outer.add_row(table)
        return outer

    def _words(self, state: LessonState) -> Text:
        tint = painter_of(self.app).tint("recovered") + STRONG
        gap = "\n\n" if state.teach else "\n"
        low = self.app.size.height < LOW
        step, question = state.step, state.question
        if step is None:
            result = state.result
            words = f"That was it. {result.right} of {result.asked} answered right at the first try."
            more = "the list of lessons" if next_lesson(state.script.id) is None else "the next lesson"
            farewell = Text(words, style=STRONG)
            if state.script.can:
                farewell.append(f"{gap}Can you say now {state.script.can}?", style=tint)
            for door in state.script.then:
                farewell.append(f"\n{door.say}: ").append(door.command, style=tint)
            return farewell.append(f"{gap}L: {more} · esc: stay in this recording", FAINT)
        if question is not None:
            return _asked(state, question, "" if low and state.verdict is not None else f"{step.say}{gap}", tint, gap)
        text = Text(step.say)
        if step.command:
            text.append(f"{gap}Now in your own run: ", style=STRONG).append(step.command, style=tint)
        if step.do is not None:
            text.append(f"{gap}▸ {step.do.terminal}", style=tint)
        return text.append(f"{gap}{ON}", style=FAINT)


def _board(state: LessonState) -> tuple[tuple[WhyRow, ...], str]:
    """The rows beside the words: of a slider those of its stop."""
    step, question = state.step, state.question
    if question is not None and question.kind == "slider" and question.stops[state.stop].rows:
        return question.stops[state.stop].rows, f"at {question.name} {question.stops[state.stop].label}"
    if step is None or step.board is None:
        return (), ""
    return step.board.rows, step.board.title


def _asked(state: LessonState, question: LessonQuestion, say: str, tint: Style, gap: str) -> Text:
    """The question and its keys; behind the answer, whether it was right and why."""
    if state.shown:
        right = state.verdict is not None and state.verdict.right
        text = Text("")
        if state.verdict is not None and not right:
            text.append(f"{state.verdict.words}{gap}")
        near = right and question.kind == "number" and state.verdict is not None and state.verdict.words
        if near and near != question.reason:  # right by more than the one number: it is told as such
            text.append("Right. ", style=tint).append(f"{near} ")
        else:
            text.append(f"{'Right' if right else 'The answer'}: {question.shown}. ", style=tint)
        text.append(question.reason)
        return text.append(f"{gap}{ON}", style=FAINT)
    text = Text(say).append(f"{question.text}\n", style=STRONG)
    text.append("▸ ").append(_answering(state, question), style=tint)
    if state.verdict is not None and state.teach:
        return text.append(
            f"{gap}Answered: {state.marks[state.at].answers[-1]}. L shows whether that is right.", style=FAINT
        )
    if state.verdict is not None:
        text.append(f"{gap}Not quite. ", style=tint).append(state.verdict.words)
        return text.append("  Try again, or L shows the answer.", style=FAINT)
    return text.append(f"   {PASS_AGAIN if state.passing else PASS}", style=FAINT)


def _answering(state: LessonState, question: LessonQuestion) -> str:
    """How an answer is given here."""
    if question.kind == "choice":
        choices = [f"{k} {choice}" for k, choice in enumerate(question.choices, 1)]
        room = SHORT // 2 if _board(state)[0] else SHORT
        return ("   " if sum(map(len, choices)) < room else "\n  ").join(choices)
    if question.kind == "number":
        return f"type a number, enter: {state.typed or '_'} {question.unit}".rstrip()
    if question.kind == "place":
        return "arrows: to a token · enter: this one"
    stop = question.stops[state.stop]
    n = len(question.stops)
    track = "".join("●" if k == state.stop else "─" for k in range(n))
    return f"← {track} →  enter: here\n  {stop.words}"
