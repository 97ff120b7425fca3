"""What lets a figure play the moments of a round without a script run: a slider, and a button."""

from collections.abc import Sequence
from typing import Any

from specviz.view import Frame
from specviz.view.words.palette import colour

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
