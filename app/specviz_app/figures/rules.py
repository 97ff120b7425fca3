"""Figures about several rules on the same drafts: in one round, and over the run."""

from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go

from specviz.runlog.run import Mark
from specviz.traits import CAPPED, NAIVE, TOKENWISE
from specviz.view.panels.verification.model import Comparison, Curve, Paired, Survival
from specviz.view.words.numbers import apart, fine
from specviz.view.words.palette import STYLES, colour, glyph
from specviz_app.figures import base
from specviz_app.figures.base import sentence, short

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
        return base.empty(reason or "told when the verdict is on screen")
    places = list(range(1, len(comparison.us) + 1))
    traces = [
        base.scatter(
            "markers+text",
            sentence(rule.label),
            places,
            [k] * len(places),
            [
                f"{sentence(rule.label)}, position {t}: {STYLES[m].word}<br>{'keep {}, u {}'.format(*apart(keep, u))}"
                for t, m, keep, u in zip(places, rule.marks, rule.keep, comparison.us, strict=True)
            ],
            marker={
                "symbol": [base.SYMBOLS[m] for m in rule.marks],
                "color": [colour(m, dark) for m in rule.marks],
                "size": 13,
            },
            text=[
                fine(keep) if keep is not None and mark != "untested" and len(places) <= _FEW else ""
                for keep, mark in zip(rule.keep, rule.marks, strict=True)
            ],
            textposition="top center",
            textfont={"size": 11},
            cliponaxis=False,
        )
        for k, rule in enumerate(comparison.rules)
    ]
    names = base.ticks([f"{'▶ ' if r.own else ''}{sentence(r.label)}<br>{sentence(r.text)}" for r in comparison.rules])
    tokens = [f"{short(t, _TICK)}<br>u {fine(u)}" for t, u in zip(comparison.tokens, comparison.us, strict=True)]
    x = {**base.ticks(tokens, 1), "range": [0.5, len(places) + 0.5], "showgrid": False}
    y = {**base.BARE, **names, "range": [len(traces) - 0.5, -0.7]}
    return base.figure(traces, 90 + 52 * len(traces), x, y, showlegend=False)


def rule_rows(comparison: Comparison | None) -> list[dict[str, Any]]:
    """The table twin: a row a rule."""
    if comparison is None:
        return []
    return [
        {
            "rule": r.label,
            "this run": r.own,
            "kept": r.kept,
            "expected": r.expected,
            "what follows": r.note,
            **{
                f"{t} {token}": f"{glyph(m)} {fine(keep)}"
                for t, (token, m, keep) in enumerate(zip(comparison.tokens, r.marks, r.keep, strict=True), 1)
            },
        }
        for r in comparison.rules
    ]


def fig_survival(survival: Survival | None, dark: bool = False) -> go.Figure:
    """Observed survival as bars with Wilson intervals; what every rule must give on these drafts as lines."""
    if survival is None or survival.missing is not None:
        return base.empty(survival.missing if survival is not None and survival.missing else "nothing here yet")
    seen = survival.observed
    error = [
        (lo, hi) if lo is not None and hi is not None else (v, v)
        for v, lo, hi in zip(seen.values, seen.lows, seen.highs, strict=True)
    ]
    bar = go.Bar(
        x=list(seen.xs),
        y=list(seen.values),
        name="observed",
        marker={"color": colour("accepted", dark)},
        opacity=0.55,
        customdata=[(n, lo, hi) for n, (lo, hi) in zip(seen.ns, error, strict=True)],
        hovertemplate="%{x} kept: %{y:.3f}<br>95 % %{customdata[1]:.3f} to %{customdata[2]:.3f}<br>"
        "n %{customdata[0]}<extra></extra>",
    )
    ends = go.Scatter(
        **base.pieces(*([(x, lo), (x, hi)] for x, (lo, hi) in zip(seen.xs, error, strict=True))),
        showlegend=False,
        **base.WHISKER,
        name="95 %",
    )
    x = {"title": "tokens kept, at least", "dtick": 1 if len(seen.xs) <= 24 else None}
    y = {"range": [0, 1.02], "tickformat": ".1f"}
    return base.figure([bar, ends, *(_curve(c, dark) for c in survival.curves)], 300, x, y)


def _curve(curve: Curve, dark: bool) -> go.Scatter:
    mark, dash, symbol = _LOOK[curve.rule]
    name = f"{'▶ ' if curve.own else ''}{curve.label}, expected"
    return go.Scatter(
        x=list(curve.xs),
        y=list(curve.values),
        mode="lines+markers",
        name=sentence(name),
        line={"color": colour(mark, dark), "dash": dash, "width": 3 if curve.own else 2},
        marker={"symbol": symbol, "size": 8},
        hovertemplate="%{x} kept: %{y:.3f} expected<extra></extra>",
    )


def survival_rows(survival: Survival | None) -> list[dict[str, Any]]:
    if survival is None:
        return []
    seen = survival.observed
    columns = {c.label: dict(zip(c.xs, c.values, strict=True)) for c in survival.curves}
    zipped = zip(seen.xs, seen.values, seen.lows, seen.highs, seen.ns, strict=True)
    return [
        {
            "kept at least": t,
            "observed": v,
            "95 % from": lo,
            "to": hi,
            "n": n,
            **{f"{label}, expected": values.get(t) for label, values in columns.items()},
        }
        for t, v, lo, hi, n in zipped
    ]


def fig_paired(paired: Sequence[Paired], dark: bool = False) -> go.Figure:
    """Drafts by how many tokens more a rule keeps than token-wise; the mean with its interval above."""
    known = [p for p in paired if p.missing is None and p.counts]
    if not known:
        return base.empty(next((p.missing for p in paired if p.missing), None) or "no sampled chain to compare on")
    most = max(n for p in known for _, n in p.counts)
    traces: list[Any] = []
    for k, p in enumerate(known):
        traces += [_differences(p, k, dark), _mean(p, most * (1.1 + 0.12 * k), dark)]
    x = {"title": "tokens kept more than token-wise, same draft and u", "zeroline": True}
    return base.figure(traces, 300, x, {"title": "drafts"}, barmode="group", bargap=0.3)


def _differences(paired: Paired, number: int, dark: bool) -> go.Bar:
    return go.Bar(
        x=[d for d, _ in paired.counts],
        y=[n for _, n in paired.counts],
        name=sentence(paired.label),
        marker={"color": colour(_LOOK[paired.rule][0], dark), "pattern": base.hatched("/" if number else "")},
        hovertemplate="%{x:+d} tokens: %{y} drafts<extra></extra>",
    )


def _mean(paired: Paired, height: float, dark: bool) -> go.Scatter:
    """The mean difference with its 95 % interval; the mean alone where no interval is known."""
    mark, _, symbol = _LOOK[paired.rule]
    mean, interval, own = paired.gain.value or 0.0, paired.gain.interval, colour(mark, dark)
    xs = [mean] if interval is None else [interval[0], mean, interval[1]]
    said = "mean and 95 % interval" if interval is not None else "the mean"
    return base.scatter(
        "lines+markers",
        f"mean, {sentence(paired.label)}",
        xs,
        [height] * len(xs),
        f"{sentence(paired.label)}: {sentence(paired.gain.text)} tokens more, {said}",
        showlegend=False,
        line={"color": own, "width": 3},
        marker={
            "symbol": [symbol] if interval is None else ["line-ns", symbol, "line-ns"],
            "size": 10,
            "line": {"width": 2, "color": own},
        },
    )


def paired_rows(paired: Sequence[Paired]) -> list[dict[str, Any]]:
    return [{"rule": p.label, "more tokens": d, "drafts": n} for p in paired for d, n in p.counts]
