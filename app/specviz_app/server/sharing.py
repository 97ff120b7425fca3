"""What can be taken away from the stage: a moment as SVG or PNG, a round as GIF, the tables of a run.

It is made in two steps: what is needed of the run is taken while nobody else asks it (`prepared`), and painted after.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from specviz.errors import MissingExtra, SpecvizError
from specviz.tables import ENDINGS, zipped
from specviz.view.picture.look import THEMES, Theme
from specviz.view.picture.stage import StagePainter
from specviz.view.picture.svg import svg
from specviz.view.play.build import FrameBuilder
from specviz.view.stage.document import head, one_round

TYPES: Mapping[str, str] = {
    "svg": "image/svg+xml",
    "png": "image/png",
    "gif": "image/gif",
    **dict.fromkeys(ENDINGS, "application/zip"),
}


@dataclass(frozen=True, slots=True)
class Taken:
    """What somebody wants: `kind` of `TYPES`; round and moment by index; a node, if one is chosen."""

    kind: str
    index: int = 0
    moment: int = -1
    node: int | None = None
    theme: Theme = "light"


def taken(asked: Mapping[str, str]) -> Taken:
    """By the words of an address. Raises SpecvizError for what is none."""
    kind, theme = asked.get("share", ""), asked.get("theme", "light")
    if kind not in TYPES:
        raise SpecvizError(f"no file of kind '{kind[:20]}' here; there are {', '.join(TYPES)}")
    known = next((each for each in THEMES if each == theme), None)
    if known is None:
        raise SpecvizError(f"no theme '{theme[:20]}'; there are {', '.join(THEMES)}")
    node = asked.get("node")
    index, moment = _whole(asked.get("round", "0")), _whole(asked.get("moment", "-1"))
    return Taken(kind, index, moment, None if node is None else _whole(node), known)


def _whole(word: str) -> int:
    digits = word.removeprefix("-")
    if not (digits.isdecimal() and digits.isascii()) or len(digits) > 9:
        raise SpecvizError(f"'{word[:20]}' is no number of a round, a moment or a node")
    return int(word)


def prepared(builder: FrameBuilder, name: str, wanted: Taken) -> Callable[[], bytes]:
    """What makes the file, with all it needs of the run. Raises SpecvizError where that round or moment is not."""
    ending = next((each for each in ENDINGS if each == wanted.kind), None)
    if ending is not None:
        whole = _needs(lambda: zipped(builder.run, ending))
        return lambda: whole
    last = len(builder.run.rounds)
    if not 0 <= wanted.index < last:
        raise SpecvizError(f"no round {wanted.index} here; there are {last}, counted from 0")
    top, page = head(builder, name), one_round(builder, wanted.index)
    if not -len(page.moments) <= wanted.moment < len(page.moments):
        raise SpecvizError(f"no moment {wanted.moment} in round {page.place}; there are {len(page.moments)}")
    if wanted.kind == "gif":

        def film() -> bytes:
            from specviz.view.picture.film import gif

            return gif(top, [page], wanted.theme)

        return lambda: _needs(film)
    picture = StagePainter(top, page, wanted.theme, chosen=wanted.node).picture(wanted.moment)
    if wanted.kind == "svg":
        return lambda: svg(picture).encode("utf-8")

    def still() -> bytes:
        from specviz.view.picture.raster import png

        return png(picture)

    return lambda: _needs(still)


def _needs(make: Callable[[], bytes]) -> bytes:
    """Without the libraries of the extra the line that installs them is told."""
    try:
        return make()
    except ModuleNotFoundError as error:
        raise MissingExtra("export", f"this file is made with {error.name}, which is not installed; it") from None
