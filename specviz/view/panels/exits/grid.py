"""Other early-exit settings on the recorded text, without a model: rounds of `specviz.cost.exit_replay`, compared.

Needs `exit_table` records, which `specviz whatif --sweep` adds: what every head says after every token of the text.
Layer calls behind a wrong draft are bounded, not known: where one number must stand, it is the most.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from specviz.cost.exit_grid import AXES, grid
from specviz.cost.exit_replay import ExitKnobs, ReplayQuery, Text, Total, added, n_layers_of, queries
from specviz.cost.exit_setting import exit_setting, head_costs, replay_events
from specviz.errors import SpecvizError
from specviz.events import GRID, ExitRound
from specviz.numerals import number, percent
from specviz.runlog.fold import Run

KNOBS = AXES
SYMBOLS = {"alpha": "α", "tau": "τ", "d_max": "d", "w_max": "w"}
_LABELS = {
    "alpha": "α annealing strength",
    "tau": "τ exit threshold",
    "d_max": "d deepest layer",
    "w_max": "w drafts a round",
}
TAUS = tuple(round(step / 20, 2) for step in range(21))
WIDTHS = tuple(range(17))
NOT_SWEPT = "This trace does not hold what the exit heads say of its text, so other settings cannot be replayed on it."
_KEPT = 64  # maps that stay cached
_SURE = 1e-9

Name = Literal["tokens", "calls", "wrong", "layers"]
Totals = tuple[tuple[Total, ...], ...]  # [y][x]


@dataclass(frozen=True, slots=True)
class Measure:
    """A number of a setting. `sign` 1: more is better."""

    name: Name
    label: str
    sign: int
    help: str


MEASURES = (
    Measure("tokens", "tokens per round", 1, "committed tokens per target pass; plain decoding has 1"),
    Measure("calls", "layer calls per token", -1, "layers read one after the other, at most; heads not counted"),
    Measure("wrong", "wrong exits", -1, "share of the judged stops whose token was not the target's"),
    Measure("layers", "layers per token, heads counted", -1, "layer calls, and every head test at its measured cost"),
)


@dataclass(frozen=True)
class TextReplay:
    """A text whose decoding can be replayed under any exit setting. `own`: the run's setting, None for a run of another
    method.

    `moved`: a knob changed during the run, so `own` is only the first setting. `head_costs`: of a head test and of
    the final head in layers, as measured in this run.
    """

    queries: tuple[ReplayQuery, ...]
    texts: tuple[Text, ...]  # as many
    n_layers: int
    own: ExitKnobs | None
    own_missing: str
    moved: bool
    head_costs: tuple[float, float] | None
    ran: Total | None  # what the run itself took; `exits` are the judged ones
    words: Callable[[int], str]  # a token's escaped text
    known: dict[object, Totals] = field(default_factory=dict, repr=False)

    @property
    def layers(self) -> tuple[int, ...]:
        """Layers whose head was asked."""
        return self.texts[0].table.layers

    @property
    def start(self) -> ExitKnobs:
        """Where the sliders begin."""
        return self.own or ExitKnobs(d_max=self.n_layers // 2, layers=self.layers)

    def total(self, setting: ExitKnobs) -> Total:
        """All texts under a setting. Raises SpecvizError for an alpha that is off the grid."""
        return added([text.total(setting) for text in self.texts])

    def grid(self, base: ExitKnobs, x: str, xs: Sequence[float], y: str, ys: Sequence[float]) -> Totals:
        """`total` of all pairs of two knobs, others from `base`."""
        others = tuple(getattr(base, name) for name in (*KNOBS, "layers") if name not in (x, y))
        key = (others, x, y)
        if key not in self.known:
            if len(self.known) >= _KEPT:
                self.known.clear()
            axes: dict[str, Sequence[Any]] = {name: (getattr(base, name),) for name in KNOBS} | {x: xs, y: ys}
            totals = grid(self.texts, **axes, layers=base.layers)
            self.known[key] = tuple(
                tuple(totals.at(*({x: i, y: j}.get(name, 0) for name in KNOBS)) for i in range(len(xs)))
                for j in range(len(ys))
            )
        return self.known[key]


def replay_of(run: Run) -> TextReplay:
    """The run's texts, ready to be replayed. Raises SpecvizError with the reason when they are not."""
    if run.header is None:
        raise SpecvizError(NOT_SWEPT)
    header, replayed = queries(replay_events(run))
    if not any(query.records for query in replayed):
        raise SpecvizError(NOT_SWEPT)
    n_layers = n_layers_of(header)
    replayed = [query for query in replayed if query.records]
    own, why = _own(run)
    changes = {change.name for change in run.changes}
    return TextReplay(
        tuple(replayed),
        tuple(query.text(n_layers) for query in replayed),
        n_layers,
        own,
        why,
        bool(changes & {*KNOBS, "exit_layers", "draft_mode"}),
        head_costs(run),
        _ran(run, n_layers),
        run.word,
    )


def value(total: Total, measure: Name, head_costs: tuple[float, float] | None) -> float | None:
    """One number of a setting; None where it is not defined or not measured."""
    if measure == "tokens":
        return total.tokens_per_round
    if measure == "calls":
        return total.calls_per_token[1]
    if measure == "wrong":
        return None if total.precision is None else 1 - total.precision
    return None if head_costs is None else total.layers_per_token(*head_costs)


@dataclass(frozen=True, slots=True)
class ExitGrid:
    """A heat map of two knobs. Places are (x, y) values of them; `own` and `picked` may lie between cells."""

    x: str
    y: str
    x_label: str
    y_label: str
    xs: tuple[float, ...]
    ys: tuple[float, ...]
    values: tuple[tuple[float | None, ...], ...]  # [y][x]
    hovers: tuple[tuple[str, ...], ...]
    measure: Measure
    best: tuple[float, float] | None
    own: tuple[float, float] | None
    picked: tuple[float, float]
    words: str
    missing: str | None = None


def exit_grid(replay: TextReplay, picked: ExitKnobs, measure: Measure, x: str = "alpha", y: str = "tau") -> ExitGrid:
    """The map of two of the four knobs around a setting."""
    xs, ys = _axis(replay, x), _axis(replay, y)
    totals = replay.grid(picked, x, xs, y, ys)
    values = tuple(tuple(value(t, measure.name, replay.head_costs) for t in row) for row in totals)
    best, same = _best(totals, values, measure)
    own = replay.own
    fits = own is not None and all(getattr(own, k) == getattr(picked, k) for k in (*KNOBS, "layers") if k not in (x, y))
    place = (xs[best[1]], ys[best[0]]) if best is not None else None
    return ExitGrid(
        x,
        y,
        _LABELS[x],
        _LABELS[y],
        xs,
        ys,
        values,
        tuple(tuple(_hover(t, replay) for t in row) for row in totals),
        measure,
        place,
        (float(getattr(own, x)), float(getattr(own, y))) if fits else None,
        (float(getattr(picked, x)), float(getattr(picked, y))),
        _grid_words(totals, values, best, same, measure, (x, y)),
        "the trace has no times of heads and layers"
        if measure.name == "layers" and replay.head_costs is None
        else None,
    )


def _axis(replay: TextReplay, knob: str) -> tuple[float, ...]:
    axes: dict[str, Sequence[float]] = {"alpha": GRID, "tau": TAUS, "d_max": range(replay.n_layers), "w_max": WIDTHS}
    return tuple(axes[knob])


def _best(
    totals: Totals, values: tuple[tuple[float | None, ...], ...], measure: Measure
) -> tuple[tuple[int, int] | None, int]:
    """The best cell, among equal ones the one with the fewest layer calls, then the fewest tests; how many equal it."""
    cells = [
        ((-measure.sign * v, t.calls_per_token[1], t.tests), (r, c))
        for r, row in enumerate(values)
        for c, v in enumerate(row)
        if v is not None
        for t in (totals[r][c],)
    ]
    if not cells:
        return None, 0
    least = min(cells, key=lambda cell: cell[0])
    return least[1], sum(abs(rank[0] - least[0][0]) < _SURE for rank, _ in cells)


def _grid_words(
    totals: Totals,
    values: tuple[tuple[float | None, ...], ...],
    best: tuple[int, int] | None,
    same: int,
    measure: Measure,
    names: tuple[str, str],
) -> str:
    if best is None:
        return "No setting of this map has that number."
    row, column = best
    total = totals[row][column]
    at = ", ".join(f"{SYMBOLS[name]} {number(float(getattr(total.setting, name)))}" for name in names)
    shown = percent(values[row][column]) if measure.name == "wrong" else number(values[row][column])
    others = "1 other cell is" if same == 2 else f"{same - 1} other cells are"
    more = f"; {others} as good, this one takes the fewest layer calls" if same > 1 else ""
    return f"Best here: {shown} {measure.label} at {at}{more}."


def bounds_text(bounds: tuple[float, float]) -> str:
    """`8.83`, `8.83 to 9.10`."""
    least, most = bounds
    return number(least) if number(least) == number(most) else f"{number(least)} to {number(most)}"


def _hover(total: Total, replay: TextReplay) -> str:
    setting = total.setting
    cost = value(total, "layers", replay.head_costs)
    knobs = " · ".join(f"{SYMBOLS[name]} {number(float(getattr(setting, name)))}" for name in KNOBS)
    lines = [
        knobs,
        f"{number(total.tokens_per_round)} tokens a round",
        f"{bounds_text(total.calls_per_token)} layer calls a token",
        f"{total.kept} exits right, {total.wrong} wrong",
    ]
    lines += [f"{number(cost)} layers a token with heads"] if cost is not None else []
    return "\n".join(lines)


# The run itself -----------------------------------------------------------------------------------------------------


def _own(run: Run) -> tuple[ExitKnobs | None, str]:
    """The setting the run began with; else why it has none."""
    header = run.header
    assert header is not None
    if header.method_traits.replay_depth is None:
        return None, f"the run was {header.method}; its text is replayed as if it had been specbound"
    drawn = header.knobs.get("draft_mode", "argmax") != "argmax"
    if drawn and float(header.sampling.get("temperature", 0)) > 0:
        return None, "its drafts were drawn, and a replay knows only the most likely ones"
    run_setting = exit_setting(run, run.rounds[0]) if run.rounds else None
    if run_setting is None:
        return None, "the trace does not say how it was set"
    return ExitKnobs(
        run_setting.alpha or 0.0,
        run_setting.tau or 0.0,
        run_setting.deepest,
        run_setting.w_max or 0,
        run_setting.layers,
    ), ""


def _ran(run: Run, n_layers: int) -> Total | None:
    """The recorded rounds added up; None when they are not those of an early exit."""
    ended = [record for record in run.rounds if record.complete and record.end is not None]
    costs = [cost for record in ended for cost in record.every(ExitRound)]
    if not costs or not ended:
        return None
    verdicts = [v.status for record in ended for v in record.verdicts.values()]
    kept = verdicts.count("accepted")
    return Total(
        setting=ExitKnobs(),
        n_layers=n_layers,
        n_new=sum(r.end.n_emitted for r in ended if r.end),
        n_rounds=len(ended),
        kept=kept,
        exits=kept + verdicts.count("rejected"),
        calls=sum(cost.layer_calls for cost in costs),
        calls_more=0,
        tests=sum(cost.head_tests for cost in costs),
    )
