"""Loss curves as a plain SVG: no plotting library for one picture on a model card."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

Point = tuple[float, float]
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 760, 420, 56, 190, 36, 48
_FONT = 'font-family="sans-serif" font-size="12"'
_COLOURS = ("#0072b2", "#56b4e9", "#d55e00", "#e69f00", "#009e73", "#999999")


@dataclass(frozen=True, slots=True)
class Line:
    """One curve: (millions of tokens, loss in nats), dashed when it is the training loss."""

    label: str
    points: Sequence[Point]
    dashed: bool = False


@dataclass(frozen=True, slots=True)
class Axes:
    """What is drawn against what; a line across every `step`, and nothing above `most`."""

    label: str = "millions of tokens seen; loss in nats per token"
    step: float = 0.5
    most: float = 6.0


_LOSS = Axes()


@dataclass(frozen=True, slots=True)
class _Frame:
    """The data ranges, and where they lie on the canvas."""

    x_max: float
    y_min: float
    y_max: float

    def x(self, value: float) -> float:
        return _LEFT + value / self.x_max * (_WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        share = (min(value, self.y_max) - self.y_min) / (self.y_max - self.y_min)
        return _HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM)


def svg(title: str, lines: Sequence[Line], axes: Axes = _LOSS) -> str:
    """Curves with axes and a legend, on a white ground so that dark pages show it too."""
    drawn = [line for line in lines if line.points]
    frame = _frame([point for line in drawn for point in line.points], axes)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" {_FONT}>',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#ffffff"/>',
        f'<text x="{_LEFT}" y="20" font-size="14">{escape(title)}</text>',
        *_axes(frame, axes),
        *(mark for number, line in enumerate(drawn) for mark in _curve(frame, line, number)),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def column(pictures: Sequence[str]) -> str:
    """Pictures made by `svg`, one below the other, as one."""
    inner = (
        picture.replace("<svg ", f'<svg y="{number * _HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}" ', 1)
        for number, picture in enumerate(pictures)
    )
    box = f"0 0 {_WIDTH} {_HEIGHT * len(pictures)}"
    return f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{box}">\n{"".join(inner)}</svg>\n'


def _frame(points: Sequence[Point], axes: Axes) -> _Frame:
    """From a whole number of steps below the least value up to the largest that is drawn."""
    values = [y for _, y in points]
    least = int(min(*values, axes.most) / axes.step) * axes.step
    return _Frame(max(x for x, _ in points), least, max(min(max(values), axes.most), least + axes.step))


def _axes(frame: _Frame, axes: Axes) -> list[str]:
    marks = []
    n_rows = round((frame.y_max - frame.y_min) / axes.step)
    for step in range(n_rows + 1):
        loss = frame.y_min + step * axes.step
        y = frame.y(loss)
        marks.append(f'<path d="M{_LEFT} {y:.1f}H{_WIDTH - _RIGHT}" stroke="#dddddd"/>')
        marks.append(f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{loss:.1f}</text>')
    for step in range(6):
        tokens = frame.x_max * step / 5
        label = f"{tokens:.3g}"
        marks.append(f'<text x="{frame.x(tokens):.1f}" y="{_HEIGHT - 26}" text-anchor="middle">{label}</text>')
    marks.append(f'<text x="{_LEFT}" y="{_HEIGHT - 8}">{escape(axes.label)}</text>')
    return marks


def _curve(frame: _Frame, line: Line, number: int) -> list[str]:
    path = "L".join(f"{frame.x(tokens):.1f} {frame.y(loss):.1f}" for tokens, loss in line.points)
    stroke = f'stroke="{_COLOURS[number % len(_COLOURS)]}" stroke-width="2"'
    stroke += ' stroke-dasharray="2 3"' if line.dashed else ""
    y, x = _TOP + 18 * number + 8, _WIDTH - _RIGHT + 14
    return [
        f'<path d="M{path}" fill="none" {stroke}/>',
        f'<path d="M{x} {y}h22" {stroke}/>',
        f'<text x="{x + 28}" y="{y + 4}">{escape(line.label)}</text>',
    ]
