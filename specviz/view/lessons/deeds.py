"""What a lesson may ask for, each with its words for a terminal and for a browser, and the action that does it.

One list for both, so that a lesson names a deed ("next rejection") and never a key.
"""

from dataclasses import dataclass

from specviz.errors import SpecvizError, suggestion
from specviz.view.lessons.parts import LessonDeed


@dataclass(frozen=True, slots=True)
class Deed:
    """`terminal`: key and words; `browser`: the same there; `actions`: those of the terminal that count.
    `ends`: whether the step is done with it; when they have looked around, only learners know."""

    terminal: str
    browser: str
    actions: tuple[str, ...] = ()
    ends: bool = True


DEEDS: dict[str, Deed] = {
    "first moment": Deed(
        "Home: to the very beginning", "go to the very beginning, by the button or by Home", ("first",)
    ),
    "next step": Deed(". (next step)", "go on, by the button or by →", ("step(1)",)),
    "next phase": Deed("> (next phase)", "go on, by the button or a step at a time by →,", ("phase(1)", "step(1)")),
    "next round": Deed("] (next round)", "go on, by the button or by ]", ("round(1)",)),
    "next rejection": Deed("} (next rejection)", "go on, by the button or by }", ("rejection(1)",)),
    "look at nodes": Deed("← → ↑ ↓: look at some nodes", "click some tokens in the picture", ("move",), ends=False),
}


def deed(name: str, more: str, here: str) -> LessonDeed:
    """A deed with what it is done for, as ". (next step) until the draft stands". Raises SpecvizError for another."""
    if name not in DEEDS:
        raise SpecvizError(f"{here}: nothing can be done as '{name}'{suggestion(name, dict.fromkeys(DEEDS))}")
    what, behind = DEEDS[name], f" {more}" if more else ""
    return LessonDeed(name, what.terminal + behind, what.browser + behind)


def deeds_of(action: str) -> tuple[str, ...]:
    """The deeds that an action of the terminal does: `step(1)`; of one without arguments any does."""
    plain = action.partition("(")[0]
    return tuple(name for name, what in DEEDS.items() if action in what.actions or plain in what.actions)
