"""Figures about the verdict on one draft: the scan that plays, the staircase, the branches, the row at the stop.

Figures about several rules on the same drafts: in one round, and over the run.
"""

from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go

from specviz.runlog.run import Mark
from specviz.traits import CAPPED, NAIVE, TOKENWISE
from specviz.view import Frame
from specviz.view.panels.verification.build import VerificationPanel
from specviz.view.panels.verification.model import (
    Branch,
    ClosingRow,
    Comparison,
    Curve,
    Paired,
    Scan,
    ScanColumn,
    Stairs,
    Survival,
)
from specviz.view.words.numbers import fine, joint
from specviz.view.words.palette import STYLES, colour, glyph
from specviz_app.figures.base import buttons, empty, figure, safe, sentence, short, slider
from specviz_app.figures.tree import SYMBOLS

_EDGE = {False: "#FFFFFF", True: "#10141A"}  # around a mark that lies on a bar
_TICK = 9  # cells of a token under a bar
_FLOOR = 0.35  # how far below the rest a ratio of 0 is drawn, in shares of the height
_HEIGHT, _AXIS = 270, 40


def fig_scan(moments: Sequence[Frame], dark: bool = False) -> go.Figure:
    """One bar a position: the keep chance h, the rest above it, and the u that fell; it plays from right to left."""
    found = [(m, VerificationPanel.of(m)) for m in moments]
    scans = [(m, v.scan) for m, v in found if v is not None and v.scan is not None]
    judged = [(m, scan) for m, scan in scans if any(c.h is not None for c in scan.columns)]
    if not judged:
        return empty("the target has not judged the draft yet")
    last = judged[-1][1]
    out = figure(_bars(last, dark), 370, barmode="stack", bargap=0.25, showlegend=False)
    out.frames = [go.Frame(name=str(k), data=_bars(scan, dark)) for k, (_, scan) in enumerate(judged)]
    out.update_layout(
        sliders=[slider([m for m, _ in judged], _AXIS)], updatemenus=[buttons("▶ play the scan", _AXIS)],
        margin={"l": 8, "r": 8, "t": 8, "b": 100 + _AXIS}, clickmode="event+select",
    )  # fmt: skip
    ticks = [f"{c.t} {short(c.shown, _TICK)}" for c in last.columns]
    out.update_xaxes(tickvals=[c.t for c in last.columns], ticktext=ticks, fixedrange=True, showgrid=False)
    out.update_yaxes(range=[-0.04, 1.16], title="h, and u ◆: passes below h", fixedrange=True, tickvals=[0, 0.5, 1])
    return out


def _bars(scan: Scan, dark: bool) -> list[Any]:
    columns = scan.columns
    edge = {"width": 2, "color": _EDGE[dark]}
    hatch = ["/" if c.implied else "" for c in columns]
    xs, keep = [c.t for c in columns], [c.h or 0.0 for c in columns]
    about = [_hover(c) for c in columns]
    common: dict[str, Any] = {"x": xs, "hovertext": about, "hoverinfo": "text", "customdata": [c.node for c in columns]}
    plain = {"selected": {"marker": {"opacity": 1}}, "unselected": {"marker": {"opacity": 1}}}
    kept = go.Bar(
        **common, **plain, y=keep, name="h",
        marker={"color": [colour(_look(c), dark) for c in columns],
                "pattern": {"shape": hatch, "fgopacity": 0.5, "fillmode": "overlay"},
                "line": {"width": [3 if c.cursor else 0 for c in columns], "color": colour("testing", dark)}},
    )  # fmt: skip
    rest = go.Bar(
        **common, **plain, y=[1 - h if c.h is not None else 0 for c, h in zip(columns, keep, strict=True)],
        name="1 − h", marker={"color": colour("untested", dark), "opacity": 0.25},
    )  # fmt: skip
    marks = go.Scatter(
        x=xs, y=[c.u for c in columns], mode="markers", name="u", hovertext=about, hoverinfo="text",
        marker={"symbol": "diamond", "size": 12, "color": colour("root", dark), "line": edge},
        customdata=[c.node for c in columns], cliponaxis=False, **plain,
    )  # fmt: skip
    words = go.Scatter(
        x=xs, y=[1.09] * len(xs), mode="text", text=[_verdict(c) for c in columns], name="verdict", hoverinfo="skip",
        textfont={"color": [colour(_look(c), dark) for c in columns], "size": 13}, cliponaxis=False,
    )  # fmt: skip
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
    return "<br>".join(lines)


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


def fig_stairs(stairs: Stairs | None, dark: bool = False) -> go.Figure:
    """log r in steps, its running maximum as the cap line, log c below zero. A ratio of 0 lies on the floor, marked."""
    if stairs is None:
        return empty("the target has not judged the draft yet")
    finite = [y for y in (*stairs.log_r, *stairs.log_c, *stairs.cap) if y is not None]
    low, high = min(finite), max(finite)
    floor = low - max(0.5, _FLOOR * (high - low))
    lines: tuple[tuple[str, Sequence[float | None], Mark, str, str], ...] = (
        ("cap: its running maximum", stairs.cap, "rejected", "dash", "line-ew"),
        ("r, joint ratio", stairs.log_r, "accepted", "solid", "circle"),
        ("c = r / maximum", stairs.log_c, "recovered", "dot", "circle-open"),
    )
    out = figure([_stair(stairs, *line, floor, dark) for line in lines], _HEIGHT)
    far = max(high, -low, 1e-9) / 6  # labels nearer than that to the line of 1 would cover it
    ticks = [y for y in (low, high) if abs(y) > far] + [0.0]
    texts = [joint(value) for value in ticks]
    if None in (*stairs.log_r, *stairs.log_c):
        ticks, texts = [floor, *ticks], ["0", *texts]
    out.update_yaxes(tickvals=ticks, ticktext=texts, title="ratio, log scale", zeroline=True, fixedrange=True)
    out.update_xaxes(title="position", dtick=1 if len(stairs.xs) <= 24 else None, fixedrange=True)
    return out


def _stair(
    stairs: Stairs, name: str, values: Sequence[float | None], mark: Mark, dash: str, symbol: str, floor: float,
    dark: bool,
) -> go.Scatter:  # fmt: skip
    return go.Scatter(
        x=list(stairs.xs), y=[floor if v is None else v for v in values], mode="lines+markers", name=name,
        line={"shape": "hvh", "color": colour(mark, dark), "width": 2, "dash": dash},
        marker={"symbol": ["triangle-down" if v is None else symbol for v in values], "size": 9,
                "color": colour(mark, dark)},
        hovertext=[f"position {t}: {sentence(name)} {'0' if v is None else joint(v)}"
                   for t, v in zip(stairs.xs, values, strict=True)],
        hoverinfo="text",
    )  # fmt: skip


def stairs_rows(stairs: Stairs | None) -> list[dict[str, Any]]:
    """The table twin."""
    if stairs is None:
        return []
    zipped = zip(stairs.xs, stairs.log_r, stairs.cap, stairs.log_c, strict=True)
    return [
        {"position": t, "log r": r, "cap": cap, "log c": c, "r": "0" if r is None else joint(r)}
        for t, r, cap, c in zipped
    ]  # fmt: skip


# Branches and the row at the stop -----------------------------------------------------------------------------------


def fig_branches(branches: Sequence[Branch], missing: str | None = None, dark: bool = False) -> go.Figure:
    """Stacked bars, one below every prefix: what both laws give, what the target misses, what the draft has over."""
    if not branches:
        return empty(missing or "the target has not judged the draft yet")
    parts: tuple[tuple[str, list[float], Mark, str], ...] = (
        ("both give", [b.agreed for b in branches], "untested", ""),
        ("D+ target mass missing", [b.d_plus for b in branches], "accepted", "/"),
        ("D- draft mass in excess", [b.d_minus for b in branches], "rejected", "\\"),
    )
    bars = [
        go.Bar(
            x=[b.t for b in branches], y=values, name=name,
            marker={"color": colour(mark, dark), "pattern": {"shape": shape, "fgopacity": 0.4, "fillmode": "overlay"}},
            hovertext=[f"{safe(b.shown)}<br>{name} {fine(v)}" for b, v in zip(branches, values, strict=True)],
            hoverinfo="text",
        )
        for name, values, mark, shape in parts
    ]  # fmt: skip
    out = figure(bars, _HEIGHT, barmode="stack", bargap=0.25)
    ticks = [f"{b.t}{' ■' if b.stop else ''}" for b in branches]
    out.update_xaxes(tickvals=[b.t for b in branches], ticktext=ticks, title="after so many tokens (■ the stop)")
    out.update_xaxes(fixedrange=True)
    out.update_yaxes(fixedrange=True, rangemode="tozero")
    return out


def branch_rows(branches: Sequence[Branch]) -> list[dict[str, Any]]:
    """The table twin."""
    return [
        {"after": b.t, "prefix": b.shown, "both give": b.agreed, "D+": b.d_plus, "D-": b.d_minus, "stop": b.stop}
        for b in branches
    ]  # fmt: skip


def fig_closing(row: ClosingRow | None, dark: bool = False) -> go.Figure:
    """p and q as they are weighed, and what is left of p: the row the last token was drawn from."""
    if row is None or row.missing is not None or not row.entries:
        return empty(row.missing if row is not None and row.missing else "no token has been drawn yet")
    entries = list(row.entries)
    columns: list[tuple[str, list[float | None], Mark]] = [
        (row.p_label, [e.weighed_p for e in entries], "accepted"),
        (row.q_label, [e.weighed_q for e in entries], "drafted"),
        ("left", [e.left for e in entries], "exit"),
    ]
    if all(e.weighed_q is None for e in entries):
        columns = [("p", [e.p for e in entries], "accepted")]
    bars = [
        go.Bar(
            x=list(range(len(entries))), y=values, name=sentence(name), marker={"color": colour(mark, dark)},
            hovertext=[f"{safe(e.shown)}<br>{sentence(name)} {fine(v)}"
                       for e, v in zip(entries, values, strict=True)],
            hoverinfo="text",
        )
        for name, values, mark in columns
    ]  # fmt: skip
    out = figure(bars, _HEIGHT, barmode="group", bargap=0.25)
    ticks = [f"{glyph('recovered') + ' ' if e.drawn else ''}{short(e.shown, _TICK)}" for e in entries]
    out.update_xaxes(tickvals=list(range(len(entries))), ticktext=ticks, fixedrange=True)
    out.update_yaxes(fixedrange=True, rangemode="tozero")
    return out


def closing_rows(row: ClosingRow | None) -> list[dict[str, Any]]:
    """The table twin."""
    entries = row.entries if row is not None else ()
    return [
        {"token": e.shown, "p": e.p, "q": e.q, "weighed p": e.weighed_p, "weighed q": e.weighed_q, "left": e.left,
         "share of the draw": e.share, "drawn": e.drawn, "drafted": e.drafted}
        for e in entries
    ]  # fmt: skip


_LOOK: dict[str, tuple[Mark, str, str]] = {  # colour, dash, symbol of a rule
    TOKENWISE: ("recovered", "dot", "diamond"),
    CAPPED: ("bonus", "solid", "circle"),
    NAIVE: ("exit", "dash", "square"),
}
_TICK, _FEW = 9, 7  # cells of a token under a sign; positions up to which it stands there


def fig_rules(comparison: Comparison | None, dark: bool = False) -> go.Figure:
    """A line a rule, a sign a position: kept, failed, never tested; the keep chance above it."""
    if comparison is None or comparison.missing is not None:
        reason = comparison.missing if comparison is not None else None
        return empty(reason or "told when the verdict is on screen")
    places = list(range(1, len(comparison.us) + 1))
    traces = [
        go.Scatter(
            x=places, y=[k] * len(places), mode="markers+text", name=sentence(rule.label),
            marker={"symbol": [SYMBOLS[m] for m in rule.marks], "color": [colour(m, dark) for m in rule.marks],
                    "size": 13},
            text=[fine(keep) if keep is not None and mark != "untested" and len(places) <= _FEW else ""
                  for keep, mark in zip(rule.keep, rule.marks, strict=True)],
            textposition="top center", textfont={"size": 11}, cliponaxis=False, hoverinfo="text",
            hovertext=[f"{sentence(rule.label)}, position {t}: {STYLES[m].word}<br>keep {fine(keep)}, u {fine(u)}"
                       for t, m, keep, u in zip(places, rule.marks, rule.keep, comparison.us, strict=True)],
        )
        for k, rule in enumerate(comparison.rules)
    ]  # fmt: skip
    out = figure(traces, 90 + 52 * len(traces), showlegend=False)
    ticks = [f"{'▶ ' if r.own else ''}{sentence(r.label)}<br>{sentence(r.text)}" for r in comparison.rules]
    out.update_yaxes(
        tickvals=list(range(len(ticks))), ticktext=ticks, range=[len(ticks) - 0.5, -0.7], fixedrange=True,
        showgrid=False, zeroline=False,
    )  # fmt: skip
    tokens = [
        f"{short(token, _TICK)}<br>u {fine(u)}" for token, u in zip(comparison.tokens, comparison.us, strict=True)
    ]
    out.update_xaxes(tickvals=places, ticktext=tokens, range=[0.5, len(places) + 0.5], fixedrange=True, showgrid=False)
    return out


def rule_rows(comparison: Comparison | None) -> list[dict[str, Any]]:
    """The table twin: a row a rule."""
    if comparison is None:
        return []
    return [
        {"rule": r.label, "this run": r.own, "kept": r.kept, "expected": r.expected, "what follows": r.note,
         **{f"{t} {token}": f"{glyph(m)} {fine(keep)}" for t, (token, m, keep) in
            enumerate(zip(comparison.tokens, r.marks, r.keep, strict=True), 1)}}
        for r in comparison.rules
    ]  # fmt: skip


def fig_survival(survival: Survival | None, dark: bool = False) -> go.Figure:
    """Observed survival as bars with Wilson intervals; what every rule must give on these drafts as lines."""
    if survival is None or survival.missing is not None:
        return empty(survival.missing if survival is not None and survival.missing else "nothing here yet")
    seen = survival.observed
    error = [(lo, hi) if lo is not None and hi is not None else (v, v)
             for v, lo, hi in zip(seen.values, seen.lows, seen.highs, strict=True)]  # fmt: skip
    bars = go.Bar(
        x=list(seen.xs), y=list(seen.values), name="observed", marker={"color": colour("accepted", dark)}, opacity=0.55,
        customdata=[(n, lo, hi) for n, (lo, hi) in zip(seen.ns, error, strict=True)],
        hovertemplate="%{x} kept: %{y:.3f}<br>95 % %{customdata[1]:.3f} to %{customdata[2]:.3f}<br>"
        "n %{customdata[0]}<extra></extra>",
    )  # fmt: skip
    xs = [x for t in seen.xs for x in (t, t, None)]
    ys = [y for lo, hi in error for y in (lo, hi, None)]
    ticks = go.Scatter(
        x=xs, y=ys, mode="lines+markers", line={"color": "#8C8C8C", "width": 2}, hoverinfo="skip", showlegend=False,
        marker={"symbol": "line-ew", "size": 11, "line": {"width": 2, "color": "#8C8C8C"}}, name="95 %",
    )  # fmt: skip
    out = figure([bars, ticks, *(_curve(c, dark) for c in survival.curves)], 300)
    out.update_xaxes(title="tokens kept, at least", dtick=1 if len(seen.xs) <= 24 else None, fixedrange=True)
    out.update_yaxes(range=[0, 1.02], tickformat=".1f", fixedrange=True)
    return out


def _curve(curve: Curve, dark: bool) -> go.Scatter:
    mark, dash, symbol = _LOOK[curve.rule]
    name = f"{'▶ ' if curve.own else ''}{curve.label}, exact"
    return go.Scatter(
        x=list(curve.xs), y=list(curve.values), mode="lines+markers", name=sentence(name),
        line={"color": colour(mark, dark), "dash": dash, "width": 3 if curve.own else 2},
        marker={"symbol": symbol, "size": 8}, hovertemplate="%{x} kept: %{y:.3f} expected<extra></extra>",
    )  # fmt: skip


def survival_rows(survival: Survival | None) -> list[dict[str, Any]]:
    """The table twin."""
    if survival is None:
        return []
    seen = survival.observed
    columns = {c.label: dict(zip(c.xs, c.values, strict=True)) for c in survival.curves}
    zipped = zip(seen.xs, seen.values, seen.lows, seen.highs, seen.ns, strict=True)
    return [
        {"kept at least": t, "observed": v, "95 % from": lo, "to": hi, "n": n,
         **{f"{label}, exact": values.get(t) for label, values in columns.items()}}
        for t, v, lo, hi, n in zipped
    ]  # fmt: skip


def fig_paired(paired: Sequence[Paired], dark: bool = False) -> go.Figure:
    """Drafts by how many tokens more a rule keeps than token-wise; the mean with its interval above."""
    known = [p for p in paired if p.missing is None and p.counts]
    if not known:
        return empty(next((p.missing for p in paired if p.missing), None) or "no sampled chain to compare on")
    most = max(n for p in known for _, n in p.counts)
    traces: list[Any] = []
    for k, p in enumerate(known):
        traces += [_differences(p, k, dark), _mean(p, most * (1.1 + 0.12 * k), dark)]
    out = figure(traces, 300, barmode="group", bargap=0.3)
    out.update_xaxes(title="tokens kept more than token-wise, same draft and u", fixedrange=True, zeroline=True)
    out.update_yaxes(title="drafts", fixedrange=True)
    return out


def _differences(paired: Paired, number: int, dark: bool) -> go.Bar:
    return go.Bar(
        x=[d for d, _ in paired.counts], y=[n for _, n in paired.counts], name=sentence(paired.label),
        marker={"color": colour(_LOOK[paired.rule][0], dark),
                "pattern": {"shape": "/" if number else "", "fgopacity": 0.4, "fillmode": "overlay"}},
        hovertemplate="%{x:+d} tokens: %{y} drafts<extra></extra>",
    )  # fmt: skip


def _mean(paired: Paired, height: float, dark: bool) -> go.Scatter:
    """The mean difference with its 95 % interval; the mean alone where no interval is known."""
    mark, _, symbol = _LOOK[paired.rule]
    mean, interval, own = paired.gain.value or 0.0, paired.gain.interval, colour(mark, dark)
    xs = [mean] if interval is None else [interval[0], mean, interval[1]]
    said = "mean and 95 % interval" if interval is not None else "the mean"
    return go.Scatter(
        x=xs, y=[height] * len(xs), mode="lines+markers", showlegend=False,
        line={"color": own, "width": 3}, name=f"mean, {sentence(paired.label)}", hoverinfo="text",
        marker={"symbol": [symbol] if interval is None else ["line-ns", symbol, "line-ns"], "size": 10,
                "line": {"width": 2, "color": own}},
        hovertext=f"{sentence(paired.label)}: {sentence(paired.gain.text)} tokens more, {said}",
    )  # fmt: skip


def paired_rows(paired: Sequence[Paired]) -> list[dict[str, Any]]:
    """The table twin."""
    return [{"rule": p.label, "more tokens": d, "drafts": n} for p in paired for d, n in p.counts]
