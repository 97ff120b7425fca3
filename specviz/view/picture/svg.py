"""A picture as SVG: plain shapes and text, without script, style sheet or anything from elsewhere.

All text goes through one escape, and what XML forbids is not in it: the stage's texts are shown characters only.
"""

import re
from collections.abc import Iterator
from xml.sax.saxutils import escape, quoteattr

from specviz.view.picture.shapes import Bend, Box, Picture, Piece, Shape, TextLine

SANS = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', 'DejaVu Sans', sans-serif"
MONO = "ui-monospace, 'SF Mono', 'Cascadia Code', Menlo, Consolas, 'DejaVu Sans Mono', monospace"
_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def svg(picture: Picture) -> str:
    """The whole file."""
    w, h = _n(picture.width), _n(picture.height)
    ground = Box(0, 0, picture.width, picture.height, fill=picture.ground)
    body = "\n".join(line for shape in (ground, *picture.shapes) for line in _shape(shape))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{w}" height="{h}" viewBox="0 0 {w} {h}" role="img" '
        f'aria-labelledby="t d" xml:space="preserve" style="white-space: pre">\n'
        f'<title id="t">{_text(picture.title)}</title>\n'
        f'<desc id="d">{_text(picture.words)}</desc>\n{body}\n</svg>\n'
    )


def _shape(shape: Shape) -> Iterator[str]:
    if isinstance(shape, Box):
        yield _box(shape)
    elif isinstance(shape, Bend):
        (x0, y0), (x1, y1), (x2, y2), (x3, y3) = shape.points
        path = f"M{_n(x0)} {_n(y0)}C{_n(x1)} {_n(y1)} {_n(x2)} {_n(y2)} {_n(x3)} {_n(y3)}"
        yield f'<path d="{path}" fill="none" stroke="{shape.stroke}" stroke-width="{_n(shape.width)}"/>'
    else:
        yield _line(shape)


def _box(box: Box) -> str:
    stroke = f' stroke="{box.stroke}" stroke-width="{_n(box.width)}"' if box.stroke else ""
    dash = f' stroke-dasharray="{_n(box.dash[0])} {_n(box.dash[1])}"' if box.dash else ""
    radius = f' rx="{_n(box.r)}"' if box.r else ""
    place = f'x="{_n(box.x)}" y="{_n(box.y)}" width="{_n(box.w)}" height="{_n(box.h)}"'
    return f'<rect {place}{radius} fill="{box.fill or "none"}"{stroke}{dash}/>'


def _line(line: TextLine) -> str:
    family = quoteattr(MONO if line.mono else SANS)
    anchor = "" if line.anchor == "start" else f' text-anchor="{line.anchor}"'
    place = f'x="{_n(line.x)}" y="{_n(line.y)}" font-size="{_n(line.size)}" font-family={family}{anchor}'
    return f"<text {place}>{''.join(map(_piece, line.pieces))}</text>"


def _piece(piece: Piece) -> str:
    bold = ' font-weight="bold"' if piece.bold else ""
    kinds = [name for name, colour in (("underline", piece.under), ("line-through", piece.struck)) if colour]
    colour = piece.struck or piece.under
    lines = f' text-decoration="{" ".join(kinds)}" style="text-decoration-color: {colour}"' if kinds else ""
    return f'<tspan fill="{piece.fill}"{bold}{lines}>{_text(piece.text)}</tspan>'


def _text(text: str) -> str:
    return escape(_FORBIDDEN.sub("\ufffd", text))


def _n(value: float) -> str:
    """A length with a tenth of a pixel."""
    return f"{value:.1f}".removesuffix(".0")
