"""The card of a trained part: its numbers (`card.json`), a page drawn from them by a template, and pictures.

A template of `templates/` is text with `{name[key]:format}` for the numbers. Beside Python's own formats: `share` and
`percent` (a dash where there is no number), `list`, and `cells FORMAT`, a row of a table. A line that begins with % is
no text: `%for name[, name] in numbers`, `%if numbers`, `%if not numbers` up to their `%end`, and `%include template`.

Pictures are plain SVG, on a white ground so that dark pages show them too: no plotting library for these. `loss_plot`:
curves over steps or tokens. `reliability_plot`: how often a head is right against how sure it says it is.

No card names a path of the machine that made it.
"""

import json
import platform
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Formatter
from typing import Any

import torch

_FOR = re.compile(r"%for (.+) in (\S+)")
_IF = re.compile(r"%if (not )?(\S+)")
_SHARES = {"share": ".0%", "percent": ".1%"}


class _CardFormatter(Formatter):
    def format_field(self, value: Any, spec: str) -> str:
        if spec == "list":
            return ", ".join(map(str, value))
        if spec.startswith("cells"):
            return " | ".join(self.format_field(cell, spec[6:]) for cell in value)
        if spec in _SHARES:
            return "-" if value is None else format(value, _SHARES[spec])
        return format(value, spec)


_FORMATTER = _CardFormatter()


def page(template: str, numbers: Mapping[str, Any]) -> str:
    """The template with the numbers in it."""
    return "".join(_drawn(_lines(template), numbers))


def write(folder: Path, template: str, numbers: dict[str, Any], facts: Mapping[str, Any], **pictures: str) -> None:
    """Numbers, page and pictures (`.svg`) beside the weights. `facts`: what the page needs besides the numbers."""
    (folder / "card.json").write_text(json.dumps(numbers, indent=1) + "\n", encoding="utf-8")
    for name, picture in pictures.items():
        (folder / f"{name}.svg").write_text(picture, encoding="utf-8")
    (folder / "README.md").write_text(page(template, {**numbers, **facts}), encoding="utf-8")


def versions() -> dict[str, str]:
    """Versions that move numbers."""
    return {"python": platform.python_version(), "torch": str(torch.__version__)}


def _lines(template: str) -> list[str]:
    text = (files(__package__) / "templates" / f"{template}.md").read_text(encoding="utf-8")
    expanded: list[str] = []
    for line in text.splitlines(keepends=True):
        expanded += _lines(line.split()[1]) if line.startswith("%include ") else [line]
    return expanded


def _drawn(lines: Sequence[str], numbers: Mapping[str, Any]) -> Iterator[str]:
    at = 0
    while at < len(lines):
        line = lines[at]
        at += 1
        if not line.startswith("%"):
            yield _FORMATTER.vformat(line, (), numbers)
            continue
        body = lines[at : _end(lines, at)]
        at += len(body) + 1
        if directive := _FOR.match(line):
            names = directive[1].split(", ")
            many = numbers[directive[2]]
            for item in many.items() if isinstance(many, dict) else many:
                yield from _drawn(
                    body, {**numbers, **dict(zip(names, item if len(names) > 1 else [item], strict=True))}
                )
        elif (directive := _IF.match(line)) and bool(numbers[directive[2]]) is not bool(directive[1]):
            yield from _drawn(body, numbers)


def _end(lines: Sequence[str], at: int) -> int:
    """Where the block that begins at `at` ends."""
    depth = 1
    while depth:
        depth += {"%for": 1, "%if": 1, "%end": -1}.get(lines[at].split(" ")[0].strip(), 0)
        at += 1
    return at - 1


Point = tuple[float, float]
_FONT = 'font-family="sans-serif" font-size="12"'


def _document(width: int, height: int, marks: Iterable[str]) -> str:
    box = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" {_FONT}>'
    return "\n".join([box, f'<rect width="{width}" height="{height}" fill="#ffffff"/>', *marks, "</svg>"]) + "\n"


def _title(x: int, y: int, text: str) -> str:
    return f'<text x="{x}" y="{y}" font-size="14">{escape(text)}</text>'


def _entry(x: int, y: int, stroke: str, label: str) -> list[str]:
    """A line of the legend."""
    return [f'<path d="M{x} {y}h22" {stroke}/>', f'<text x="{x + 28}" y="{y + 4}">{escape(label)}</text>']


_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 760, 420, 56, 190, 36, 48
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
class _Scale:
    """The data ranges, and where they lie on the canvas."""

    x_max: float
    y_min: float
    y_max: float

    def x(self, value: float) -> float:
        return _LEFT + value / self.x_max * (_WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        share = (min(value, self.y_max) - self.y_min) / (self.y_max - self.y_min)
        return _HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM)


def loss_plot(title: str, lines: Sequence[Line], axes: Axes = _LOSS) -> str:
    """Curves with axes and a legend, from a whole number of steps below the least value to the largest drawn."""
    drawn = [line for line in lines if line.points]
    values = [y for line in drawn for _, y in line.points]
    least = int(min(*values, axes.most) / axes.step) * axes.step
    most = max(min(max(values), axes.most), least + axes.step)
    scale = _Scale(max(x for line in drawn for x, _ in line.points), least, most)
    marks = [_title(_LEFT, 20, title), *_axes(scale, axes)]
    for number, line in enumerate(drawn):
        path = "L".join(f"{scale.x(x):.1f} {scale.y(y):.1f}" for x, y in line.points)
        stroke = f'stroke="{_COLOURS[number % len(_COLOURS)]}" stroke-width="2"'
        stroke += ' stroke-dasharray="2 3"' if line.dashed else ""
        marks.append(f'<path d="M{path}" fill="none" {stroke}/>')
        marks += _entry(_WIDTH - _RIGHT + 14, _TOP + 18 * number + 8, stroke, line.label)
    return _document(_WIDTH, _HEIGHT, marks)


def _axes(scale: _Scale, axes: Axes) -> list[str]:
    marks = []
    for step in range(round((scale.y_max - scale.y_min) / axes.step) + 1):
        value = scale.y_min + step * axes.step
        y = scale.y(value)
        marks.append(f'<path d="M{_LEFT} {y:.1f}H{_WIDTH - _RIGHT}" stroke="#dddddd"/>')
        marks.append(f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{value:.1f}</text>')
    for step in range(6):
        value = scale.x_max * step / 5
        marks.append(f'<text x="{scale.x(value):.1f}" y="{_HEIGHT - 26}" text-anchor="middle">{value:.3g}</text>')
    return [*marks, f'<text x="{_LEFT}" y="{_HEIGHT - 8}">{escape(axes.label)}</text>']


def column(pictures: Sequence[str]) -> str:
    """Pictures made by `loss_plot`, one below the other, as one."""
    inner = (
        picture.replace("<svg ", f'<svg y="{number * _HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}" ', 1)
        for number, picture in enumerate(pictures)
    )
    box = f"0 0 {_WIDTH} {_HEIGHT * len(pictures)}"
    return f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{box}">\n{"".join(inner)}</svg>\n'


_SIDE, _ABOVE, _LEGEND = 360, 40, 150
_DEPTHS = ("#440154", "#46327e", "#365c8d", "#277f8e", "#1fa187", "#4ac16d", "#a0da39", "#d4a017")  # shallow to deep
_CONFIDENCE = "confidence (across), agreement with the target (up)"


@dataclass(frozen=True, slots=True)
class ReliabilityCurve:
    """One layer: (confidence, agreement), both shares."""

    label: str
    points: Sequence[Point]

    def stroke(self, number: int, n: int) -> str:
        """As the curve with that number of `n`."""
        return f'stroke="{_DEPTHS[round(number * (len(_DEPTHS) - 1) / max(1, n - 1))]}" stroke-width="2"'


def reliability_plot(panels: Sequence[tuple[str, Sequence[ReliabilityCurve]]], axes: str = _CONFIDENCE) -> str:
    """Panels side by side with one legend; on the diagonal a head is as right as it is sure, below it too sure."""
    width, curves = len(panels) * (_SIDE + _LEFT) + _LEGEND, panels[0][1]
    marks: list[str] = []
    for k, (title, own) in enumerate(panels):
        marks += _panel(title, axes, own, _LEFT + k * (_SIDE + _LEFT))
    for k, curve in enumerate(curves):
        marks += _entry(width - _LEGEND + 16, _ABOVE + 18 * k + 8, curve.stroke(k, len(curves)), curve.label)
    return _document(width, _SIDE + _ABOVE + 52, marks)


def _panel(title: str, axes: str, curves: Sequence[ReliabilityCurve], left: int) -> list[str]:
    bottom = _ABOVE + _SIDE
    marks = [_title(left, _ABOVE - 14, title)]
    for step in range(6):
        share = step / 5
        x, y = left + share * _SIDE, bottom - share * _SIDE
        marks.append(f'<path d="M{left} {y:.1f}H{left + _SIDE}M{x:.1f} {_ABOVE}V{bottom}" stroke="#dddddd"/>')
        marks.append(f'<text x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{share:.1f}</text>')
        marks.append(f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{share:.1f}</text>')
    marks.append(f'<path d="M{left} {bottom}L{left + _SIDE} {_ABOVE}" stroke="#999999" stroke-dasharray="4 4"/>')
    marks.append(f'<text x="{left}" y="{bottom + 40}">{escape(axes)}</text>')
    for k, curve in enumerate(curves):
        path = "L".join(f"{left + x * _SIDE:.1f} {bottom - y * _SIDE:.1f}" for x, y in curve.points)
        marks.append(f'<path d="M{path}" fill="none" {curve.stroke(k, len(curves))}/>' if path else "")
    return marks
