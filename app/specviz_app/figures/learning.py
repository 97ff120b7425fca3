"""Two curves of learning while serving: length by query with what was learnt after it, and the seconds it cost."""

from typing import Any

import plotly.graph_objects as go

from specviz.runlog.run import Mark
from specviz.view.panels.learning.build import AdaptStep, AdaptView
from specviz.view.words.numbers import number
from specviz.view.words.palette import colour
from specviz_app.figures import base
from specviz_app.figures.base import sentence, short

_SYMBOLS = {"skip": "circle-open", "head": "diamond", "full": "square"}
_HEIGHT = 300
NOTHING = "no query has ended with a decision"


def fig_stream(view: AdaptView | None, dark: bool = False) -> go.Figure:
    """Mean acceptance length by query; the sign says what was learnt after it. A click on a query goes there."""
    if view is None:
        return base.empty(NOTHING)
    steps = view.steps
    points = base.scatter(
        "lines+markers",
        "length",
        [s.q for s in steps],
        [s.tau for s in steps],
        [_hover(s) for s in steps],
        customdata=[s.index for s in steps],
        cliponaxis=False,
        **base.STEADY,
        line={"color": base.GREY, "width": 1},
        marker={
            "symbol": ["x" if s.reverted else _SYMBOLS.get(s.action, "circle") for s in steps],
            "color": [colour(s.mark, dark) for s in steps],
            "size": [15 if s.cursor else 10 for s in steps],
            "opacity": 1,
            "line": {"width": [3 if s.cursor else 1 for s in steps], "color": colour("testing", dark)},
        },
    )
    out = base.figure([points], _HEIGHT, _queries(view), {"title": "len", "rangemode": "tozero"})
    out.update_layout(clickmode="event+select")
    return out


def _queries(view: AdaptView) -> dict[str, Any]:
    step = next((step for step in (1, 2, 5, 10, 20, 50) if len(view.steps) <= 20 * step), 100)
    return {"title": "query", "dtick": step}


def _hover(s: AdaptStep) -> str:
    domain = f" · {short(s.domain, 20)}" if s.domain else ""
    return base.told(f"<b>query {s.q}</b>{domain}", f"len {number(s.tau)}", sentence(s.words))


def fig_ledger(view: AdaptView | None, dark: bool = False) -> go.Figure:
    """Seconds over the queries: spent on exploring, and regret summed up."""
    if view is None:
        return base.empty(NOTHING)
    lines: list[tuple[str, list[float], Mark, str]] = [
        ("spent on exploring", [s.spent for s in view.steps], "recovered", "solid"),
        ("regret so far", [s.total_regret for s in view.steps], "rejected", "dash"),
    ]
    traces = [
        go.Scatter(
            x=[s.q for s in view.steps],
            y=ys,
            mode="lines+markers",
            name=name,
            marker={"size": 5},
            line={"color": colour(mark, dark), "dash": dash, "width": 2, "shape": "hv"},
            hovertemplate=f"{name}, query %{{x}}: %{{y:.3g}} s<extra></extra>",
        )
        for name, ys, mark, dash in lines
    ]
    return base.figure(traces, _HEIGHT, _queries(view), {"title": "s", "rangemode": "tozero"})


def stream_rows(view: AdaptView | None) -> list[dict[str, Any]]:
    """The table of all queries."""
    return [
        {
            "query": s.q,
            "domain": s.domain,
            "len": s.tau,
            "surprise": s.s,
            "action": s.action,
            "why": s.reason,
            "measured gain": s.measured_gain,
            "taken back": s.reverted,
            "spent s": s.spent,
            "regret s": s.regret,
            "regret so far": s.total_regret,
        }
        for s in (view.steps if view is not None else ())
    ]
