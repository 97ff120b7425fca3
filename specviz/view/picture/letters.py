"""The letters of raster pictures: DejaVu, which comes along, so that a picture is the same on every machine.

A letter that it does not have is written by its code, `⟨4E2D⟩`, unless another font is given that has it.
"""

from collections.abc import Iterator
from functools import cache
from importlib import resources
from io import BytesIO
from itertools import groupby
from pathlib import Path

from PIL import ImageFont

from specviz.errors import SpecvizError

Font = ImageFont.FreeTypeFont
_UNKNOWN = "\U0010fffe"  # that no font has: how a font paints what it lacks


@cache
def _file(name: str) -> bytes:
    return (resources.files("specviz_assets") / "fonts" / f"{name}.ttf").read_bytes()


@cache
def _own(name: str, size: float) -> Font:
    return ImageFont.truetype(BytesIO(_file(name)), size, layout_engine=ImageFont.Layout.BASIC)


@cache
def _other(path: Path, size: float) -> Font:
    why = "it is no font that can be read" if path.is_file() else "no such file"
    try:
        return ImageFont.truetype(path, size)
    except (OSError, ValueError):
        raise SpecvizError(f"--font {path}: {why}; give a TrueType or OpenType file") from None


@cache
def _lacks(font: Font, letter: str) -> bool:
    blank, found = font.getmask(_UNKNOWN), font.getmask(letter)
    return found.size == blank.size and bytes(found) == bytes(blank)


class Letters:
    """Fonts by size and weight. `more`: a font for what ours has not. Raises SpecvizError when that is none."""

    def __init__(self, more: Path | None = None) -> None:
        self.more = more
        if more is not None:
            _other(more, 10.0)

    def runs(self, text: str, size: float, mono: bool, bold: bool) -> Iterator[tuple[str, Font]]:
        """The text in stretches of one font each."""
        own = _own(f"DejaVuSans{'Mono' * mono}{'-Bold' * bold}", size)
        for lacking, letters in groupby(text, lambda letter: _lacks(own, letter)):
            stretch = "".join(letters)
            yield from self._lacking(stretch, own, size) if lacking else [(stretch, own)]

    def _lacking(self, text: str, own: Font, size: float) -> Iterator[tuple[str, Font]]:
        other = _other(self.more, size) if self.more is not None else None
        for letter in text:
            if other is not None and not _lacks(other, letter):
                yield letter, other
            else:
                yield f"⟨{ord(letter):04X}⟩", own
