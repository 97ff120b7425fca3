"""Figures about learning while serving: length by query, what the bandit expected, spent, gained and gave up."""

import math
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

import plotly.graph_objects as go

from specviz.runlog.run import Mark
from specviz.view.panels.learning.build import ACTIONS, AdaptStep, AdaptView, ArmView
from specviz.view.words.numbers import UNKNOWN, number, percent
from specviz.view.words.palette import colour
from specviz_app.figures import base
from specviz_app.figures.base import sentence, short

_DOMAINS: tuple[tuple[Mark, str], ...] = (
    ("accepted", "circle"),
    ("recovered", "square"),
    ("exit", "diamond"),
    ("bonus", "triangle-up"),
)
_ARMS: dict[str, tuple[Mark, str, float]] = {  # colour, symbol, place beside the query's number
    "head": ("recovered", "circle", -0.16),
    "full": ("accepted", "square", 0.16),
}
_LANES = ("skip", "head", "full")
_HEIGHT = 260
NOTHING = "no query has ended with a decision"


def fig_stream(view: AdaptView | None, dark: bool = False) -> go.Figure:
    """Above, mean acceptance length by query in the colour of its domain, shifts marked; below, what was learnt after.

    A click on a query goes there.
    """
    if view is None or not view.steps:
        return base.empty(NOTHING)
    steps = view.steps
    names = list(dict.fromkeys(s.domain for s in steps))
    length = base.scatter(
        "lines",
        "length",
        [s.q for s in steps],
        [s.tau for s in steps],
        showlegend=False,
        line={"color": base.GREY, "width": 1},
    )
    domains = [_domain([s for s in steps if s.domain == name], name, k, dark) for k, name in enumerate(names)]
    out = base.stacked([length, *domains], [_actions(steps, dark)], 0.66, 0.06, 380)
    lost = colour("rejected", dark)
    shifts = [b for a, b in pairwise(steps) if a.domain != b.domain]
    out.update_layout(
        shapes=[base.stroke(s.q - 0.5, 0, s.q - 0.5, 1, lost, yref="paper", line={"dash": "dash"}) for s in shifts],
        annotations=[
            {
                "x": s.q - 0.5,
                "y": 1,
                "yref": "paper",
                "yanchor": "top",
                "xanchor": "left",
                "showarrow": False,
                "text": f" {short(s.domain)} from here",
                "font": {"color": lost},
            }
            for s in shifts
        ],
        clickmode="event+select",
    )
    out.update_xaxes(range=[-0.7, max(steps[-1].q, 4) + 0.7])
    out.update_xaxes(title="query", row=2, col=1, dtick=_tick(len(steps)))
    out.update_yaxes(title="len", row=1, col=1, rangemode="tozero")
    out.update_yaxes(row=2, col=1, range=[-0.6, 2.6], **base.ticks([f"{ACTIONS[a][0]} {a}" for a in _LANES]))
    return out


def _tick(n: int) -> int:
    return next((step for step in (1, 2, 5, 10, 20, 50) if n <= 20 * step), 100)


def _domain(steps: Sequence[AdaptStep], name: str, k: int, dark: bool) -> go.Scatter:
    mark, symbol = _DOMAINS[k % len(_DOMAINS)]
    return base.scatter(
        "markers",
        short(name) if name else "one domain",
        [s.q for s in steps],
        [s.tau for s in steps],
        [_hover(s) for s in steps],
        customdata=[s.index for s in steps],
        cliponaxis=False,
        showlegend=True,
        **base.STEADY,
        marker={
            "symbol": symbol,
            "color": colour(mark, dark),
            "size": [15 if s.cursor else 10 for s in steps],
            "opacity": 1,
            "line": {"width": [3 if s.cursor else 0 for s in steps], "color": colour("testing", dark)},
        },
    )


def _actions(steps: Sequence[AdaptStep], dark: bool) -> go.Scatter:
    """Filled: it surely pays; open: explored; ✗: taken back."""
    return base.scatter(
        "markers",
        "action",
        [s.q for s in steps],
        [_LANES.index(s.action) for s in steps],
        [_hover(s) for s in steps],
        showlegend=False,
        customdata=[s.index for s in steps],
        **base.STEADY,
        marker={
            "opacity": 1,
            "size": [6 if s.action == "skip" else 13 for s in steps],
            "symbol": [_symbol(s) for s in steps],
            "line": {"width": 2},
            "color": [colour("rejected" if s.reverted else _ARMS.get(s.action, ("untested",))[0], dark) for s in steps],
        },
    )


def _symbol(step: AdaptStep) -> str:
    if step.reverted:
        return "x"
    shape = _ARMS.get(step.action, ("", "circle", 0))[1]
    return f"{shape}-open" if step.reason == "explore" else shape


def _hover(s: AdaptStep) -> str:
    domain = f" · {short(s.domain, 20)}" if s.domain else ""
    lines = [f"<b>query {s.q}</b>{domain}", f"len {number(s.tau)} over {s.n_rounds} rounds", sentence(s.words)]
    return base.told(*lines, f"weights {s.version}")


def stream_rows(view: AdaptView | None) -> list[dict[str, Any]]:
    """The table twin: a row a query."""
    return [
        {
            "query": s.q,
            "domain": s.domain,
            "rounds": s.n_rounds,
            "len": s.tau,
            "signal": s.s,
            "rejections": s.n_rejections,
            "action": s.action,
            "why": s.reason,
            "measured gain": s.measured_gain,
            "taken back": s.reverted,
            "update s": s.update_s,
            "spent s": s.spent,
            "budget s": s.budget,
            "regret s": s.regret,
            "weights": s.version,
        }
        for s in (view.steps if view is not None else ())
    ]


def fig_arms(view: AdaptView | None, dark: bool = False) -> go.Figure:
    """Every action's expected profit in seconds, from its lower to its upper bound; larger where it was taken."""
    found = [(s, arm) for s in (view.steps if view is not None else ()) for arm in s.arms]
    if not found:
        return base.empty("no bounds are on record")
    known = [v for _, arm in found for v in (arm.lcb, arm.mean, arm.ucb) if v is not None and math.isfinite(v)]
    top = max([*known, 0.0])
    ceiling = top + 0.12 * (top - min([*known, 0.0]) or 1.0)
    traces: list[Any] = []
    for action, (mark, symbol, beside) in _ARMS.items():
        mine = [(s, arm) for s, arm in found if arm.action == action and arm.mean is not None]
        if mine:
            traces += _arm(mine, action, (colour(mark, dark), symbol, beside), ceiling)
    x = {"title": "query (▴ no upper bound yet)", "dtick": _tick(len(view.steps) if view else 1)}
    zero = base.level(0, colour("exit", dark), 1.5)
    return base.figure(traces, _HEIGHT + 40, x, {"title": "profit, s"}, shapes=[zero])


def _arm(
    mine: Sequence[tuple[AdaptStep, ArmView]], action: str, look: tuple[str, str, float], ceiling: float
) -> list[Any]:
    hex_colour, symbol, beside = look
    tops = [arm.ucb if arm.ucb is not None and math.isfinite(arm.ucb) else ceiling for _, arm in mine]
    bands = base.scatter(
        "lines",
        f"{action}: bounds",
        **base.pieces(
            *([(s.q + beside, arm.lcb), (s.q + beside, top)] for (s, arm), top in zip(mine, tops, strict=True))
        ),
        showlegend=False,
        line={"color": hex_colour, "width": 2},
    )
    dots = base.scatter(
        "markers",
        f"{ACTIONS[action][0]} {action}",
        [s.q + beside for s, _ in mine],
        [arm.mean for _, arm in mine],
        [_arm_hover(s, arm) for s, arm in mine],
        cliponaxis=False,
        marker={
            "symbol": symbol,
            "color": hex_colour,
            "size": [13 if arm.chosen else 7 for _, arm in mine],
            "opacity": 1,
            "line": {"width": 0},
        },
    )
    free = [s.q + beside for s, arm in mine if arm.ucb is None or math.isinf(arm.ucb)]
    ups = base.scatter(
        "markers",
        "unbounded",
        free,
        [ceiling] * len(free),
        showlegend=False,
        marker={"symbol": "triangle-up", "size": 8, "color": hex_colour},
        cliponaxis=False,
    )
    return [bands, dots, *([ups] if free else [])]


def _arm_hover(step: AdaptStep, arm: ArmView) -> str:
    lines = [
        f"<b>{arm.action}</b> after query {step.q}{' · taken' if arm.chosen else ''}",
        f"gain {number(arm.gain, 3)} ± {number(arm.se, 3)} tokens a round",
        f"saves {number(arm.save)} s, costs {number(arm.cost)} s",
        sentence(arm.text),
    ]
    return base.told(*lines, f"taken {arm.n} times before" if arm.n is not None else "")


def arm_rows(view: AdaptView | None) -> list[dict[str, Any]]:
    """The table twin: a row a query and action."""
    return base.table(
        "query | action | taken | gain | se | save s | cost s | LCB s | UCB s | times taken before",
        [
            (s.q, a.action, a.chosen, a.gain, a.se, a.save, a.cost, a.lcb, _finite(a.ucb), a.n)
            for s in (view.steps if view is not None else ())
            for a in s.arms
        ],
    )


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def fig_gains(view: AdaptView | None, dark: bool = False) -> go.Figure:
    """What an update brought on held-out places, beside what was expected of it; hatched: taken back."""
    done = [s for s in (view.steps if view is not None else ()) if s.measured_gain is not None]
    if not done:
        return base.empty("no update has been measured yet")
    wanted = [next((arm for arm in s.arms if arm.chosen), None) for s in done]
    bars = base.bar(
        "measured",
        [s.q for s in done],
        [s.measured_gain for s in done],
        [
            f"query {s.q}: measured {number(s.measured_gain, 3)}<br>held-out coverage {_pair(s)}"
            f"{'<br>taken back' if s.reverted else ''}"
            for s in done
        ],
        marker={
            "color": [colour("rejected" if s.reverted else _ARMS.get(s.action, ("untested",))[0], dark) for s in done],
            "pattern": base.hatched(["/" if s.reverted else "" for s in done]),
        },
    )
    guess = base.scatter(
        "markers",
        "expected ± se",
        [s.q for s in done],
        [arm.gain if arm else None for arm in wanted],
        [f"expected {number(arm.gain, 3)} ± {number(arm.se, 3)}" if arm else UNKNOWN for arm in wanted],
        error_y={"type": "data", "array": [arm.se if arm else None for arm in wanted], "color": colour("root", dark)},
        marker={"symbol": "line-ew-open", "size": 12, "color": colour("root", dark), "line": {"width": 2}},
    )
    x = {"title": "query", "dtick": _tick(len(done))}
    return base.figure([bars, guess], _HEIGHT, x, {"title": "gain, tokens a round"})


def _pair(step: AdaptStep) -> str:
    before, after = step.coverage
    return f"{percent(before)} → {percent(after)}"


def gain_rows(view: AdaptView | None) -> list[dict[str, Any]]:
    return [
        {
            "query": s.q,
            "action": s.action,
            "measured": s.measured_gain,
            "coverage before": s.coverage[0],
            "coverage after": s.coverage[1],
            "taken back": s.reverted,
            "expected": next((a.gain for a in s.arms if a.chosen), None),
        }
        for s in (view.steps if view is not None else ())
        if s.measured_gain is not None
    ]


def fig_ledger(view: AdaptView | None, dark: bool = False) -> go.Figure:
    """Seconds over the queries: spent on exploring against what may be, and regret summed up."""
    if view is None or not view.steps:
        return base.empty(NOTHING)
    steps, xs = view.steps, [s.q for s in view.steps]
    lines: list[tuple[str, list[float], Mark, str]] = [
        ("may be spent on exploring", [s.budget for s in steps], "untested", "dot"),
        ("spent on exploring", [s.spent for s in steps], "recovered", "solid"),
        ("regret so far", [s.total_regret for s in steps], "rejected", "dash"),
    ]
    if any(s.replay_regret is not None for s in steps):
        true = list(accumulate(s.replay_regret or 0.0 for s in steps))
        lines.append(("true regret (replayed)", true, "exit", "dashdot"))
    traces = [
        go.Scatter(
            x=xs,
            y=ys,
            mode="lines+markers",
            name=name,
            marker={"size": 5},
            line={"color": colour(mark, dark), "dash": dash, "width": 2, "shape": "hv"},
            hovertemplate=f"{name}, query %{{x}}: %{{y:.3g}} s<extra></extra>",
        )
        for name, ys, mark, dash in lines
    ]
    x = {"title": "query", "dtick": _tick(len(steps))}
    return base.figure(traces, _HEIGHT, x, {"title": "s", "rangemode": "tozero"})


def ledger_rows(view: AdaptView | None) -> list[dict[str, Any]]:
    return base.table(
        "query | spent s | budget s | regret s | regret so far | true regret s",
        [
            (s.q, s.spent, s.budget, s.regret, s.total_regret, s.replay_regret)
            for s in (view.steps if view is not None else ())
        ],
    )
