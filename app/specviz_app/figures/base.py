"""What all figures share: margins, axes, safe text; a slider and a button with which one plays without a script run.

Plots are pure functions: a frozen view-model in, a `plotly` figure out. No Streamlit here: they are tested as JSON.
Plotly rather than the page framework's own charts: a figure is data, can be compared as JSON and shown in a notebook,
and its frames play a round without a word to the server. What must follow a run live is not Plotly (`live.py`): a chart
is replaced whole at every change. Fonts, axes and grids take the page's theme; colours of marks come from the palette
for the ground that is named.
"""

import html
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from specviz.runlog.run import Mark
from specviz.text import clip
from specviz.text import html as _html
from specviz.view import Frame
from specviz.view.words.palette import colour

MARGIN = {"l": 8, "r": 8, "t": 8, "b": 8}
GREY = "#8C8C8C"
CLEAR = "rgba(0,0,0,0)"
SCALE = "Cividis"  # even to the colour-blind eye, and in grey
EDGE = {"color": "#FFFFFF", "width": 1.5}
DARK_EDGE = {"color": "#000000", "width": 1}
BARE: dict[str, Any] = {"showgrid": False, "zeroline": False}  # an axis without lines
SYMBOLS: dict[Mark, str] = {
    "root": "circle",
    "drafted": "circle-open",
    "testing": "hexagon",
    "accepted": "circle",
    "rejected": "x",
    "recovered": "diamond",
    "bonus": "star",
    "plain": "circle-dot",
    "untested": "circle-open-dot",
    "pruned": "circle-open-dot",
    "exit": "triangle-right",
    "prompt": "circle",
}
HIDDEN: dict[str, Any] = {"visible": False}
STEADY: dict[str, Any] = {  # a choice fades nothing
    "selected": {"marker": {"opacity": 1}},
    "unselected": {"marker": {"opacity": 1}},
}
_LINE = 44  # characters of a line of words in place of a plot: a phone's width
_LABEL = 14  # cells of a token on a plot
_CELLS = "cells"  # the trace of a heat map that is clicked


def figure(
    traces: list[Any], height: int, x: Mapping[str, Any] = {}, y: Mapping[str, Any] = {}, **layout: Any
) -> go.Figure:
    """A figure without decoration, `height` pixels high. `x`, `y`: the axes, which nobody zooms."""
    whole = {
        "margin": MARGIN,
        "height": height,
        "hovermode": "closest",
        "hoverdistance": -1 if any(trace.name == _CELLS for trace in traces) else 20,  # all of a wide cell is the cell
        "dragmode": False,
        "paper_bgcolor": CLEAR,
        "plot_bgcolor": CLEAR,
        "legend": {"orientation": "h", "yanchor": "bottom", "y": 1.0, "x": 0, **layout.pop("legend", {})},
        "xaxis": {"fixedrange": True, **x},
        "yaxis": {"fixedrange": True, **y},
        **layout,
    }
    return go.Figure(data=traces, layout=whole)  # at once: a part that is written later is proved with all the others


def ticks(labels: Sequence[str], first: float = 0) -> dict[str, Any]:
    """A label for each place of an axis, from `first` on."""
    return {"tickvals": [first + k for k in range(len(labels))], "ticktext": list(labels)}


def hatched(shape: str | Sequence[str]) -> dict[str, Any]:
    """The pattern of a bar, for eyes that tell no colours apart."""
    return {"shape": shape, "fgopacity": 0.4, "fillmode": "overlay"}


def stroke(
    x0: float, y0: float, x1: float, y1: float, hex_colour: str, width: float = 2, **more: Any
) -> dict[str, Any]:
    """A straight line behind the traces, from one place to another."""
    return {
        "type": "line",
        "x0": x0,
        "y0": y0,
        "x1": x1,
        "y1": y1,
        "line": {"color": hex_colour, "width": width, **more.pop("line", {})},
        **more,
    }


def level(y: float, hex_colour: str, width: float = 2) -> dict[str, Any]:
    """A dashed line over the whole width."""
    return stroke(0, y, 1, y, hex_colour, width, xref="paper", line={"dash": "dash"})


def pieces(*lines: Sequence[tuple[float | None, float | None]]) -> dict[str, Any]:
    """Several lines as one trace: `x` and `y` with a gap behind each."""
    places = [place for line in lines for place in (*line, (None, None))]
    return {"x": [x for x, _ in places], "y": [y for _, y in places]}


def spots(places: Sequence[tuple[Any, Any]]) -> dict[str, Any]:
    """Places as the `x` and `y` of a trace."""
    return {"x": [x for x, _ in places], "y": [y for _, y in places]}


def scatter(
    mode: str, name: str, x: Any = None, y: Any = None, hover: Sequence[str] | str | None = None, **more: Any
) -> go.Scatter:
    """Marks, lines or words. `hover`: a text for each place; the pointer passes over a trace without."""
    return go.Scatter(mode=mode, name=name, **_xy(x, y), **_hover(hover), **more)


def bar(name: str, x: Any, y: Any, hover: Sequence[str] | str | None = None, **more: Any) -> go.Bar:
    """Bars; `hover` as above."""
    return go.Bar(name=name, **_xy(x, y), **_hover(hover), **more)


def _xy(x: Any, y: Any) -> dict[str, Any]:
    return {} if x is None else {"x": x, "y": y}


def _hover(texts: Sequence[str] | str | None) -> dict[str, Any]:
    return {"hoverinfo": "skip"} if texts is None else {"hovertext": texts, "hoverinfo": "text"}


def table(heads: str, rows: Iterable[Sequence[Any]]) -> list[dict[str, Any]]:
    """The table twin of a figure. `heads`: the names of the columns, ` | ` between them."""
    return [dict(zip(heads.split(" | "), row, strict=True)) for row in rows]


def squares(places: Sequence[tuple[Any, Any]], data: list[Any], hover: list[str], size: int = 14) -> go.Scatter:
    """What is really clicked and hovered on a heat map: a square a cell that nobody sees.

    A plain click on a heat map never arrives: Plotly tells Streamlit nothing of it.
    """
    unseen = {"marker": {"opacity": 0}}
    return go.Scatter(
        **spots(places),
        mode="markers",
        name=_CELLS,
        customdata=data,
        hovertext=hover,
        hoverinfo="text",
        showlegend=False,
        marker={"symbol": "square", "size": size, "color": CLEAR, "opacity": 0},
        selected=unseen,
        unselected=unseen,
    )


def hover_lines(*lines: str) -> str:
    """Lines of a hover, the empty ones left out."""
    return "<br>".join(filter(None, lines))


def safe(shown: str) -> str:
    """A shown token as Plotly text, which understands a little HTML: nothing of it may come from a token."""
    return _html(shown).replace("&quot;", '"').replace("&#x27;", "'")


def short(shown: str, cells: int = _LABEL) -> str:
    """The same, no longer than a label may be."""
    return safe(clip(shown, cells))


def sentence(text: str) -> str:
    """A sentence of the view, in which tokens stand between its own words."""
    return html.escape(text, quote=False)


def empty(reason: str, height: int = 120) -> go.Figure:
    """A figure that says why there is nothing to see."""
    lines = "<br>".join(sentence(line) for line in textwrap.wrap(reason, _LINE))
    words = {"text": lines, "showarrow": False, "x": 0.5, "y": 0.5, "xref": "paper", "yref": "paper"}
    return figure([], height, HIDDEN, HIDDEN, annotations=[words])


_STEP_MS = 700


def played(
    out: go.Figure, stages: Sequence[tuple[str, list[Any]]], caption: str = "▶ play the phases", below: int = 0
) -> go.Figure:
    """Let a figure play: its stages with their traces, the last one chosen. `below`: pixels of an axis's labels."""
    out.frames = [go.Frame(name=str(k), data=traces) for k, (_, traces) in enumerate(stages)]
    return out.update_layout(
        sliders=[_slider([name for name, _ in stages], below)],
        updatemenus=[_buttons(caption, below)],
        margin={**MARGIN, "b": 100 + below},
        clickmode="event+select",
    )


def _slider(labels: Sequence[str], below: int) -> dict[str, Any]:
    still = {"mode": "immediate", "frame": {"duration": 0, "redraw": True}, "transition": {"duration": 0}}
    steps = [{"method": "animate", "label": label, "args": [[str(k)], still]} for k, label in enumerate(labels)]
    return {
        "active": len(labels) - 1,
        "steps": steps,
        "x": 0,
        "len": 1,
        "pad": {"t": 46 + below, "b": 0, "l": 4, "r": 4},
        "y": 0,
        "yanchor": "top",
        "currentvalue": {"prefix": "", "xanchor": "right", "font": {"size": 13, "color": GREY}},
        "minorticklen": 0,
        "ticklen": 4,
        "tickcolor": GREY,
        "font": {"size": 1, "color": CLEAR},
        "bgcolor": GREY,
        "bordercolor": GREY,
        "activebgcolor": colour("accepted", True),
    }


def step_label(moment: Frame) -> str:
    """`2/6 DRAFT, step 1 of 3`."""
    text = moment.phase_text.removeprefix("phase ")
    return f"{text} · {moment.step or 1} of {moment.n_steps}" if moment.n_steps > 1 else text


def _buttons(caption: str, below: int) -> dict[str, Any]:
    play = {
        "mode": "immediate",
        "fromcurrent": False,
        "transition": {"duration": 0},
        "frame": {"duration": _STEP_MS, "redraw": True},
    }
    halt = {"mode": "immediate", "frame": {"duration": 0, "redraw": False}, "transition": {"duration": 0}}
    return {
        "type": "buttons",
        "direction": "left",
        "showactive": False,
        "x": 0,
        "y": 0,
        "xanchor": "left",
        "yanchor": "top",
        "pad": {"t": 8 + below, "l": 4},
        "font": {"size": 13},
        "buttons": [
            {"label": caption, "method": "animate", "args": [None, play]},
            {"label": "❚❚", "method": "animate", "args": [[None], halt]},
        ],
    }
