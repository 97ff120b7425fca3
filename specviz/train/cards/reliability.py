"""The reliability of exit heads as a plain SVG: how often each is right against how sure it says it is."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

Point = tuple[float, float]
_SIDE, _LEFT, _TOP, _LEGEND = 360, 56, 40, 150
_FONT = 'font-family="sans-serif" font-size="12"'
_COLOURS = ("#440154", "#46327e", "#365c8d", "#277f8e", "#1fa187", "#4ac16d", "#a0da39", "#d4a017")  # shallow to deep


@dataclass(frozen=True, slots=True)
class Curve:
    """One layer: (confidence, agreement), both shares."""

    label: str
    points: Sequence[Point]


_AXES = "confidence (across), agreement with the target (up)"


def svg(panels: Sequence[tuple[str, Sequence[Curve]]], axes: str = _AXES) -> str:
    """Panels side by side with one legend; on the diagonal a head is as right as it is sure, below it too sure."""
    width = len(panels) * (_SIDE + _LEFT) + _LEGEND
    height = _SIDE + _TOP + 52
    curves = panels[0][1]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" {_FONT}>',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        *(
            mark
            for k, (title, own) in enumerate(panels)
            for mark in _panel(title, axes, own, _LEFT + k * (_SIDE + _LEFT))
        ),
        *(mark for k, curve in enumerate(curves) for mark in _entry(curve, k, len(curves), width - _LEGEND + 16)),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _panel(title: str, axes: str, curves: Sequence[Curve], left: int) -> list[str]:
    bottom = _TOP + _SIDE
    marks = [f'<text x="{left}" y="{_TOP - 14}" font-size="14">{escape(title)}</text>']
    for step in range(6):
        share = step / 5
        x, y = left + share * _SIDE, bottom - share * _SIDE
        marks.append(f'<path d="M{left} {y:.1f}H{left + _SIDE}M{x:.1f} {_TOP}V{bottom}" stroke="#dddddd"/>')
        marks.append(f'<text x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{share:.1f}</text>')
        marks.append(f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{share:.1f}</text>')
    marks.append(f'<path d="M{left} {bottom}L{left + _SIDE} {_TOP}" stroke="#999999" stroke-dasharray="4 4"/>')
    marks.append(f'<text x="{left}" y="{bottom + 40}">{escape(axes)}</text>')
    return [*marks, *(_line(curve, k, len(curves), left, bottom) for k, curve in enumerate(curves))]


def _line(curve: Curve, number: int, n: int, left: int, bottom: int) -> str:
    path = "L".join(f"{left + x * _SIDE:.1f} {bottom - y * _SIDE:.1f}" for x, y in curve.points)
    return f'<path d="M{path}" fill="none" stroke="{_colour(number, n)}" stroke-width="2"/>' if path else ""


def _entry(curve: Curve, number: int, n: int, x: int) -> list[str]:
    y = _TOP + 18 * number + 8
    return [
        f'<path d="M{x} {y}h22" stroke="{_colour(number, n)}" stroke-width="2"/>',
        f'<text x="{x + 28}" y="{y + 4}">{escape(curve.label)}</text>',
    ]


def _colour(number: int, n: int) -> str:
    return _COLOURS[round(number * (len(_COLOURS) - 1) / max(1, n - 1))]
