"""What the server makes of what the stage shows: a round as GIF, the tables of a run. The page itself makes stills.

It is made in two steps: what is needed of the run is taken while nobody else asks it (`prepared`), and drawn after.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from specviz.errors import MissingExtra, SpecvizError
from specviz.tables import ENDINGS, zipped
from specviz.view.play.build import FrameBuilder
from specviz.view.stage.page import THEMES, Theme, posed_page
from specviz.view.stage.pictures import film

TYPES: Mapping[str, str] = {"gif": "image/gif", **dict.fromkeys(ENDINGS, "application/zip")}


@dataclass(frozen=True, slots=True)
class Taken:
    """What somebody wants: `kind` of `TYPES`; of a GIF the round, by index."""

    kind: str
    index: int = 0
    theme: Theme = "light"


def taken(asked: Mapping[str, str]) -> Taken:
    """By the words of an address. Raises SpecvizError for what is none."""
    kind, theme, word = asked.get("share", ""), asked.get("theme", "light"), asked.get("round", "0")
    if kind not in TYPES:
        raise SpecvizError(f"no file of kind '{kind[:20]}' here; there are {', '.join(TYPES)}")
    known = next((known for known in THEMES if known == theme), None)
    if known is None:
        raise SpecvizError(f"no theme '{theme[:20]}'; there are {', '.join(THEMES)}")
    if not (word.isdecimal() and word.isascii()) or len(word) > 9:
        raise SpecvizError(f"'{word[:20]}' is no number of a round")
    return Taken(kind, int(word), known)


def prepared(builder: FrameBuilder, wanted: Taken) -> Callable[[], bytes]:
    """What makes the file, with all it needs of the run. Raises SpecvizError where that round is not."""
    ending = next((kind for kind in ENDINGS if kind == wanted.kind), None)
    if ending is not None:
        try:
            whole = zipped(builder.run, ending)
        except ModuleNotFoundError as error:
            raise MissingExtra("export", f"this file is made with {error.name}, which is not installed; it") from None
        return lambda: whole
    last = len(builder.run.rounds)
    if not 0 <= wanted.index < last:
        raise SpecvizError(f"no round {wanted.index} here; there are {last}, counted from 0")
    html = posed_page(builder, [wanted.index], wanted.theme)
    return lambda: film(html, [wanted.index])
