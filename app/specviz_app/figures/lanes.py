"""Who worked when: lanes as bars on one clock, idle time as outlines, what was drafted for nothing hatched, and arrows
from the pass that failed to what it made void.

Figures about one round of branch drafting: confidence against epsilon, the fan of branches, the classifier.
"""

from collections.abc import Sequence
from typing import Any, Literal

import plotly.graph_objects as go

from specviz.numerals import number, percent
from specviz.runlog.run import Mark
from specviz.text import clip
from specviz.view.panels.lanes.model import BranchView, Chart, ClassifierView, Clock, ConfStep, Fan, LaneBlock
from specviz.view.words.numbers import fine
from specviz.view.words.palette import BLOCKS, VOID, BlockKind, colour, glyph
from specviz_app.figures import base
from specviz_app.figures.base import safe, sentence, short

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


_TICK, _FEW = 8, 12  # cells of a token under a step; steps up to which they stand upright
CLASSES = ("0: draft nothing", "1: until unsure", "2: keep all")


def fig_steps(steps: Sequence[ConfStep], bound_name: str = "ε", dark: bool = False) -> go.Figure:
    """How sure the draft was before every token, against the bound below which it stops. ◇: in a branch.

    Line by line: what is drafted first, then branch after branch.
    """
    if not steps:
        return base.empty("no confidence is on record in this round")
    steps = sorted(steps, key=lambda s: (-1 if s.branch is None else s.branch, s.pos))
    xs = list(range(len(steps)))
    dots = base.scatter(
        "markers",
        "confidence",
        xs,
        [s.conf for s in steps],
        [_step_hover(s) for s in steps],
        showlegend=False,
        cliponaxis=False,
        customdata=[s.node for s in steps],
        marker={
            "size": 13,
            "symbol": [_step_symbol(s) for s in steps],
            "color": [colour(s.mark, dark) for s in steps],
            "line": {"width": 1.5, "color": base.GREY},
        },
        **base.STEADY,
    )
    bound = base.scatter(
        "lines",
        sentence(bound_name),
        **base.pieces(*([(k - 0.4, s.bound), (k + 0.4, s.bound)] for k, s in enumerate(steps))),
        connectgaps=False,
        line={"color": colour("exit", dark), "width": 2, "dash": "dash"},
    )
    bounded = [bound] if any(s.bound is not None for s in steps) else []
    names = base.ticks(
        [base.hover_lines(short(s.shown, _TICK), "" if s.branch is None else f"b{s.branch}") for s in steps]
    )
    x = {**names, "range": [-0.6, max(xs[-1], 5) + 0.6], "tickangle": 0 if len(xs) <= _FEW else -90}
    y = {"range": [-0.03, 1.08], "tickvals": [0, 0.5, 1], "title": "confidence"}
    return base.figure([_lines(steps), *bounded, dots], 290, base.BARE | x, y, clickmode="event+select")


def _lines(steps: Sequence[ConfStep]) -> go.Scatter:
    """What follows on what: a stroke a line of drafting."""
    xs: list[float | None] = []
    ys: list[float | None] = []
    for k, step in enumerate(steps):
        if k and steps[k - 1].branch != step.branch:
            xs, ys = [*xs, None], [*ys, None]
        xs, ys = [*xs, k], [*ys, step.conf]
    return base.scatter("lines", "line", xs, ys, showlegend=False, line={"color": base.GREY, "width": 1})


def _step_symbol(step: ConfStep) -> str:
    if step.stopped:
        return "hourglass"
    return "diamond" if step.branch is not None else "circle"


def _step_hover(step: ConfStep) -> str:
    place = f"position {step.pos}" + ("" if step.branch is None else f", branch {step.branch}")
    lines = [f"<b>{safe(step.shown)}</b> · {place}", sentence(step.text)]
    lines += ["drafting stopped here"] if step.stopped else []
    lines += [sentence(step.fate)] if step.fate else []
    return base.hover_lines(*lines)


def step_rows(steps: Sequence[ConfStep]) -> list[dict[str, Any]]:
    return base.table(
        "position | branch | token | confidence | bound |  | stopped | what became of it | entropy",
        [(s.pos, s.branch, s.shown, s.conf, s.bound, s.text, s.stopped, s.fate, s.entropy) for s in steps],
    )


# The fan ------------------------------------------------------------------------------------------------------------


def fig_fan(fan: Fan | None, dark: bool = False) -> go.Figure:
    """A line a branch, from the branch point on; its first token is as large as the draft held it likely."""
    if fan is None or not fan.branches:
        return base.empty("no branches in this round")
    edges = [_edge(k, branch, (len(fan.branches) - 1) / 2, dark) for k, branch in enumerate(fan.branches)]
    firsts = base.scatter(
        "markers+text",
        "branch tokens",
        [1] * len(fan.branches),
        list(range(len(fan.branches))),
        [_branch_hover(b) for b in fan.branches],
        customdata=[b.node for b in fan.branches],
        text=[short(b.shown, 10) for b in fan.branches],
        textposition="top center",
        cliponaxis=False,
        showlegend=False,
        marker={
            "opacity": 1,
            "size": [12 + 22 * (b.q or 0) for b in fan.branches],
            "symbol": [base.SYMBOLS[b.mark] for b in fan.branches],
            "color": [colour(b.mark, dark) for b in fan.branches],
        },
        **base.STEADY,
    )
    deep = [(k, d, t) for k, b in enumerate(fan.branches) for d, t in enumerate(b.tokens, 2)]
    rest = base.scatter(
        "markers+text",
        "branch",
        [d for _, d, _ in deep],
        [k for k, _, _ in deep],
        [f"{safe(t.shown)}<br>confidence {fine(t.conf)}<br>{sentence(t.fate)}" for _, _, t in deep],
        showlegend=False,
        customdata=[t.node for _, _, t in deep],
        text=[short(t.shown, 8) for _, _, t in deep],
        textposition="top center",
        textfont={"size": 11},
        cliponaxis=False,
        marker={
            "size": 10,
            "symbol": [base.SYMBOLS[t.mark] for _, _, t in deep],
            "color": [colour(t.mark, dark) for _, _, t in deep],
        },
        **base.STEADY,
    )
    middle = (len(fan.branches) - 1) / 2
    root = base.scatter(
        "markers",
        "branch point",
        [0],
        [middle],
        [f"position {fan.pos}, confidence {fine(fan.conf)}<br>{sentence(fan.k_text)}"],
        showlegend=False,
        marker={"size": 13, "symbol": "circle", "color": colour("root", dark)},
    )
    names = [f"b{b.branch} {glyph('accepted') if b.survivor else ''}<br>q {fine(b.q)}" for b in fan.branches]
    longest = max((len(b.tokens) for b in fan.branches), default=0) + 1
    x = {
        **base.ticks(["", *(str(fan.pos + d) for d in range(longest))]),
        "title": "position",
        "range": [-0.4, longest + 0.5],
    }
    y = {**base.ticks(names), "range": [len(names) - 0.4, -0.7]}
    height = 130 + 56 * len(fan.branches)
    return base.figure([*edges, rest, firsts, root], height, base.BARE | x, base.BARE | y, clickmode="event+select")


def _edge(k: int, branch: BranchView, middle: float, dark: bool) -> go.Scatter:
    return base.scatter(
        "lines",
        f"b{branch.branch}",
        [0, 1, len(branch.tokens) + 1],
        [middle, k, k],
        showlegend=False,
        line={
            "width": 4 if branch.survivor else 1.5,
            "color": colour("accepted" if branch.survivor else "untested", dark),
            "dash": "solid" if branch.survivor else "dot",
        },
    )


def _branch_hover(branch: BranchView) -> str:
    return (
        f"<b>{safe(branch.shown)}</b>, branch {branch.branch}<br>q {fine(branch.q)}, rank {branch.rank}, {branch.kind}"
        f"<br>{sentence(branch.fate)}{'<br>survivor' if branch.survivor else ''}"
    )


def fan_rows(fan: Fan | None) -> list[dict[str, Any]]:
    return base.table(
        "branch | token | q | rank | how | survivor | what became of it | goes on",
        [
            (b.branch, b.shown, b.q, b.rank, b.kind, b.survivor, b.fate, " ".join(t.shown for t in b.tokens))
            for b in (fan.branches if fan is not None else ())
        ],
    )


# The classifier -----------------------------------------------------------------------------------------------------


def fig_hrad(hrad: ClassifierView | None, dark: bool = False) -> go.Figure:
    """The classifier's three probabilities, a group a call; the class it took is filled."""
    calls = [call for call in hrad.calls if call.probs is not None] if hrad is not None else []
    if not calls:
        return base.empty("the classifier gave no probabilities in this round")
    looks: tuple[tuple[Mark, str], ...] = (("rejected", "/"), ("recovered", "\\"), ("accepted", ""))
    bars = [
        base.bar(
            CLASSES[s],
            [f"{sentence(call.stage)} {k}" for k, call in enumerate(calls, 1)],
            [call.probs[s] if call.probs else None for call in calls],
            [f"{CLASSES[s]}: {fine(call.probs[s]) if call.probs else ''}<br>{sentence(call.words)}" for call in calls],
            text=[f"{glyph('accepted')} {fine(call.probs[s])}" if call.probs and call.s == s else "" for call in calls],
            textposition="outside",
            cliponaxis=False,
            marker={
                "color": colour(mark, dark),
                "pattern": base.hatched(hatch),
                "opacity": [1 if call.s == s else 0.45 for call in calls],
            },
        )
        for s, (mark, hatch) in enumerate(looks)
    ]
    return base.figure(bars, 260, {}, {"range": [0, 1.1], "tickvals": [0, 0.5, 1]}, barmode="group", bargap=0.3)


def hrad_rows(hrad: ClassifierView | None) -> list[dict[str, Any]]:
    return [
        {
            "stage": call.stage,
            "class": call.s,
            "source": call.source,
            **{CLASSES[s]: call.probs[s] if call.probs else None for s in range(3)},
            "": call.words,
        }
        for call in (hrad.calls if hrad is not None else ())
    ]


def fig_confusion(hrad: ClassifierView | None, dark: bool = False) -> go.Figure:
    """Over the run: what was said (rows) against what turned out (columns), with counts in the cells."""
    table = hrad.confusion if hrad is not None else None
    if not table or not any(map(any, table)):
        return base.empty("no class has been told right or wrong yet")
    names = [name[0] for name in CLASSES]
    counts = [[str(n) for n in row] for row in table]
    heat = go.Heatmap(
        x=[f"true {n}" for n in names],
        y=[f"said {n}" for n in names],
        z=[list(row) for row in table],
        colorscale=base.SCALE,
        showscale=False,
        text=counts,
        texttemplate="%{text}",
        xgap=2,
        ygap=2,
        name="confusion",
        hovertext=[
            [f"said {CLASSES[r]}, was {CLASSES[c]}: {n} times" for c, n in enumerate(row)]
            for r, row in enumerate(table)
        ],
        hoverinfo="text",
    )
    return base.figure([heat], 260, {**base.BARE, "side": "top"}, {**base.BARE, "autorange": "reversed"})


def confusion_rows(hrad: ClassifierView | None) -> list[dict[str, Any]]:
    """The table twin: predicted rows, true columns."""
    table = (hrad.confusion if hrad is not None else None) or ()
    return [{"said": CLASSES[r], **{f"true {CLASSES[c]}": n for c, n in enumerate(row)}} for r, row in enumerate(table)]
