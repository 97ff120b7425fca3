"""A picture as pixels, by Pillow. Shapes are drawn larger and made smaller, for soft edges; text as it will stand."""

import math
from collections.abc import Iterator
from io import BytesIO
from itertools import pairwise

from PIL import Image, ImageDraw

from specviz.view.picture.letters import Letters
from specviz.view.picture.shapes import Bend, Box, Picture, TextLine

_FINER = 3  # pixels of a shape's drawing in one of the picture, across
_STEPS = 28  # of a curve
_CORNER = 6  # steps of a round corner
Point = tuple[float, float]


def png(picture: Picture, scale: float = 2.0, letters: Letters | None = None) -> bytes:
    """As a PNG file, `scale` pixels in one of the picture's."""
    held = BytesIO()
    pixels(picture, scale, letters).save(held, "PNG", optimize=True)
    return held.getvalue()


def pixels(picture: Picture, scale: float = 1.0, letters: Letters | None = None, times: int = _FINER) -> Image.Image:
    """RGB. `times`: how much larger shapes are drawn."""
    finer = scale * times
    size = round(picture.width * scale), round(picture.height * scale)
    large = Image.new("RGB", (size[0] * times, size[1] * times), picture.ground)
    draw = ImageDraw.Draw(large)
    for shape in picture.shapes:
        if isinstance(shape, Box):
            _box(draw, shape, finer)
        elif isinstance(shape, Bend):
            _curve(draw, shape, finer)
    found = large.reduce(times)
    write = ImageDraw.Draw(found)
    held = letters or Letters()
    for shape in picture.shapes:
        if isinstance(shape, TextLine):
            _line(write, shape, scale, held)
    return found


def _box(draw: ImageDraw.ImageDraw, box: Box, by: float) -> None:
    x0, y0, x1, y1 = (value * by for value in (box.x, box.y, box.x + box.w, box.y + box.h))
    if x1 - x0 < 1 or y1 - y0 < 1:
        return
    radius = min(box.r * by, (x1 - x0) / 2, (y1 - y0) / 2)
    wide = max(1, round(box.width * by)) if box.stroke else 0
    half = wide / 2
    if box.stroke is None or box.dash is not None:
        if box.fill is not None:
            draw.rounded_rectangle((x0, y0, x1 - 1, y1 - 1), radius, box.fill)
        if box.stroke is not None and box.dash is not None:
            _dashes(draw, box, by, wide)
        return
    edge = (x0 - half, y0 - half, x1 + half - 1, y1 + half - 1)
    draw.rounded_rectangle(edge, radius + half, box.fill, box.stroke, wide)


def _dashes(draw: ImageDraw.ImageDraw, box: Box, by: float, wide: int) -> None:
    assert box.dash is not None
    stroke, gap = (max(1.0, length * by) for length in box.dash)
    left, on, part = stroke, True, list[Point]()
    for start, end in pairwise(_outline(box, by)):
        length, gone = math.dist(start, end), 0.0
        while length - gone > left:
            gone += left
            at = _between(start, end, gone / length)
            if on:
                draw.line([*part, at], box.stroke, wide)
            on, part, left = not on, [at], (gap if on else stroke)
        left -= length - gone
        part = [*(part or [start]), end]
    if on and len(part) > 1:
        draw.line(part, box.stroke, wide)


def _outline(box: Box, by: float) -> Iterator[Point]:
    x0, y0, x1, y1 = (value * by for value in (box.x, box.y, box.x + box.w, box.y + box.h))
    r = min(box.r * by, (x1 - x0) / 2, (y1 - y0) / 2)
    corners = ((x1 - r, y0 + r, -90), (x1 - r, y1 - r, 0), (x0 + r, y1 - r, 90), (x0 + r, y0 + r, 180))
    yield x0 + r, y0
    for x, y, first in corners:
        for step in range(_CORNER + 1):
            turn = math.radians(first + 90 * step / _CORNER)
            yield x + r * math.cos(turn), y + r * math.sin(turn)
    yield x0 + r, y0


def _between(start: Point, end: Point, share: float) -> Point:
    return start[0] + (end[0] - start[0]) * share, start[1] + (end[1] - start[1]) * share


def _curve(draw: ImageDraw.ImageDraw, curve: Bend, by: float) -> None:
    straight = len({y for _, y in curve.points}) == 1
    points = [_on(curve, step / _STEPS, by) for step in ((0, _STEPS) if straight else range(_STEPS + 1))]
    draw.line(points, curve.stroke, max(1, round(curve.width * by)), joint="curve")


def _on(curve: Bend, t: float, by: float) -> Point:
    weights = (1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3
    return (
        sum(w * point[0] for w, point in zip(weights, curve.points, strict=True)) * by,
        sum(w * point[1] for w, point in zip(weights, curve.points, strict=True)) * by,
    )


def _line(draw: ImageDraw.ImageDraw, line: TextLine, scale: float, letters: Letters) -> None:
    size = line.size * scale
    runs = [(p, text, font) for p in line.pieces for text, font in letters.runs(p.text, size, line.mono, p.bold)]
    wide = sum(font.getlength(text) for _, text, font in runs)
    x = line.x * scale - {"start": 0.0, "middle": wide / 2, "end": wide}[line.anchor]
    y = line.y * scale
    thick = max(1, round(size / 12))
    for piece, text, font in runs:
        end = x + font.getlength(text)
        draw.text((x, y), text, piece.fill, font, anchor="ls")
        if piece.under:
            draw.line([(x, y + size * 0.2), (end, y + size * 0.2)], piece.under, thick)
        if piece.struck:
            draw.line([(x, y - size * 0.28), (end, y - size * 0.28)], piece.struck, thick)
        x = end
