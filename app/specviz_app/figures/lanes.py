"""Who worked when: lanes as bars on one clock, idle time as outlines, what was drafted for nothing hatched, and arrows
from the pass that failed to what it made void.
"""

from collections.abc import Sequence
from typing import Any, Literal

import plotly.graph_objects as go

from specviz.numerals import number, percent
from specviz.text import clip
from specviz.view.panels.lanes.model import Chart, Clock, LaneBlock
from specviz.view.words.palette import BLOCKS, VOID, BlockKind, colour
from specviz_app.figures import base
from specviz_app.figures.base import sentence

CLOCKS: dict[Clock, Literal["measured", "modelled"]] = {"measured": "measured", "model": "modelled"}
_ROW, _HEADROOM = 56, 120  # pixels of a lane, and of everything else
_LABEL = 8  # cells of a block's token
_MOST_ARROWS = 10  # to the blocks of one failure
_THICK = 0.66


def fig_lanes(chart: Chart | None, dark: bool = False) -> go.Figure:
    """One bar a stretch of work. A click on it chooses it; legend entries switch a kind off."""
    if chart is None or chart.missing is not None or not chart.blocks:
        reason = chart.missing if chart is not None else None
        return base.empty(reason or "no round has ended yet")
    rows = {lane.key: k for k, lane in enumerate(chart.lanes)}
    drawn = [_bars(chart, kind, state, rows, dark) for kind in BLOCKS for state in ("", "open", "void")]
    names = [
        base.hover_lines(sentence(f"{lane.label} {lane.device}".rstrip()), sentence(lane.text)) for lane in chart.lanes
    ]
    low, high = chart.t0 * chart.scale, chart.t1 * chart.scale
    room = 0.01 * (high - low)
    x = {"title": f"{chart.unit}, {CLOCKS[chart.clock]} clock", "range": [low - room, high + room], "zeroline": False}
    return base.figure(
        [trace for trace in drawn if trace is not None],
        _HEADROOM + _ROW * len(rows),
        x,
        {**base.BARE, **base.ticks(names), "range": [len(names) - 0.45, -0.75]},
        barmode="overlay",
        bargap=0.2,
        clickmode="event+select",
        uniformtext={"mode": "hide", "minsize": 9},
        shapes=_borders(chart),
        annotations=[*_names(chart), *_arrows(chart, rows, dark)],
    )


def _state(block: LaneBlock) -> str:
    return "void" if block.void else "open" if block.open else ""


def _bars(chart: Chart, kind: BlockKind, state: str, rows: dict[str, int], dark: bool) -> go.Bar | None:
    mine = [(k, b) for k, b in enumerate(chart.blocks) if b.kind == kind and _state(b) == state and b.lane in rows]
    if not mine:
        return None
    look, idle = BLOCKS[kind], kind == "idle"
    hex_colour, name = look.dark if dark else look.light, look.word
    return base.bar(
        f"{name}, {VOID.word if state == 'void' else 'not settled'}" if state else name,
        [b.took * chart.scale for _, b in mine],
        [rows[b.lane] for _, b in mine],
        [_hover(chart, b) for _, b in mine],
        orientation="h",
        base=[b.t0 * chart.scale for _, b in mine],
        width=[0.3 if idle else _THICK] * len(mine),
        customdata=[list(b.at) for _, b in mine],
        **base.STEADY,
        text=["" if idle or state else sentence(clip(b.shown, _LABEL)) for _, b in mine],
        textposition="inside",
        insidetextanchor="middle",
        textangle=0,
        textfont={"size": 11},
        marker={
            "color": "rgba(128,128,128,.12)" if idle else hex_colour,
            "line": {
                "color": [colour("rejected", dark) if k == chart.cursor else base.GREY for k, _ in mine],
                "width": [3 if k == chart.cursor else 1 if idle else 0.5 for k, _ in mine],
            },
            "pattern": {
                "shape": {"void": "x", "open": "."}.get(state, ""),
                "fillmode": "replace",
                "size": 6,
                "fgcolor": hex_colour,
                "bgcolor": "rgba(128,128,128,.15)",
            }
            if state
            else {"shape": ""},
        },
    )


def _hover(chart: Chart, block: LaneBlock) -> str:
    name = BLOCKS[block.kind].word
    took = f"{number(block.took * chart.scale)} {chart.unit}"
    lines = [f"<b>round {block.round}: {name}, {took}</b>"]
    lines += [sentence(block.shown)] if block.shown else []
    lines += [f"{block.size} rows"] if block.size > 1 else []
    lines += [f"waits: {sentence(block.why)}"] if block.why else []
    if block.nodes:
        fate = "nothing of it became text" if block.void else f"{percent(block.useful)} of its tokens became text"
        lines.append("not settled yet" if block.open else fate)
    return base.hover_lines(*lines)


def _borders(chart: Chart) -> list[dict[str, Any]]:
    places = [span.t0 * chart.scale for span in chart.rounds]
    return [base.stroke(x, 0, x, 1, base.GREY, 1, yref="paper", layer="below", line={"dash": "dot"}) for x in places]


def _names(chart: Chart) -> list[dict[str, Any]]:
    return [
        {
            "x": span.t0 * chart.scale,
            "y": -0.6,
            "text": f"r{span.round}",
            "showarrow": False,
            "xanchor": "left",
            "font": {"size": 11},
            "hovertext": sentence(span.text),
        }
        for span in chart.rounds
    ]


def _arrows(chart: Chart, rows: dict[str, int], dark: bool) -> list[dict[str, Any]]:
    """From the end of the failing pass to the middle of what it voids; those of earlier rounds are faint."""
    out = []
    last = chart.rounds[-1].index if chart.rounds else -1
    for arrow in chart.arrows:
        source = chart.blocks[arrow.source]
        for k in arrow.targets[:_MOST_ARROWS]:
            target = chart.blocks[k]
            if source.lane not in rows or target.lane not in rows:
                continue
            out.append(
                {
                    "ax": source.t1 * chart.scale,
                    "ay": rows[source.lane],
                    "axref": "x",
                    "ayref": "y",
                    "x": (target.t0 + target.t1) / 2 * chart.scale,
                    "y": rows[target.lane],
                    "xref": "x",
                    "yref": "y",
                    "showarrow": True,
                    "arrowhead": 3,
                    "arrowwidth": 1.5,
                    "arrowcolor": VOID.dark if dark else VOID.light,
                    "text": "",
                    "hovertext": sentence(arrow.words),
                    "standoff": 4,
                    "opacity": 0.9 if source.at[0] == last else 0.25,
                }
            )
    return out


def lane_rows(chart: Chart | None) -> list[dict[str, Any]]:
    """The table twin: a row a stretch."""
    if chart is None:
        return []
    labels = {lane.key: lane.label for lane in chart.lanes}
    return [
        {
            "lane": labels.get(b.lane, b.lane),
            "round": b.round,
            "work": BLOCKS[b.kind].word,
            f"from, {chart.unit}": b.t0 * chart.scale,
            f"to, {chart.unit}": b.t1 * chart.scale,
            "rows": b.size,
            "tokens": b.shown,
            "rolled back": b.void,
            "share that became text": b.useful,
            "waits for": b.why,
        }
        for b in chart.blocks
    ]


def lanes_alt(chart: Chart | None) -> str:
    if chart is None or chart.missing is not None:
        return (chart.missing if chart is not None else None) or "No round has ended yet."
    void = sum(b.void for b in chart.blocks)
    lanes = "; ".join(f"{lane.label} {lane.text}" for lane in chart.lanes if lane.text)
    rounds = _span([span.round for span in chart.rounds])
    return f"Lanes of {rounds} on the {CLOCKS[chart.clock]} clock: {lanes}; {void} stretches were rolled back."


def _span(rounds: Sequence[int]) -> str:
    return f"rounds {rounds[0]} to {rounds[-1]}" if len(rounds) > 1 else f"round {rounds[0]}" if rounds else "no round"
