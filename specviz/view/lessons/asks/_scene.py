"""What a question has to ask: a recording, a place in it, and what the lesson wrote beside the question."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from specviz.errors import SpecvizError
from specviz.events import prob
from specviz.probability.philox import Stream, uniform
from specviz.runlog.fold import Run
from specviz.runlog.run import RoundRecord
from specviz.runlog.tree import RoundTree
from specviz.view.lessons.parts import LessonAnswer, LessonMoment, LessonQuestion, SliderStop
from specviz.view.play.player import Player
from specviz.view.words.palette import Phase

Number = TypeVar("Number", int, float)
Opener = Callable[[str], Player]  # a recording by its name
NEAR = 0.015  # how far a number may be off: two decimals are on screen
FAR = 1e9


@dataclass(frozen=True, slots=True)
class AskScene:
    """`here`: the step, as refusals name it; `index`: the round, `node`: the one named, if any; `fields`: the lesson's
    own fields."""

    here: str
    player: Player
    open: Opener
    index: int
    node: int | None
    fields: Mapping[str, Any]
    worked_out: dict[str, Any] = field(default_factory=dict)  # what several questions of a lesson share

    @property
    def run(self) -> Run:
        return self.player.run

    @property
    def record(self) -> RoundRecord:
        return self.run.rounds[self.index]

    @property
    def family(self) -> RoundTree:
        return self.player.builder.round_tree(self.index)

    def refuse(self, why: str) -> SpecvizError:
        return SpecvizError(f"{self.here}: {why}")

    def tested(self) -> int:
        """The node asked about. Raises SpecvizError where none is named or it was not tested."""
        verdict = self.record.verdicts.get(-1 if self.node is None else self.node)
        if self.node is None or verdict is None or verdict.u is None:
            raise self.refuse(f"no node with a test of its own at r{self.record.r}/n{self.node}")
        return self.node

    def p(self, node: int) -> float:
        """What the target gives a node's token. Raises SpecvizError where it is not recorded."""
        return self._known(self.family.p(node), "p", node)

    def q(self, node: int) -> float:
        """What the draft gave it."""
        return self._known(prob(self.family.nodes[node].logq), "q", node)

    def u(self, node: int) -> float:
        """The random number of a node's test; of one that was not made, what it would have drawn."""
        verdict, prefill = self.record.verdicts.get(node), self.record.query.prefill
        if verdict is not None and verdict.u is not None:
            return verdict.u
        return uniform(self._known(None if prefill is None else prefill.seed, "u", node), *self._key(node))

    def _key(self, node: int) -> tuple[Stream, int, int]:
        return "accept", self.record.r, self.family.nodes[node].pos

    def _known(self, value: Number | None, name: str, node: int) -> Number:
        if value is None:
            raise self.refuse(f"{name} of n{node} is not on record")
        return value

    def word(self, node: int) -> str:
        """A node's token as it stands in the picture."""
        return self.run.word(self.family.nodes[node].token)

    def status(self, node: int) -> str:
        verdict = self.record.verdicts.get(node)
        return "untested" if verdict is None else verdict.status

    def moment(self, phase: Phase, step: int = 0, node: int | None = None) -> LessonMoment:
        """A moment of the round, or the last one before it."""
        return moment_at(self.player, self.index, phase, step, node)

    def end(self, node: int | None = None) -> LessonMoment:
        return self.moment(Phase.COMMIT, 0, node)

    def number(self, text: str, right: float, near: float, ideas: "list[Idea]", **more: Any) -> LessonQuestion:
        """A question for a number. `near`: how far off still is right; of two ideas the first counts, and none may lie
        where the right answer does."""
        reason = str(more["reason"])
        answers = [LessonAnswer(right - near, right + near, reason, True)]
        answers += [LessonAnswer(lo, hi, words) for lo, hi, words in ideas if lo <= hi and not lo <= right <= hi]
        return LessonQuestion(kind="number", text=text, answers=tuple(answers), **more)

    def choice(self, text: str, choices: list[tuple[str, str]], right: int, **more: Any) -> LessonQuestion:
        """A question with choices, each with what is said of it."""
        answers = tuple(LessonAnswer(k, k, words, k == right) for k, (_, words) in enumerate(choices))
        names = tuple(name for name, _ in choices)
        return LessonQuestion(
            kind="choice", text=text, answers=answers, choices=names, shown=names[right], otherwise="", **more
        )

    def slider(self, text: str, marks: "list[SliderMark]", shown: str = "{}", **more: Any) -> LessonQuestion:
        """A question for a stop of a slider. `shown`: the answer in words, `{}` in it the first right stop."""
        rights = [stop.label for stop, _, right in marks if right]
        if not rights:
            raise self.refuse(f"no stop of the slider is right: {text}")
        answers = tuple(LessonAnswer(k, k, words, right) for k, (_, words, right) in enumerate(marks))
        stops = tuple(stop for stop, _, _ in marks)
        words = shown.format(rights[0])
        return LessonQuestion(kind="slider", text=text, answers=answers, stops=stops, shown=words, otherwise="", **more)


SliderMark = tuple[SliderStop, str, bool]  # what is seen there, what is said to who answers there, whether it is right
Idea = tuple[float, float, str]  # from, to, the idea that leads there


def around(value: float, words: str, near: float = NEAR) -> Idea:
    return value - near, value + near, words


def moment_at(player: Player, index: int, phase: Phase, step: int, node: int | None) -> LessonMoment:
    """A moment of a round, or the last one before it."""
    steps = player.builder.steps(index)
    wanted = replace(steps.cursor(index, 0), phase=phase, step=step)
    k = steps.place(wanted)
    at = steps.cursor(index, k)
    return LessonMoment(index, int(at.phase), at.step, k, -1 if node is None else node)
