"""A round as it goes, as a GIF: every moment is come to in a few frames and then looked at.

All frames share one table of colours, so that a frame holds only what is other than in the one before.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from io import BytesIO

from PIL import Image

from specviz.view.picture.letters import Letters
from specviz.view.picture.look import Theme, mix
from specviz.view.picture.raster import pixels
from specviz.view.picture.shapes import Box, TextLine
from specviz.view.picture.stage import WIDTH, StagePainter
from specviz.view.stage.parts import StageHead, StageRound
from specviz.view.words.palette import Phase, parse

# Frames on the way to a moment, and how long it is looked at: the last one of a round longest.
_WAY = {Phase.DRAFT: 4, Phase.VERIFY: 9, Phase.ACCEPT: 5, Phase.CLOSE: 4}
_LOOKED = {
    Phase.ROOT: 700,
    Phase.DRAFT: 480,
    Phase.VERIFY: 900,
    Phase.ACCEPT: 1250,
    Phase.CLOSE: 1600,
    Phase.COMMIT: 2600,
}  # ms
_FINER = 2  # pixels of a shape in one of the picture, across: a film has many
_SEEN = (0.5, 1.0)  # ways to a moment that the table of colours is made from
_FRAME = 70  # ms: browsers slow down what asks for less than 20
_COLOURS, _PLAIN, _STEPS = 128, 64, 4  # in the table; of which drawn as they are; on the way from text to its ground


def gif(
    head: StageHead,
    rounds: Sequence[StageRound],
    theme: Theme = "light",
    width: int = WIDTH,
    speed: float = 1.0,
    letters: Letters | None = None,
) -> bytes:
    """The rounds one after another, again and again. `speed`: 2 is twice as fast."""
    painters = _alike(head, rounds, theme, width)
    table = _table(painters)
    frames = [(_flat(image, table), ms) for painter in painters for image, ms in _frames(painter, letters)]
    held = BytesIO()
    first, *rest = [image for image, _ in frames]
    durations = [max(20, round(ms / speed / 10) * 10) for _, ms in frames]
    first.save(held, "GIF", save_all=True, append_images=rest, duration=durations, loop=0, optimize=False, disposal=1)
    return held.getvalue()


def _alike(head: StageHead, rounds: Sequence[StageRound], theme: Theme, width: int) -> list[StagePainter]:
    """A painter a round, all of one size."""
    first = [StagePainter(head, page, theme, width) for page in rounds]
    high, lines = max(p.tree_height for p in first), max(p.said_lines for p in first)
    found = [StagePainter(head, page, theme, width, high, lines) for page in rounds]
    tallest = max(painter.height for painter in found)
    for painter in found:
        painter.tree_height += tallest - painter.height
    return found


def _frames(painter: StagePainter, letters: Letters | None) -> Iterator[tuple[Image.Image, int]]:
    """Every frame and how long it stands, in ms."""
    for k, moment in enumerate(painter.page.moments):
        phase = Phase(moment.phase)
        n = _WAY.get(phase, 0)
        for step in range(1, n):
            yield pixels(painter.picture(k, step / n), 1.0, letters, _FINER), _FRAME
        yield pixels(painter.picture(k), 1.0, letters, _FINER), _LOOKED[phase]


def _table(painters: Sequence[StagePainter]) -> Image.Image:
    """One table of colours for all frames: those that are drawn with, the most used first, and the ways from those of
    text to their grounds, for soft edges."""
    text, areas = Counter[str](), Counter[str]()
    moments = ((painter, k) for painter in painters for k in range(painter.n_moments))
    for shape in (s for painter, k in moments for way in _SEEN for s in painter.picture(k, way).shapes):
        if isinstance(shape, TextLine):
            text.update(piece.fill for piece in shape.pieces)
        else:
            areas.update(filter(None, (shape.stroke, shape.fill if isinstance(shape, Box) else None)))
    of = painters[0].colours.of
    grounds = (of.ground, of.wash)
    plain = [*grounds, of.panel, *painters[0].shades, *(colour for colour, _ in (text + areas).most_common(_PLAIN))]
    ways = (mix(ink, g, n / _STEPS) for ink, _ in text.most_common() for g in grounds for n in range(1, _STEPS))
    found = list(dict.fromkeys([*plain, *ways]))[:_COLOURS]
    table = Image.new("P", (1, 1))
    table.putpalette([channel for colour in found for channel in parse(colour)])
    return table


def _flat(image: Image.Image, table: Image.Image) -> Image.Image:
    return image.quantize(palette=table, dither=Image.Dither.NONE)
