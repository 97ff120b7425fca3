"""Colours of a picture on a light and on a dark ground: those of the stage's style sheet, and the run's own marks."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from specviz.view.stage.parts import Look
from specviz.view.words.palette import LEAST, legible, parse

Theme = Literal["light", "dark"]
THEMES: tuple[Theme, ...] = ("light", "dark")


@dataclass(frozen=True, slots=True)
class Ground:
    """The plain colours of a theme, as `stage.css` has them."""

    ground: str
    panel: str
    ink: str
    soft: str
    line: str
    wash: str


_GROUNDS: dict[Theme, Ground] = {
    "light": Ground("#fbfcfd", "#ffffff", "#1a1a1a", "#5c6670", "#e2e7ec", "#f2f5f8"),
    "dark": Ground("#10141a", "#171d25", "#e6e6e6", "#9aa6b2", "#27303a", "#1a212a"),
}


class Colours:
    """A theme with the marks of a run."""

    def __init__(self, theme: Theme, marks: Mapping[str, Look]) -> None:
        self.theme, self.of = theme, _GROUNDS[theme]
        self._marks = marks

    def mark(self, name: str) -> str:
        """The colour of a mark."""
        look = self._marks[name]
        return look.dark if self.theme == "dark" else look.light

    def glyph(self, name: str) -> str:
        return self._marks[name].glyph

    def word(self, name: str) -> str:
        return self._marks[name].word

    def letters(self, name: str) -> str:
        """A mark's colour for running text, where it leans to the ink."""
        return mix(self.mark(name), self.of.ink, 0.62)

    def readable(self, colour: str, ground: str) -> str:
        """The colour, or the nearest that can be read on that ground."""
        return "#{:02x}{:02x}{:02x}".format(*legible(parse(colour), parse(ground), LEAST))


def mix(colour: str, other: str, share: float) -> str:
    """So much of a colour, the rest of another."""
    share = max(0.0, min(1.0, share))
    pairs = zip(parse(colour), parse(other), strict=True)
    return "#{:02x}{:02x}{:02x}".format(*(round(a * share + b * (1 - share)) for a, b in pairs))
