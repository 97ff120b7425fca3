"""What other thresholds would have done with the recorded text: run-level lines over tau and alpha, without a model.

Needs `exit_table` records (`specviz whatif TRACE --sweep METHOD --write`, or a run swept while recorded). Tokens
per round are exact; layer calls lie between two bounds behind a wrong draft. `Sweeps.missing` says why there are none.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from specviz.errors import SpecvizError
from specviz.view.words.numbers import number, percent

if TYPE_CHECKING:
    from specviz.cost.exit_replay import ExitKnobs, Text, Total
    from specviz.events import Header
    from specviz.runlog.fold import Run
    from specviz.runlog.run import RoundRecord

TAUS = (*(round(0.05 * k, 2) for k in range(1, 20)), 0.97, 0.99)
ALPHAS = (*(round(0.1 * k, 1) for k in range(21)), 2.5, 3.0, 3.5, 4.0)


@dataclass(frozen=True, slots=True)
class SweepPoint:
    """All texts of the run under one setting."""

    value: float
    tokens_per_round: float
    exit_rate: float | None  # rows that stopped / rows
    mean_layer: float | None  # of those that stopped
    wrong_rate: float | None  # drafts the target did not choose / drafts judged
    n_wrong: int
    calls: tuple[float, float]  # least and most layer calls for a token
    saved: tuple[float, float]  # share of plain decoding's layer calls, least and most
    own: bool  # the setting of the run
    best: bool  # fewest layer calls a token at worst


@dataclass(frozen=True, slots=True)
class SweepLine:
    """One knob moved, the others held."""

    knob: str
    symbol: str
    points: tuple[SweepPoint, ...]
    words: str

    def few(self, count: int) -> tuple[SweepPoint, ...]:
        """So many of the points, spread evenly; the run's own and the best are among them."""
        n = len(self.points)
        if n <= count:
            return self.points
        kept = {k for k, found in enumerate(self.points) if found.own or found.best}
        spread = sorted({round(k * (n - 1) / max(1, count - 1)) for k in range(count)} - kept)
        while len(spread) + len(kept) > count and spread:  # the nearest neighbour of a kept one goes
            spread.remove(min(spread, key=lambda k: min((abs(k - other) for other in kept), default=n)))
        return tuple(self.points[k] for k in sorted({*spread, *kept}))


@dataclass(frozen=True, slots=True)
class Sweeps:
    """The lines and what they say; `own` are the settings held."""

    lines: tuple[SweepLine, ...]
    own: str
    words: str
    missing: str | None = None

    def line(self, knob: str) -> SweepLine | None:
        return next((line for line in self.lines if line.knob == knob), None)


def nothing(why: str) -> Sweeps:
    """No lines, and the reason."""
    return Sweeps((), "", "", why)


def sweeps(run: "Run", record: "RoundRecord") -> Sweeps:
    """The lines of the run at the setting of a round. Costs tens of milliseconds: keep what it returns."""
    from specviz.cost.exit_replay import ExitKnobs, queries  # numpy: not needed to open a window
    from specviz.cost.exit_setting import exit_setting, replay_events

    found = exit_setting(run, record)
    missing = _missing(run)
    if missing is not None or found is None or found.alpha is None or found.tau is None:
        return nothing(missing or "the trace does not say at which setting it ran")
    try:
        texts = [query.text(found.n_layers) for query in queries(replay_events(run))[1] if query.records]
    except SpecvizError as error:
        return nothing(str(error))
    own = ExitKnobs(round(found.alpha, 1), found.tau, found.n_layers, found.w_max or 0, found.layers)
    taus = _line("tau", "τ", sorted({*TAUS, own.tau}), own, texts)
    alphas = _line("alpha", "α", sorted({*ALPHAS, own.alpha}), own, texts)
    held = f"α {number(own.alpha)}, τ {number(own.tau)}, layers {', '.join(map(str, found.layers))}, w_max {own.w_max}"
    tokens = sum(len(text.table.tokens) for text in texts)
    return Sweeps((taus, alphas), held, f"replayed on the {tokens} tokens of this run: the text stays the same")


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
    knob: Literal["alpha", "tau"], symbol: str, values: Sequence[float], own: "ExitKnobs", texts: "Sequence[Text]"
) -> SweepLine:
    from specviz.cost.exit_grid import AXES, grid

    axes: dict[str, Sequence[Any]] = {name: (getattr(own, name),) for name in AXES} | {knob: values}
    totals = grid(texts, **axes, layers=own.layers).totals()
    here = own.alpha if knob == "alpha" else own.tau
    least = min(range(len(totals)), key=lambda k: (totals[k].calls_per_token[1], abs(values[k] - here)))
    points = tuple(
        point(value, total, own=value == here, best=k == least)
        for k, (value, total) in enumerate(zip(values, totals, strict=True))
    )
    best = points[least]
    wrong = f"{percent(best.wrong_rate)} wrong" if best.wrong_rate is not None else "no exits"
    words = f"fewest layer calls at {symbol} {number(best.value)}: {calls_text(best.calls)} a token, {wrong}"
    return SweepLine(knob, symbol, points, words)


def point(value: float, total: "Total", own: bool, best: bool) -> SweepPoint:
    """The numbers of a replay under one setting."""
    rows, depth = total.exits + total.n_rounds, total.calls - total.n_rounds * total.n_layers
    low, high = total.calls_per_token
    return SweepPoint(
        value=value,
        tokens_per_round=total.tokens_per_round,
        exit_rate=total.exits / rows if rows else None,
        mean_layer=depth / total.exits if total.exits else None,
        wrong_rate=None if total.precision is None else 1 - total.precision,
        n_wrong=total.wrong,
        calls=(low, high),
        saved=(1 - high / total.n_layers, 1 - low / total.n_layers),
        own=own,
        best=best,
    )


def calls_text(calls: tuple[float, float]) -> str:
    """`8.52`, or `8.33 to 9.33` where what was drafted behind a wrong draft is not known."""
    low, high = (number(value) for value in calls)
    return low if low == high else f"{low} to {high}"
