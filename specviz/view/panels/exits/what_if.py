"""What a setting would have changed against the run, in numbers and along the text. Values only; see `exit_grid`."""

from collections import Counter
from dataclasses import dataclass

from specviz.cost.exit_replay import ExitKnobs, Text, Total
from specviz.numerals import UNKNOWN, number, percent
from specviz.probability.arrays import np
from specviz.runlog.run import Mark
from specviz.view.blocks import Cell, Plot, PlotCurve, TableBlock
from specviz.view.panels.exits.grid import KNOBS, SYMBOLS, TextReplay, bounds_text

_SAME = 5e-3  # differences that are not shown


@dataclass(frozen=True, slots=True)
class ExitChange:
    """The setting against the run; `check` says how far the replay of the run's own setting agrees with the run."""

    setting: str  # "α .5 · τ .75 · d 8 · w 6"
    table: TableBlock
    words: str
    check: str
    agrees: bool | None  # None: there is nothing to check against
    regret: Plot  # tokens by stop less first right layer


def exit_change(replay: TextReplay, picked: ExitKnobs) -> ExitChange:
    """What would change. Raises SpecvizError for an alpha off the grid."""
    here = replay.total(picked)
    again = replay.total(replay.own) if replay.own is not None else None
    ran, own, costs = replay.ran or again, replay.own, replay.head_costs
    late, early = _regret(replay, picked)
    late_ran, early_ran = _regret(replay, own) if own is not None else (None, None)
    heads = "no times of heads and layers are on record"
    if costs is not None:
        test, final = map(number, costs)
        heads = f"layer calls and heads: a test costs {test} layers of one row, the final head {final}, as measured"
    rows = (
        _row("tokens per round", ran.tokens_per_round if ran else None, here.tokens_per_round, 1, "exact"),
        _bounded(
            "layer calls per token",
            ran.calls_per_token if ran else None,
            here.calls_per_token,
            "layers read one after the other; behind a wrong draft bounded, not known",
        ),
        _row("exits right", ran.kept if ran else None, here.kept, 0, "stops whose token the target chose too"),
        _row("exits wrong", ran.wrong if ran else None, here.wrong, -1, "stops whose token it did not choose"),
        _row("target passes", ran.n_rounds if ran else None, here.n_rounds, -1, "rounds for the whole text"),
        _row("head tests", ran.tests if ran else None, here.tests, -1, "of the rows that are known"),
        _bounded("layers per token, heads counted", _with_heads(ran, costs), _with_heads(here, costs), heads),
        # Along the whole text, round borders aside: how much later than the first right layer it stops.
        _row(
            "regret, layers too late",
            late_ran,
            late,
            -1,
            "mean over right stops of stop layer less the first layer whose head was right; 0 is the oracle",
        ),
        _row(
            "tokens stopped too early",
            early_ran,
            early,
            -1,
            "tokens of the text at which it would stop before the head was right",
        ),
    )
    table = TableBlock("try-changes", ("", "this run", "here", "change", "what it is"), rows)
    words = _words(ran, here, replay.n_layers)
    return ExitChange(setting_text(picked), table, words, *_check(replay, again), _regrets(replay, picked))


def setting_text(setting: ExitKnobs) -> str:
    """`α .5 · τ .75 · d 8 · w 6 · layers 7, 8`."""
    knobs = [f"{SYMBOLS[name]} {number(float(getattr(setting, name)))}" for name in KNOBS]
    layers = ", ".join(map(str, setting.layers)) if setting.layers else "none"
    return " · ".join([*knobs, f"layers {'all' if setting.layers is None else layers}"])


def _row(label: str, ran: float | None, here: float | None, sign: int, help_: str) -> tuple[Cell, ...]:
    """`sign` 1: more is better, 0: neither is."""
    if ran is None or here is None:
        return _line(label, number(ran), number(here), "", None, help_)
    gap = here - ran
    better = None if abs(gap) < _SAME or sign == 0 else gap * sign > 0
    return _line(label, number(ran), number(here), _delta(gap), better, help_)


def _line(label: str, ran: str, here: str, change: str, better: bool | None, help_: str) -> tuple[Cell, ...]:
    mark = {True: "▲ better", False: "▼ worse", None: ""}[better]
    return tuple(map(Cell, (label, ran, here, f"{change}  {mark}".strip(), help_)))


Bounds = tuple[float, float]


def _with_heads(total: Total | None, costs: tuple[float, float] | None) -> Bounds | None:
    if total is None or costs is None:
        return None
    most = total.layers_per_token(*costs)
    return most - total.calls_more / max(1, total.n_new), most


def _bounded(label: str, ran: Bounds | None, here: Bounds | None, help_: str) -> tuple[Cell, ...]:
    """A number between bounds, less being better: only when even the most is less than what the run took."""
    if ran is None or here is None:
        return _line(label, UNKNOWN, bounds_text(here) if here else UNKNOWN, "", None, help_)
    low, high = here[0] - ran[1], here[1] - ran[0]
    change = _delta(low) if _delta(low) == _delta(high) else f"{_delta(low)} to {_delta(high)}"
    better = True if high < -_SAME else False if low > _SAME else None
    return _line(label, bounds_text(ran), bounds_text(here), change, better, help_)


def _regrets(replay: TextReplay, picked: ExitKnobs) -> Plot:
    here = Counter(_gaps(replay, picked))
    ran = Counter(_gaps(replay, replay.own)) if replay.own is not None else None
    every = range(min([*here, *(ran or ()), 0]), max([*here, *(ran or ()), 0]) + 1)
    counted = [("this run", ran, "untested")] if ran is not None else []
    looks: list[tuple[str, Counter[int], Mark]] = [*counted, ("here", here, "accepted")]  # type: ignore[list-item]
    late_words = ", ".join(f"{here[gap]} tokens {gap} layers late" for gap in every if here[gap])
    return Plot(
        "try-regret",
        "Regret",
        "stop layer less first right layer (below 0: too early)",
        tuple(every),
        tuple(PlotCurve(name, tuple(counts[gap] for gap in every), mark) for name, counts, mark in looks),
        "count",
        help="against an oracle that stops at the first layer whose head is right",
        words=f"Regret: {late_words or 'no stops'}.",
        missing="" if here or ran else "nothing would stop early, here or in the run",
    )


def _gaps(replay: TextReplay, setting: ExitKnobs) -> list[int]:
    """Stop layer less first right layer, of every token at which the setting would stop."""
    return [gap for text in replay.texts for gap in text.table.regret(setting) if gap is not None]


def _regret(replay: TextReplay, setting: ExitKnobs) -> tuple[float | None, int]:
    gaps = _gaps(replay, setting)
    late = [gap for gap in gaps if gap >= 0]
    return (float(np.mean(late)) if late else None), len(gaps) - len(late)


def _delta(gap: float) -> str:
    """`+1.2`, `−.30`, `same`."""
    return "same" if abs(gap) < _SAME else f"{'+' if gap > 0 else '−'}{number(abs(gap))}"


def _words(ran: Total | None, here: Total, n_layers: int) -> str:
    most = here.calls_per_token[1]
    saved = f"at least {percent(1 - most / n_layers)} of plain decoding's layer calls are saved"
    cost = saved if most < n_layers else f"that may take {number(most)} layer calls a token, plain decoding {n_layers}"
    rate = number(here.tokens_per_round)
    rate = f"{rate} {'token' if rate == '1' else 'tokens'} a round"
    if ran is None:
        return f"{rate}; {cost}."
    gap = _delta(here.tokens_per_round - ran.tokens_per_round)
    against = "as many as in the run" if gap == "same" else f"{gap} against the run"
    return f"{rate}, {against}; {cost}. The text stays the same."


def _check(replay: TextReplay, again: Total | None) -> tuple[str, bool | None]:
    if again is None or replay.ran is None:
        return f"There is nothing to check the replay against: {replay.own_missing}.", None
    run, twin = replay.ran.tokens_per_round, again.tokens_per_round
    if replay.moved:
        return "A knob was moved within the run, so its first setting does not explain all of its rounds.", None
    if again.n_rounds == replay.ran.n_rounds:
        return f"Checked: the run's own setting, replayed, takes {again.n_rounds} rounds, as the run did.", True
    return (
        f"The run's own setting, replayed, gives {number(twin)} tokens a round; the run had {number(run)}. The heads "
        "that were asked in the sweep are not those of the run."
    ), False


# Along the text -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TextCell:
    """A token of the text as a setting treats it: where its row stops (None: to the top), whether that is right."""

    stop: int | None
    right: bool | None
    starts: bool  # a round begins with it
    tested: bool  # its row climbs with tests; False where the width was used up


@dataclass(frozen=True, slots=True)
class ExitText:
    """A stretch of one text: what every head says (rows: layers, from the lowest), and two settings along it.

    `conf` is at the picked alpha. `run` is None when the run's own setting is not known.
    """

    q: int
    first: int  # position of the first token shown
    tokens: tuple[str, ...]  # the rows: what climbs
    chosen: tuple[str, ...]  # what the target chose after each
    layers: tuple[int, ...]
    conf: tuple[tuple[float, ...], ...]  # [layer][token]
    top1: tuple[tuple[str, ...], ...]
    right: tuple[tuple[bool, ...], ...]
    here: tuple[TextCell, ...]
    run: tuple[TextCell, ...] | None
    oracle: tuple[int | None, ...]  # first right layer
    words: str


def exit_text(replay: TextReplay, picked: ExitKnobs, q: int, pos: int, span: int = 48) -> ExitText:
    """The text of a query around a position, under a setting."""
    k = next((k for k, query in enumerate(replay.queries) if query.q == q), 0)
    text, query = replay.texts[k], replay.queries[k]
    table = text.table
    n = len(table.tokens)
    low = max(0, min(pos - table.first, n - span))
    window = slice(low, min(n, low + span))
    full = [*query.prompt, *query.tokens]
    rows = full[table.first + window.start : table.first + window.stop]
    name = replay.words
    here = _cells(text, picked)[window]
    own = _cells(text, replay.own)[window] if replay.own is not None else None
    right = (table.top1 == table.tokens[:, None])[window].T
    oracle = [None if layer == table.n_layers else int(layer) for layer in table.first_right[window]]
    return ExitText(
        query.q,
        table.first + low,
        tuple(map(name, rows)),
        tuple(map(name, table.tokens[window].tolist())),
        table.layers,
        tuple(map(tuple, table.conf[round(picked.alpha * 10)][window].T.tolist())),
        tuple(tuple(map(name, row)) for row in table.top1[window].T.tolist()),
        tuple(map(tuple, right.tolist())),
        tuple(here),
        tuple(own) if own is not None else None,
        tuple(oracle),
        _text_words(here, oracle),
    )


def _cells(text: Text, setting: ExitKnobs) -> list[TextCell]:
    """Every token of a text under a setting: the rounds are walked, so rows that are never tested are told apart."""
    table, replayed_rounds = text.table, text.rounds(setting)
    columns, _ = table.stops(setting)
    starts = {done.start for done in replayed_rounds}
    stopped = {done.start + i: depth for done in replayed_rounds for i, depth in enumerate(done.exits)}
    full = {done.start + len(done.exits) for done in replayed_rounds if len(done.exits) >= setting.w_max}
    return [
        TextCell(
            stopped.get(t),
            bool(table.top1[t, columns[t]] == table.tokens[t]) if t in stopped else None,
            t in starts,
            t not in full,
        )
        for t in range(len(table.tokens))
    ]


def _text_words(here: list[TextCell], oracle: list[int | None]) -> str:
    stops = [cell for cell in here if cell.stop is not None]
    wrong = sum(cell.right is False for cell in stops)
    hidden = sum(layer is None for layer in oracle)
    return (
        f"{len(stops)} of these {len(here)} rows stop early, {wrong} of them wrongly; at {hidden} tokens no head was "
        "right at any layer."
    )
