"""Figures about one round of branch drafting: confidence against epsilon, the fan of branches, the classifier."""

from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go

from specviz.view.panels.lanes.model import BranchView, ConfStep, Fan, Hrad
from specviz.view.words.numbers import fine
from specviz.view.words.palette import colour, glyph
from specviz.view.words.terms import Mark
from specviz_app.figures.base import empty, figure, safe, sentence, short
from specviz_app.figures.exit_grid import SCALE
from specviz_app.figures.tree import SYMBOLS

_QUIET: dict[str, Any] = {"fixedrange": True, "showgrid": False, "zeroline": False}
_TICK, _FEW = 8, 12  # cells of a token under a step; steps up to which they stand upright
CLASSES = ("0: draft nothing", "1: until unsure", "2: keep all")


def fig_steps(steps: Sequence[ConfStep], bound_name: str = "ε", dark: bool = False) -> go.Figure:
    """How sure the draft was before every token, against the bound below which it stops. ◇: in a branch.

    Line by line: what is drafted first, then branch after branch.
    """
    if not steps:
        return empty("no confidence is on record in this round")
    steps = sorted(steps, key=lambda s: (-1 if s.branch is None else s.branch, s.pos))
    xs = list(range(len(steps)))
    dots = go.Scatter(
        x=xs, y=[s.conf for s in steps], mode="markers", name="confidence", showlegend=False, cliponaxis=False,
        customdata=[s.node for s in steps], hovertext=[_step_hover(s) for s in steps], hoverinfo="text",
        marker={"size": 13, "symbol": [_step_symbol(s) for s in steps],
                "color": [colour(s.mark, dark) for s in steps], "line": {"width": 1.5, "color": "#8C8C8C"}},
        selected={"marker": {"opacity": 1}}, unselected={"marker": {"opacity": 1}},
    )  # fmt: skip
    bound = go.Scatter(
        x=[x for k in xs for x in (k - 0.4, k + 0.4, None)], y=[y for s in steps for y in (s.bound, s.bound, None)],
        mode="lines", name=sentence(bound_name), hoverinfo="skip", connectgaps=False,
        line={"color": colour("exit", dark), "width": 2, "dash": "dash"},
    )  # fmt: skip
    bounded = [bound] if any(s.bound is not None for s in steps) else []
    lines = _lines(steps)
    out = figure([lines, *bounded, dots], 290, clickmode="event+select")
    ticks = [f"{short(s.shown, _TICK)}{'' if s.branch is None else f'<br>b{s.branch}'}" for s in steps]
    out.update_xaxes(tickvals=xs, ticktext=ticks, range=[-0.6, max(xs[-1], 5) + 0.6], **_QUIET)
    out.update_xaxes(tickangle=0 if len(xs) <= _FEW else -90)
    out.update_yaxes(range=[-0.03, 1.08], tickvals=[0, 0.5, 1], title="confidence", fixedrange=True)
    return out


def _lines(steps: Sequence[ConfStep]) -> go.Scatter:
    """What follows on what: a stroke a line of drafting."""
    xs: list[float | None] = []
    ys: list[float | None] = []
    for k, step in enumerate(steps):
        if k and steps[k - 1].branch != step.branch:
            xs, ys = [*xs, None], [*ys, None]
        xs, ys = [*xs, k], [*ys, step.conf]
    return go.Scatter(
        x=xs, y=ys, mode="lines", name="line", hoverinfo="skip", showlegend=False,
        line={"color": "#8C8C8C", "width": 1},
    )  # fmt: skip


def _step_symbol(step: ConfStep) -> str:
    if step.stopped:
        return "hourglass"
    return "diamond" if step.branch is not None else "circle"


def _step_hover(step: ConfStep) -> str:
    place = f"position {step.pos}" + ("" if step.branch is None else f", branch {step.branch}")
    lines = [f"<b>{safe(step.shown)}</b> · {place}", sentence(step.text)]
    lines += ["drafting stopped here"] if step.stopped else []
    lines += [sentence(step.fate)] if step.fate else []
    return "<br>".join(lines)


def step_rows(steps: Sequence[ConfStep]) -> list[dict[str, Any]]:
    """The table twin."""
    return [
        {"position": s.pos, "branch": s.branch, "token": s.shown, "confidence": s.conf, "bound": s.bound,
         "": s.text, "stopped": s.stopped, "what became of it": s.fate, "entropy": s.entropy}
        for s in steps
    ]  # fmt: skip


# The fan ------------------------------------------------------------------------------------------------------------


def fig_fan(fan: Fan | None, dark: bool = False) -> go.Figure:
    """A line a branch, from the branch point on; its first token is as large as the draft held it likely."""
    if fan is None or not fan.branches:
        return empty("no branches in this round")
    edges = [_edge(k, branch, (len(fan.branches) - 1) / 2, dark) for k, branch in enumerate(fan.branches)]
    firsts = go.Scatter(
        x=[1] * len(fan.branches), y=list(range(len(fan.branches))), mode="markers+text", name="branch tokens",
        customdata=[b.node for b in fan.branches], text=[short(b.shown, 10) for b in fan.branches],
        textposition="top center", hoverinfo="text", cliponaxis=False, showlegend=False,
        hovertext=[_branch_hover(b) for b in fan.branches],
        marker={"opacity": 1, "size": [12 + 22 * (b.q or 0) for b in fan.branches],
                "symbol": [SYMBOLS[b.mark] for b in fan.branches],
                "color": [colour(b.mark, dark) for b in fan.branches]},
        selected={"marker": {"opacity": 1}}, unselected={"marker": {"opacity": 1}},
    )  # fmt: skip
    deep = [(k, d, t) for k, b in enumerate(fan.branches) for d, t in enumerate(b.tokens, 2)]
    rest = go.Scatter(
        x=[d for _, d, _ in deep], y=[k for k, _, _ in deep], mode="markers+text", name="branch", showlegend=False,
        customdata=[t.node for _, _, t in deep], text=[short(t.shown, 8) for _, _, t in deep],
        textposition="top center", textfont={"size": 11}, hoverinfo="text", cliponaxis=False,
        hovertext=[f"{safe(t.shown)}<br>confidence {fine(t.conf)}<br>{sentence(t.fate)}" for _, _, t in deep],
        marker={"size": 10, "symbol": [SYMBOLS[t.mark] for _, _, t in deep],
                "color": [colour(t.mark, dark) for _, _, t in deep]},
        selected={"marker": {"opacity": 1}}, unselected={"marker": {"opacity": 1}},
    )  # fmt: skip
    middle = (len(fan.branches) - 1) / 2
    root = go.Scatter(
        x=[0], y=[middle], mode="markers", name="branch point", hoverinfo="text", showlegend=False,
        hovertext=[f"position {fan.pos}, confidence {fine(fan.conf)}<br>{sentence(fan.k_text)}"],
        marker={"size": 13, "symbol": "circle", "color": colour("root", dark)},
    )  # fmt: skip
    out = figure([*edges, rest, firsts, root], 130 + 56 * len(fan.branches), clickmode="event+select")
    ticks = [f"b{b.branch} {glyph('accepted') if b.survivor else ''}<br>q {fine(b.q)}" for b in fan.branches]
    longest = max((len(b.tokens) for b in fan.branches), default=0) + 1
    out.update_yaxes(tickvals=list(range(len(ticks))), ticktext=ticks, range=[len(ticks) - 0.4, -0.7], **_QUIET)
    out.update_xaxes(tickvals=list(range(longest + 1)), ticktext=[f"{fan.pos + d - 1}" if d else "" for d in
                     range(longest + 1)], title="position", range=[-0.4, longest + 0.5], **_QUIET)  # fmt: skip
    return out


def _edge(k: int, branch: BranchView, middle: float, dark: bool) -> go.Scatter:
    return go.Scatter(
        x=[0, 1, len(branch.tokens) + 1], y=[middle, k, k], mode="lines", hoverinfo="skip", showlegend=False,
        name=f"b{branch.branch}", line={"width": 4 if branch.survivor else 1.5,
                                        "color": colour("accepted" if branch.survivor else "untested", dark),
                                        "dash": "solid" if branch.survivor else "dot"},
    )  # fmt: skip


def _branch_hover(branch: BranchView) -> str:
    return (
        f"<b>{safe(branch.shown)}</b>, branch {branch.branch}<br>q {fine(branch.q)}, rank {branch.rank}, {branch.kind}"
        f"<br>{sentence(branch.fate)}{'<br>survivor' if branch.survivor else ''}"
    )


def fan_rows(fan: Fan | None) -> list[dict[str, Any]]:
    """The table twin."""
    return [
        {"branch": b.branch, "token": b.shown, "q": b.q, "rank": b.rank, "how": b.kind, "survivor": b.survivor,
         "what became of it": b.fate, "goes on": " ".join(t.shown for t in b.tokens)}
        for b in (fan.branches if fan is not None else ())
    ]  # fmt: skip


# The classifier -----------------------------------------------------------------------------------------------------


def fig_hrad(hrad: Hrad | None, dark: bool = False) -> go.Figure:
    """The classifier's three probabilities, a group a call; the class it took is filled."""
    calls = [call for call in hrad.calls if call.probs is not None] if hrad is not None else []
    if not calls:
        return empty("the classifier gave no probabilities in this round")
    looks: tuple[tuple[Mark, str], ...] = (("rejected", "/"), ("recovered", "\\"), ("accepted", ""))
    bars = [
        go.Bar(
            x=[f"{sentence(call.stage)} {k}" for k, call in enumerate(calls, 1)],
            y=[call.probs[s] if call.probs else None for call in calls], name=CLASSES[s], hoverinfo="text",
            hovertext=[f"{CLASSES[s]}: {fine(call.probs[s]) if call.probs else ''}<br>{sentence(call.words)}"
                       for call in calls],
            text=[f"{glyph('accepted')} {fine(call.probs[s])}" if call.probs and call.s == s else "" for call in calls],
            textposition="outside", cliponaxis=False,
            marker={"color": colour(mark, dark), "pattern": {"shape": hatch, "fgopacity": 0.4, "fillmode": "overlay"},
                    "opacity": [1 if call.s == s else 0.45 for call in calls]},
        )
        for s, (mark, hatch) in enumerate(looks)
    ]  # fmt: skip
    out = figure(bars, 260, barmode="group", bargap=0.3)
    out.update_yaxes(range=[0, 1.1], tickvals=[0, 0.5, 1], fixedrange=True)
    out.update_xaxes(fixedrange=True)
    return out


def hrad_rows(hrad: Hrad | None) -> list[dict[str, Any]]:
    """The table twin."""
    return [
        {"stage": call.stage, "class": call.s, "source": call.source,
         **{CLASSES[s]: call.probs[s] if call.probs else None for s in range(3)}, "": call.words}
        for call in (hrad.calls if hrad is not None else ())
    ]  # fmt: skip


def fig_confusion(hrad: Hrad | None, dark: bool = False) -> go.Figure:
    """Over the run: what was said (rows) against what turned out (columns), with counts in the cells."""
    table = hrad.confusion if hrad is not None else None
    if not table or not any(map(any, table)):
        return empty("no class has been told right or wrong yet")
    names = [name[0] for name in CLASSES]
    counts = [[str(n) for n in row] for row in table]
    heat = go.Heatmap(
        x=[f"true {n}" for n in names], y=[f"said {n}" for n in names], z=[list(row) for row in table],
        colorscale=SCALE, showscale=False, text=counts, texttemplate="%{text}", xgap=2, ygap=2, name="confusion",
        hovertext=[[f"said {CLASSES[r]}, was {CLASSES[c]}: {n} times" for c, n in enumerate(row)]
                   for r, row in enumerate(table)], hoverinfo="text",
    )  # fmt: skip
    out = figure([heat], 260)
    out.update_yaxes(autorange="reversed", **_QUIET)
    out.update_xaxes(side="top", **_QUIET)
    return out


def confusion_rows(hrad: Hrad | None) -> list[dict[str, Any]]:
    """The table twin: predicted rows, true columns."""
    table = (hrad.confusion if hrad is not None else None) or ()
    return [{"said": CLASSES[r], **{f"true {CLASSES[c]}": n for c, n in enumerate(row)}} for r, row in enumerate(table)]
