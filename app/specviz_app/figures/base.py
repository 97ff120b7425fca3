"""What all figures share: margins, axes, safe text."""

import html
import textwrap
from typing import Any

import plotly.graph_objects as go

from specviz.text import clip
from specviz.text import html as _html

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
