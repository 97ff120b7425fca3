"""`make_script(lesson, open) -> LessonScript`: a lesson read together with its recording."""

from collections.abc import Mapping
from typing import Any

from specviz.errors import SpecvizError, suggestion
from specviz.view.lessons.asks import ASKS, BOARDS, AskScene, Opener, moment_at
from specviz.view.lessons.deeds import DEEDS, deed
from specviz.view.lessons.facts import filled
from specviz.view.lessons.lesson import Lesson
from specviz.view.lessons.parts import LessonMoment, LessonScript, LessonStep, LessonUntil
from specviz.view.play.player import Player
from specviz.view.words.palette import Phase


def make_script(lesson: Lesson, open: Opener) -> LessonScript:
    """`open`: gives a recording by its name, at rest. The same lesson and recording give the same script.

    Raises SpecvizError with the lesson, the step and what the recording does not hold.
    """
    player = open(lesson.trace)
    shared: dict[str, Any] = {}
    steps = tuple(_Step(lesson, player, open, k, written, shared).made() for k, written in enumerate(lesson.steps, 1))
    return LessonScript(
        lesson.id, lesson.number, lesson.title, lesson.about, lesson.trace, steps, lesson.can, lesson.then
    )


class _Step:
    """One step as it is written, and its recording."""

    def __init__(
        self,
        lesson: Lesson,
        player: Player,
        open: Opener,
        number: int,
        written: Mapping[str, Any],
        shared: dict[str, Any],
    ) -> None:
        self.player, self.open, self.written, self.shared = player, open, written, shared
        self.here = lesson.here(number)

    def made(self) -> LessonStep:
        written = self.written
        did, until = written.get("do", ""), written.get("until", {})
        if until:
            waits = LessonUntil(phase=until.get("phase", 0), round=until.get("round", 0))
        else:
            waits = LessonUntil(did=did if did in DEEDS and DEEDS[did].ends else "")
        ask, board = written.get("ask"), written.get("board")
        return LessonStep(
            say=self._words(written["say"]),
            do=deed(did, self._words(written.get("for", "")), self.here) if did else None,
            until=waits,
            see=tuple(self._words(name) for name in written.get("see", [])),
            value=written.get("value", ""),
            at=self._at(),
            board=self._named(BOARDS, board, "shown")(self._scene()) if board else None,
            question=self._named(ASKS, ask, "asked")(self._scene()) if ask else None,
            command=written.get("command", ""),
        )

    def _words(self, text: str) -> str:
        return filled(text, self.player, self.here)

    def _named(self, table: Mapping[str, Any], name: str, done: str) -> Any:
        if name not in table:
            known = suggestion(name, dict.fromkeys(table))
            raise SpecvizError(f"{self.here}: nothing can be {done} as '{name}'{known}")
        return table[name]

    def _scene(self) -> AskScene:
        index, node = self._place(self.written.get("of") or self.written.get("at") or "r1")
        return AskScene(self.here, self.player, self.open, index, node, self.written.get("with", {}), self.shared)

    def _place(self, place: str) -> tuple[int, int | None]:
        try:
            return self.player.located(place)
        except SpecvizError as error:
            raise SpecvizError(f"{self.here}: {error}") from None

    def _at(self) -> LessonMoment | None:
        if not self.written.get("at"):
            return None
        index, node = self._place(self.written["at"])
        phase = self.written.get("phase", int(Phase.COMMIT))
        if phase not in list(Phase):
            raise SpecvizError(f"{self.here}: phase {phase} is none of 1 to 6")
        # The last moment of that phase: all of a draft, all tests.
        return moment_at(self.player, index, Phase(phase), 0 if phase == Phase.ROOT else 10**6, node)
