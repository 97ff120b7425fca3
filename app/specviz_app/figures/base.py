"""What all figures share: margins, axes, safe text.

What lets a figure play the moments of a round without a script run: a slider, and a button.
"""

import html
import textwrap
from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go

from specviz.text import clip
from specviz.text import html as _html
from specviz.view import Frame
from specviz.view.words.palette import colour

MARGIN = {"l": 8, "r": 8, "t": 8, "b": 8}
_LINE = 44  # characters of a line of words in place of a plot: a phone's width
_LABEL = 14  # cells of a token on a plot


def figure(traces: list[Any], height: int, **layout: Any) -> go.Figure:
    """A figure without decoration."""
    out = go.Figure(data=traces)
    out.update_layout(
        margin=MARGIN, height=height, hovermode="closest", dragmode=False, paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)", legend={"orientation": "h", "yanchor": "bottom", "y": 1.0, "x": 0},
    )  # fmt: skip
    out.update_layout(**layout)
    return out


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
    out = figure([], height)
    lines = textwrap.wrap(reason, _LINE)
    out.add_annotation(
        text="<br>".join(sentence(line) for line in lines), showarrow=False, x=0.5, y=0.5, xref="paper", yref="paper"
    )
    out.update_xaxes(visible=False)
    out.update_yaxes(visible=False)
    return out


_STEP_MS = 700
_QUIET = "#8C8C8C"


def slider(moments: Sequence[Frame], below: int = 0) -> dict[str, Any]:
    """A stop for every moment, the last one chosen; so many pixels lower, where an axis has labels."""
    return slider_of([step_label(m) for m in moments], below)


def slider_of(labels: Sequence[str], below: int = 0) -> dict[str, Any]:
    """The same for frames that are named otherwise."""
    still = {"mode": "immediate", "frame": {"duration": 0, "redraw": True}, "transition": {"duration": 0}}
    steps = [
        {"method": "animate", "label": label, "args": [[str(k)], still]} for k, label in enumerate(labels)
    ]  # fmt: skip
    return {
        "active": len(labels) - 1, "steps": steps, "x": 0, "len": 1, "pad": {"t": 46 + below, "b": 0, "l": 4, "r": 4},
        "y": 0, "yanchor": "top",
        "currentvalue": {"prefix": "", "xanchor": "right", "font": {"size": 13, "color": _QUIET}},
        "minorticklen": 0, "ticklen": 4, "tickcolor": _QUIET, "font": {"size": 1, "color": "rgba(0,0,0,0)"},
        "bgcolor": _QUIET, "bordercolor": _QUIET, "activebgcolor": colour("accepted", True),
    }  # fmt: skip


def step_label(moment: Frame) -> str:
    """`2/6 DRAFT, step 1 of 3`."""
    text = moment.phase_text.removeprefix("phase ")
    return f"{text} · {_step_number(moment)} of {moment.n_steps}" if moment.n_steps > 1 else text


def _step_number(moment: Frame) -> int:
    return moment.step or 1


def buttons(caption: str = "▶ play the phases", below: int = 0) -> dict[str, Any]:
    """Play and halt."""
    play = {"mode": "immediate", "fromcurrent": False, "transition": {"duration": 0},
            "frame": {"duration": _STEP_MS, "redraw": True}}  # fmt: skip
    halt = {"mode": "immediate", "frame": {"duration": 0, "redraw": False}, "transition": {"duration": 0}}
    return {
        "type": "buttons", "direction": "left", "showactive": False, "x": 0, "y": 0, "xanchor": "left",
        "yanchor": "top", "pad": {"t": 8 + below, "l": 4}, "font": {"size": 13},
        "buttons": [
            {"label": caption, "method": "animate", "args": [None, play]},
            {"label": "❚❚", "method": "animate", "args": [[None], halt]},
        ],
    }  # fmt: skip
