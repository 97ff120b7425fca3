"""Figures about the verdict on one draft: the scan that plays, the staircase, the branches, the row at the stop."""

from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go

from specviz.runlog.run import Mark
from specviz.view import Frame
from specviz.view.panels.verification.build import VerificationPanel
from specviz.view.panels.verification.model import RatioStairs, Scan, ScanColumn
from specviz.view.words.numbers import fine, joint
from specviz.view.words.palette import colour, glyph
from specviz_app.figures import base
from specviz_app.figures.base import safe, sentence, short

_ON_BAR = {False: "#FFFFFF", True: "#10141A"}  # around a mark that lies on a bar
_TICK = 9  # cells of a token under a bar
_FLOOR = 0.35  # how far below the rest a ratio of 0 is drawn, in shares of the height
_HEIGHT, _AXIS = 270, 40


def fig_scan(moments: Sequence[Frame], dark: bool = False) -> go.Figure:
    """One bar a position: the keep chance h, the rest above it, and the u that fell; it plays from right to left."""
    models = [(m, VerificationPanel.of(m)) for m in moments]
    scans = [(m, v.scan) for m, v in models if v is not None and v.scan is not None]
    judged = [(m, scan) for m, scan in scans if any(c.h is not None for c in scan.columns)]
    if not judged:
        return base.empty("the target has not judged the draft yet")
    last = judged[-1][1]
    names = [f"{c.t} {short(c.shown, _TICK)}" for c in last.columns]
    x = {"tickvals": [c.t for c in last.columns], "ticktext": names, "showgrid": False}
    y = {"range": [-0.04, 1.16], "title": "h, and u ◆: passes below h", "tickvals": [0, 0.5, 1]}
    out = base.figure(_bars(last, dark), 370, x, y, barmode="stack", bargap=0.25, showlegend=False)
    stages = [(base.step_label(m), _bars(scan, dark)) for m, scan in judged]
    return base.played(out, stages, "▶ play the scan", _AXIS)


def _bars(scan: Scan, dark: bool) -> list[Any]:
    columns = scan.columns
    edge = {"width": 2, "color": _ON_BAR[dark]}
    hatch = ["/" if c.implied else "" for c in columns]
    xs, keep = [c.t for c in columns], [c.h or 0.0 for c in columns]
    about = [_hover(c) for c in columns]
    common: dict[str, Any] = {"x": xs, "hovertext": about, "hoverinfo": "text", "customdata": [c.node for c in columns]}
    kept = go.Bar(
        **common,
        **base.STEADY,
        y=keep,
        name="h",
        marker={
            "color": [colour(_look(c), dark) for c in columns],
            "pattern": {"shape": hatch, "fgopacity": 0.5, "fillmode": "overlay"},
            "line": {"width": [3 if c.cursor else 0 for c in columns], "color": colour("testing", dark)},
        },
    )
    rest = go.Bar(
        **common,
        **base.STEADY,
        y=[1 - h if c.h is not None else 0 for c, h in zip(columns, keep, strict=True)],
        name="1 − h",
        marker={"color": colour("untested", dark), "opacity": 0.25},
    )
    marks = base.scatter(
        "markers",
        "u",
        xs,
        [c.u for c in columns],
        about,
        marker={"symbol": "diamond", "size": 12, "color": colour("root", dark), "line": edge},
        customdata=[c.node for c in columns],
        cliponaxis=False,
        **base.STEADY,
    )
    words = base.scatter(
        "text",
        "verdict",
        xs,
        [1.09] * len(xs),
        text=[_verdict(c) for c in columns],
        textfont={"color": [colour(_look(c), dark) for c in columns], "size": 13},
        cliponaxis=False,
    )
    return [kept, rest, marks, words]


def _look(column: ScanColumn) -> Mark:
    if not column.decided:
        return "drafted"
    return "accepted" if column.stop or column.implied else "rejected"


def _verdict(column: ScanColumn) -> str:
    if not column.decided:
        return ""
    if column.stop:
        return f"{glyph('accepted')} STOP"
    return f"{glyph('accepted')}{'*' if column.alone_failed else ''}" if column.implied else glyph("rejected")


def _hover(column: ScanColumn) -> str:
    lines = [f"<b>{column.t} {safe(column.shown)}</b>", f"joint ratio {joint(column.log_r)}", f"c {fine(column.c)}"]
    lines += [f"D+ {fine(column.d_plus)} · D- {fine(column.d_minus)}"] if column.d_plus is not None else []
    lines += [f"h {fine(column.h)}"] + ([f"u {fine(column.u)}"] if column.u is not None else [])
    lines += ["kept though its own test would have failed"] if column.alone_failed else []
    return base.hover_lines(*lines)


def scan_rows(scan: Scan) -> list[dict[str, str]]:
    """The scan table: a row for every quantity, a column for every position."""
    names = [f"{c.t} {c.shown}" for c in scan.columns]
    rows = (row for row in scan.rows if row.key not in ("t", "draft"))
    return [{"": row.label, **dict(zip(names, row.cells, strict=True)), "how to read it": row.help} for row in rows]


def scan_alt(scan: Scan) -> str:
    """The takeaway of the scan."""
    stop = next((c.t for c in scan.columns if c.stop), None)
    alone = [c.shown for c in scan.columns if c.alone_failed]
    kept = f"stops at {stop}" if stop else "keeps nothing" if all(c.decided for c in scan.columns) else "goes on"
    more = f"; kept though its own test fails: {' '.join(alone)}" if alone else ""
    return f"Backward scan over {len(scan.columns)} drafted tokens: {kept}{more}. {scan.words}".strip()


# The staircase ------------------------------------------------------------------------------------------------------


def fig_stairs(stairs: RatioStairs | None, dark: bool = False) -> go.Figure:
    """log r in steps, its running maximum as the cap line, log c below zero. A ratio of 0 lies on the floor, marked."""
    if stairs is None:
        return base.empty("the target has not judged the draft yet")
    finite = [y for y in (*stairs.log_r, *stairs.log_c, *stairs.cap) if y is not None]
    low, high = min(finite), max(finite)
    floor = low - max(0.5, _FLOOR * (high - low))
    lines: tuple[tuple[str, Sequence[float | None], Mark, str, str], ...] = (
        ("cap: its running maximum", stairs.cap, "rejected", "dash", "line-ew"),
        ("r, joint ratio", stairs.log_r, "accepted", "solid", "circle"),
        ("c = r / maximum", stairs.log_c, "recovered", "dot", "circle-open"),
    )
    far = max(high, -low, 1e-9) / 6  # labels nearer than that to the line of 1 would cover it
    places = [y for y in (low, high) if abs(y) > far] + [0.0]
    names = [joint(value) for value in places]
    if None in (*stairs.log_r, *stairs.log_c):
        places, names = [floor, *places], ["0", *names]
    x = {"title": "position", "dtick": 1 if len(stairs.xs) <= 24 else None}
    y = {"tickvals": places, "ticktext": names, "title": "ratio, log scale", "zeroline": True}
    return base.figure([_stair(stairs, *line, floor, dark) for line in lines], _HEIGHT, x, y)


def _stair(
    stairs: RatioStairs,
    name: str,
    values: Sequence[float | None],
    mark: Mark,
    dash: str,
    symbol: str,
    floor: float,
    dark: bool,
) -> go.Scatter:
    return base.scatter(
        "lines+markers",
        name,
        list(stairs.xs),
        [floor if v is None else v for v in values],
        [
            f"position {t}: {sentence(name)} {'0' if v is None else joint(v)}"
            for t, v in zip(stairs.xs, values, strict=True)
        ],
        line={"shape": "hvh", "color": colour(mark, dark), "width": 2, "dash": dash},
        marker={
            "symbol": ["triangle-down" if v is None else symbol for v in values],
            "size": 9,
            "color": colour(mark, dark),
        },
    )


def stairs_rows(stairs: RatioStairs | None) -> list[dict[str, Any]]:
    if stairs is None:
        return []
    zipped = zip(stairs.xs, stairs.log_r, stairs.cap, stairs.log_c, strict=True)
    return [
        {"position": t, "log r": r, "cap": cap, "log c": c, "r": "0" if r is None else joint(r)}
        for t, r, cap, c in zipped
    ]
