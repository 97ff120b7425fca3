"""What other thresholds would have done with the recorded text: run-level lines over tau and alpha, without a model.

Needs `exit_table` records (`specviz whatif TRACE --sweep METHOD --write`, or a run swept while recorded). Tokens
per round are exact; layer calls lie between two bounds behind a wrong draft.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from specviz.errors import SpecvizError
from specviz.numerals import number, percent
from specviz.runlog.run import Mark
from specviz.view.blocks import Cell, Plot, PlotCurve, TableBlock

if TYPE_CHECKING:
    from specviz.cost.exit_replay import ExitKnobs, Text, Total
    from specviz.events import Header
    from specviz.runlog.fold import Run
    from specviz.runlog.run import RoundRecord

TAUS = (*(round(0.05 * k, 2) for k in range(1, 20)), 0.97, 0.99)
ALPHAS = (*(round(0.1 * k, 1) for k in range(21)), 2.5, 3.0, 3.5, 4.0)


Sweeps = tuple[tuple[Plot, ...], str]  # a chart a knob, and on what they rest, or why there are none


def sweeps(run: "Run", record: "RoundRecord") -> Sweeps:
    """The lines of the run at the setting of a round. Costs tens of milliseconds: keep what it returns."""
    from specviz.cost.exit_replay import ExitKnobs, queries  # numpy: not needed to open a window
    from specviz.cost.exit_setting import exit_setting, replay_events

    run_setting = exit_setting(run, record)
    missing = _missing(run)
    if missing is not None or run_setting is None or run_setting.alpha is None or run_setting.tau is None:
        return (), missing or "the trace does not say at which setting it ran"
    try:
        texts = [query.text(run_setting.n_layers) for query in queries(replay_events(run))[1] if query.records]
    except SpecvizError as error:
        return (), str(error)
    own = ExitKnobs(
        round(run_setting.alpha, 1), run_setting.tau, run_setting.n_layers, run_setting.w_max or 0, run_setting.layers
    )
    taus = _line("tau", "τ", sorted({*TAUS, own.tau}), own, texts)
    alphas = _line("alpha", "α", sorted({*ALPHAS, own.alpha}), own, texts)
    layers = ", ".join(map(str, run_setting.layers))
    held = f"α {number(own.alpha)}, τ {number(own.tau)}, layers {layers}, w_max {own.w_max}"
    tokens = sum(len(text.table.tokens) for text in texts)
    return (taus, alphas), f"replayed on the {tokens} tokens of this run: the text stays the same; held: {held}"


def few(table: TableBlock, count: int) -> TableBlock:
    """So many of the lines, spread evenly; the run's own and the best, which have a word, are among them."""
    n = len(table.rows)
    kept = {k for k, row in enumerate(table.rows) if row[-1].text}
    spread = sorted({round(k * (n - 1) / max(1, count - 1)) for k in range(count)} - kept)
    while len(spread) + len(kept) > count and spread:  # the nearest neighbour of a kept one goes
        spread.remove(min(spread, key=lambda k: min((abs(k - other) for other in kept), default=n)))
    return replace(table, rows=tuple(table.rows[k] for k in sorted({*spread, *kept})))


def replayed_as(header: "Header") -> str:
    """The method whose settings a replay varies: the run's own where its rounds can be replayed."""
    return header.method if header.method_traits.replay_depth is not None else "specbound"


def _missing(run: "Run") -> str | None:
    """Why nothing can be replayed."""
    header = run.header
    target = header.models.target if header else None
    if header is None or target is None or not target.n_layers:
        return "the trace does not say how many layers its target has"
    if not any(query.exit_table for query in run.queries):
        method = replayed_as(header)
        return (
            f"no exit_table in this trace: specviz whatif TRACE --sweep {method} --write NEW asks every head about the "
            "text, "
            "and then other thresholds can be replayed here"
        )
    if not header.keeps_tokens and float(header.sampling.get("temperature", 0)) > 0:
        return f"under verifier {header.verifier} the text depends on the drafts: other settings cannot be replayed"
    return None


def _line(
    knob: Literal["alpha", "tau"], symbol: str, values: list[float], own: "ExitKnobs", texts: "Sequence[Text]"
) -> Plot:
    from specviz.cost.exit_grid import AXES, grid

    axes: dict[str, Sequence[Any]] = {name: (getattr(own, name),) for name in AXES} | {knob: values}
    totals = grid(texts, **axes, layers=own.layers).totals()
    here = own.alpha if knob == "alpha" else own.tau
    least = min(range(len(totals)), key=lambda k: (totals[k].calls_per_token[1], abs(values[k] - here)))
    wrongs = tuple(None if total.precision is None else 1 - total.precision for total in totals)
    saved = tuple(1 - total.calls_per_token[1] / total.n_layers for total in totals)
    wrong = f"{percent(wrongs[least])} wrong" if wrongs[least] is not None else "no exits"
    best = f"{number(values[least])}: {calls_text(totals[least].calls_per_token)} a token, {wrong}"
    signs: list[tuple[int, str, Mark]] = [
        (values.index(here), "▶ this run", "root"),
        (least, "★ fewest calls", "bonus"),
    ]
    heads = (symbol, "tokens/round", "exits", "layer", "wrong", "calls/token", "saved", "")
    lines = (
        _cells(value, total, " ".join(word for at, word, _ in signs if at == k))
        for k, (value, total) in enumerate(zip(values, totals, strict=True))
    )
    return Plot(
        f"layers-{knob}",
        f"Wrong exits and calls saved by {symbol}",
        symbol,
        tuple(values),
        (
            PlotCurve("wrong exits", wrongs, "rejected", "line"),
            PlotCurve("layer calls saved, at least", saved, "accepted", "line"),
        ),
        "percent",
        help="the recorded text, one knob moved; no model runs",
        words=f"Fewest layer calls at {symbol} {best}.",
        signs=tuple(signs),
        table=TableBlock(f"layers-{knob}", heads, tuple(lines)),
    )


def _cells(value: float, total: "Total", word: str) -> tuple[Cell, ...]:
    """The numbers of a replay under one setting."""
    rows, depth = total.exits + total.n_rounds, total.calls - total.n_rounds * total.n_layers
    rate = total.exits / rows if rows else None
    layer = depth / total.exits if total.exits else None
    wrong = None if total.precision is None else 1 - total.precision
    low, high = total.calls_per_token
    return (
        Cell(number(value), value),
        Cell(f"{total.tokens_per_round:.2f}", total.tokens_per_round),
        Cell(percent(rate), rate),
        Cell(number(layer, 1), layer),
        Cell(percent(wrong), wrong),
        Cell(calls_text((low, high)), high),
        Cell(percent(1 - high / total.n_layers), 1 - high / total.n_layers),
        Cell(word, mark="bonus"),
    )


def calls_text(calls: tuple[float, float]) -> str:
    """`8.52`, or `8.33 to 9.33` where what was drafted behind a wrong draft is not known."""
    low, high = (number(value) for value in calls)
    return low if low == high else f"{low} to {high}"
