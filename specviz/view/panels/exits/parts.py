"""Staircase, ledger, gates and times of a round; over the run, predicted and measured times and the wrong exits."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from specviz.cost.exit_replay import annealed, one_rival
from specviz.cost.exit_setting import ExitSetting
from specviz.cost.ledger import ClimbCost, RoundCost
from specviz.events import ExitRound, Gate, LayerTrace
from specviz.numerals import UNKNOWN, number, plural, prob
from specviz.runlog.fold import Run
from specviz.runlog.run import Mark, RoundRecord
from specviz.view.blocks import Cell, Destination, Plot, PlotCurve, TableBlock, Words
from specviz.view.panels.exits.climbs import Climbs
from specviz.view.panels.exits.model import Column, PendingStairs, StairStep
from specviz.view.words.labels import LAYER_CALLS
from specviz.view.words.numbers import MINUS, duration, growth


def stairs(climbs: Climbs, columns: Sequence[Column]) -> PendingStairs | None:
    """The staircase after every climb that is shown."""
    steps = tuple(_step(climbs, columns, climb) for climb in climbs.climbs[: len(columns)])
    if not steps:
        return None
    rows = tuple(_stair_line(climbs, climb, step) for climb, step in zip(climbs.climbs, steps, strict=False))
    heads = ("row", "token", "", "took along", "rows in its calls", "layers passed, by row")
    return PendingStairs(steps, climbs.n_layers, _stair_words(climbs, steps), TableBlock("layers-stairs", heads, rows))


def _step(climbs: Climbs, columns: Sequence[Column], climb: LayerTrace) -> StairStep:
    first = climbs.first
    depths = tuple(sum(fill > first + row for fill in climb.fill_after) for row in range(climb.row + 1))
    text = "to the top" if climb.exit_layer is None else f"stops at {climb.exit_layer}"
    return StairStep(climb.row, columns[climb.row].shown, text, depths)


def _stair_line(climbs: Climbs, climb: LayerTrace, step: StairStep) -> tuple[Cell, ...]:
    along = sorted({row for (row, _), how in climbs.computed.items() if how[1] == climb.row and row != climb.row})
    lists = (", ".join(map(str, numbers)) for numbers in (along, climb.width, step.depths))
    return (Cell(str(step.row), step.row), Cell(step.shown), Cell(step.text), *map(Cell, lists))


def _stair_words(climbs: Climbs, steps: Sequence[StairStep]) -> str:
    last, n, width = steps[-1], climbs.n_layers, climbs.climbs[len(steps) - 1].width
    waiting = [row for row, depth in enumerate(last.depths) if depth < n]
    if not waiting and len(last.depths) == 1:
        return f"One row, alone in every call, has passed all {n} layers."
    if not waiting:
        wide = max(width, default=1)
        return f"All {len(last.depths)} rows have passed all {n} layers: the last climb took up to {wide} rows a call."
    rows = f"{len(waiting)} rows wait" if len(waiting) > 1 else "One row waits"
    return f"{rows} below layer {n}; deeper layers take them along, in calls that are made anyway."


# The ledger ----------------------------------------------------------------------------------------------------------


def ledger(climbs: Climbs, columns: Sequence[Column], judged: bool) -> tuple[Plot, str]:
    """Who paid and who earned, and what the round comes to in calls. Only the verdict tells who earned."""
    exits = tuple(column.exit_layer for column in columns if column.exit_layer is not None)
    if not judged or not columns:
        return _ledger((), (), "The verdict tells which drafts earned what they cost: not yet reached."), ""
    if len(columns) != len(exits) + 1:  # a recording that was cut off among the climbs
        return _ledger((), (), "The climb to the top is not recorded, so nobody earned anything here."), ""
    kept = sum(column.wrong is False for column in columns)
    cost, n = RoundCost(climbs.n_layers, exits, kept), climbs.n_layers
    plain = (kept + 1) * n
    saved = f"{abs(cost.saved_calls)} {'saved' if cost.saved_calls > 0 else 'more'}" if cost.saved_calls else "even"
    calls = f"{cost.layer_calls} layer calls for {plural(kept + 1, 'token')}, {plain} in plain decoding: {saved}"
    wasted = f"{cost.wasted_cells} of them for rejected rows" if cost.wasted_cells else "none wasted, none saved"
    cells = f"{cost.cells} cells of arithmetic, {plain} in plain decoding: {wasted}"
    return _ledger(columns, cost.entries(), words=f"{_ledger_words(cost, n)} {calls}; {cells}."), calls


def _ledger(columns: Sequence[Column], entries: Sequence[ClimbCost], missing: str = "", words: str = "") -> Plot:
    """Layer calls, a place a climb; the table ends with the round."""
    parts = [(entry.paid, entry.earned, entry.net) for entry in entries]
    most = max((max(part[:2]) for part in parts), default=1)
    rows = [
        (Cell(f"{column.glyph} {column.shown}", mark=column.mark), *_calls(part, most), Cell(_what(column)))
        for column, part in zip(columns, parts, strict=True)
    ]
    total = [sum(part[k] for part in parts) for k in range(3)]
    rows += [(Cell("round"), *_calls(total, None), Cell(""))] if rows else []
    looks: tuple[tuple[str, Mark], ...] = (("paid", "rejected"), ("earned", "accepted"), ("net", "root"))
    return Plot(
        "layers-ledger",
        LAYER_CALLS,
        "row",
        tuple(f"{column.row} {column.glyph} {column.shown}" for column in columns),
        tuple(PlotCurve(name, tuple(part[k] for part in parts), mark) for k, (name, mark) in enumerate(looks)),
        "count",
        help="A climb pays its exit layer in calls; a kept draft earns the calls of a token. Calls are time on one "
        "sequence. Cells are arithmetic, and are never saved.",
        words=words,
        missing=missing,
        table=TableBlock("layers-ledger", ("row", "paid", "earned", "net", ""), tuple(rows)),
    )


def _calls(part: Sequence[int], most: int | None) -> Iterator[Cell]:
    """Paid, earned and net; bars up to `most`."""
    paid, earned, net = part
    for calls, mark in ((paid, "recovered"), (earned, "bonus")):
        yield Cell(str(calls), calls, calls / most if most else None, mark)  # type: ignore[arg-type]
    yield Cell(signed(net), net, mark="bonus" if net > 0 else "rejected" if net < 0 else "untested")


def _what(column: Column) -> str:
    if column.exit_layer is None:
        return "to the top: target pass"
    return f"drafts {column.drafted or UNKNOWN} at layer {column.exit_layer}"


def _ledger_words(cost: RoundCost, n: int) -> str:
    lost = len(cost.exits) - cost.kept
    if not cost.exits:
        return f"Nothing was drafted: {n} calls for one token, as in plain decoding."
    if not lost:
        return f"Every draft was right: each paid its exit layer and earned the {n} calls of a token."
    drafts = "One draft earned" if lost == 1 else f"{lost} drafts earned"
    return f"{drafts} nothing: a rejected draft has paid its climb, and its cells were computed for nothing."


def signed(value: int) -> str:
    """`+5`, `−7`, `0`."""
    return f"+{value}" if value > 0 else f"{MINUS}{-value}" if value else "0"


# The gates -----------------------------------------------------------------------------------------------------------


_EXACT = 1 << 14


_Gates = tuple[int, set[int], dict[int, dict[float, int]], dict[int, int], dict[int, int]]


class GateTally:
    """What the tests of a run asked and found, by layer. Finished rounds are counted once."""

    def __init__(self) -> None:
        self._done = 0
        self._rounded: set[int] = set()  # layers with so many that they are counted by three digits
        self.asked: dict[int, Counter[float]] = {}  # raw confidences that were asked for, counted
        self.stops: dict[int, int] = {}
        self.wrong: dict[int, int] = {}

    def n_unread(self, rounds: Sequence[RoundRecord]) -> int:
        """Rounds not counted yet."""
        return len(rounds) - self._done

    def add(self, rounds: Sequence[RoundRecord], n_rounds: int | None = None) -> None:
        """Count the rounds that are complete and not yet counted, at most so many; only the last of a run may still
        become so."""
        stop = len(rounds) if n_rounds is None else min(len(rounds), self._done + n_rounds)
        while self._done < stop:
            record = rounds[self._done]
            if not record.complete and self._done == len(rounds) - 1:
                return
            self._next(record)

    def take(self, record: RoundRecord) -> None:
        """The next round, as it ended; another one is left to `add`."""
        if record.index == self._done:
            self._next(record)

    def kept(self) -> bytes:
        """As MessagePack."""
        return msgspec.msgpack.encode((self._done, self._rounded, self.asked, self.stops, self.wrong))

    def from_cache(self, data: bytes) -> None:
        """What was kept, in place of counting. Raises ValueError for something else."""
        done, rounded, asked, stops, wrong = msgspec.msgpack.decode(data, type=_Gates)
        self._done, self._rounded, self.stops, self.wrong = done, rounded, stops, wrong
        self.asked = {layer: Counter(counts) for layer, counts in asked.items()}

    def _next(self, record: RoundRecord) -> None:
        self._done += 1
        for gate in record.every(Gate) if record.complete else ():
            if not gate.observed_only:
                self._one(gate)

    def _one(self, gate: Gate) -> None:
        asked = self.asked.setdefault(gate.layer, Counter())
        asked[gate.raw_thr if gate.layer not in self._rounded else _three(gate.raw_thr)] += 1
        if len(asked) > _EXACT and gate.layer not in self._rounded:
            self._rounded.add(gate.layer)
            rounded: Counter[float] = Counter()
            for value, n in asked.items():
                rounded[_three(value)] += n
            self.asked[gate.layer] = rounded
        self.stops[gate.layer] = self.stops.get(gate.layer, 0) + gate.took
        self.wrong[gate.layer] = self.wrong.get(gate.layer, 0) + (gate.took and gate.agrees is False)


def _three(value: float) -> float:
    return float(f"{value:.3g}")


def _median(counts: Counter[float]) -> float | None:
    n = counts.total()
    if not n:
        return None
    middle, before = [], 0
    for value in sorted(counts):
        middle += [value] * sum(before <= place < before + counts[value] for place in {(n - 1) // 2, n // 2})
        before += counts[value]
    return sum(middle) / len(middle)


def gate_plot(setting: ExitSetting | None, tally: GateTally, words: str = "") -> Plot | None:
    """What the test of every layer asks; the last layer has none. `words`: in place of those about the thresholds."""
    if setting is None:
        return None
    n, alpha, tau = setting.n_layers, setting.alpha or 0.0, setting.tau
    layers = range(1, n)
    temps = [annealed(alpha, layer, n) for layer in layers]
    asked = tuple(None if tau is None else one_rival(tau, temp) for temp in temps)
    met = tuple(_median(tally.asked.get(layer, Counter[float]())) for layer in layers)
    counts = [
        (tally.asked.get(layer, Counter[float]()).total(), tally.stops.get(layer, 0), tally.wrong.get(layer, 0))
        for layer in layers
    ]
    curves = [PlotCurve("asks, one rival", asked, "accepted", "line"), PlotCurve("asks, as met", met, "exit", "dots")]
    if tau is not None and tau <= 1:
        curves.append(PlotCurve("τ", (tau,) * len(layers), "rejected", "line"))
    heads = ("layer", "tested", "T", "asks, one rival", "asks, as met", "tests", "stops", "wrong")
    rows = tuple(
        (
            Cell(f"L{layer}", layer, mark="exit" if layer in setting.layers else None),
            Cell("yes" if layer in setting.layers else "", layer in setting.layers),
            Cell(number(temps[k]), temps[k]),
            Cell(prob(asked[k]), asked[k], asked[k], "exit" if layer in setting.layers else "untested"),
            Cell(prob(met[k]), met[k]),
            *(Cell(str(count) if any(counts[k]) else "", count) for count in counts[k]),
        )
        for k, layer in enumerate(layers)
    )
    words = words or _gate_words(setting, temps, asked, met)
    return Plot(
        "layers-gates",
        "What a test asks",
        "layer",
        tuple(layers),
        tuple(curves),
        "share",
        help="Annealing softens the logits of shallow layers: the same τ asks for a higher raw confidence there.",
        words=words,
        notes=tuple(f"T {number(temp)}{', tested' * (k + 1 in setting.layers)}" for k, temp in enumerate(temps)),
        table=TableBlock("layers-gates", heads, rows, words=words),
    )


def _gate_words(
    setting: ExitSetting, temps: Sequence[float], asked: Sequence[float | None], met: Sequence[float | None]
) -> str:
    if setting.tau is None or not setting.layers:
        return "No layer has a test: every row climbs to the top."
    if setting.tau > 1:
        return f"τ {number(setting.tau)} is above 1, so no row ever stops."
    if not setting.alpha:
        return f"α 0: every layer is asked for a raw confidence of {prob(setting.tau)}, deep or shallow."
    low = setting.layers[0]
    raw = met[low - 1] if met[low - 1] is not None else asked[low - 1]
    return (
        f"At layer {low} the logits are softened by T {number(temps[low - 1])}: conf ≥ τ {prob(setting.tau)} asks for "
        f"a raw confidence of about {prob(raw)}, more where many tokens share what is left."
    )


# Time ----------------------------------------------------------------------------------------------------------------


def timing(record: RoundRecord) -> str:
    """Predicted from measured layers, beside what the draft and target stages took."""
    times = _times(record)
    if times is None:
        return ""
    predicted, measured = times
    if predicted is None or not measured:
        return f"measured {duration(measured)}, no prediction in this trace"
    return f"predicted {fine_ms(predicted)}, measured {fine_ms(measured)} ({growth(measured / predicted)})"


def _times(record: RoundRecord) -> tuple[int | None, int | None] | None:
    """Predicted and measured time of a round in ns, without verdict and commit."""
    costs = record.every(ExitRound)
    if not costs or record.end is None:
        return None
    stages: Mapping[str, int] = record.end.stage_ns
    return costs[-1].predicted_ns, stages.get("draft", 0) + stages.get("target", 0) or None


def spent(record: RoundRecord) -> str:
    """The costs of a round whose rows left no climbs."""
    costs = record.every(ExitRound)
    if not costs or record.end is None:
        return ""
    cost = costs[-1]
    saved = f"{abs(cost.saved_calls)} {'fewer' if cost.saved_calls > 0 else 'more'} than plain decoding"
    lost = f", {cost.wasted_cells} of {cost.cells} cells for rejected rows" if cost.wasted_cells else ""
    return f"\nThis round: {cost.layer_calls} layer calls for {plural(record.end.n_emitted, 'token')}, {saved}{lost}."


def fine_ms(ns: int) -> str:
    """`9.6 ms`: with a digit more than `duration`."""
    return f"{ns / 1e6:.1f} ms" if 1e6 <= ns < 1e8 else duration(ns)


@dataclass(frozen=True, slots=True)
class WrongExit:
    """A row that stopped, and whose draft was not what the target chose."""

    index: int
    round: int
    node: int  # the row's own token; -1 the root
    layer: int
    after: str
    drafted: str
    chosen: str
    conf: float | None  # the head's own, raw
    cost: int  # layer calls that bought nothing: its climb, and those of the drafts behind it


def run_blocks(run: Run) -> tuple[Plot, Words, Words, TableBlock]:
    """The times and the wrong exits of all rounds that have ended, with what they say."""
    rounds: list[tuple[RoundRecord, float, float]] = []
    wrong: list[WrongExit] = []
    n_exits = 0
    for record in run.rounds:
        if record.complete:
            predicted, measured = _times(record) or (None, None)
            rounds += [(record, predicted / 1e6, measured / 1e6)] if predicted is not None and measured else []
            wrong += _wrong_exits(run, record)
            n_exits += sum(climb.exit_layer is not None for climb in record.every(LayerTrace))
    words = _times_words([times for _, *times in rounds])
    curves = (
        PlotCurve("measured", tuple(measured for *_, measured in rounds), "accepted", "dots"),
        PlotCurve("predicted", tuple(predicted for _, predicted, _ in rounds), "untested", "line"),
    )
    times = Plot(
        "layers-times",
        "Predicted and measured",
        "round",
        tuple(record.r for record, *_ in rounds),
        curves,
        "ms",
        help="round time from the measured cost of a layer by width and of a head; verdict and commit are left out "
        "of both",
        words=words,
        missing="" if rounds else "no round of this run was predicted: the measured cost of a layer is not on record",
        notes=tuple(f"{record.every(ExitRound)[-1].n_rows} rows" for record, *_ in rounds),
        places=tuple(Destination(record.index) for record, *_ in rounds),
    )
    return times, Words(words or times.missing), Words(_wrong_words(wrong, n_exits)), _wrong_table(wrong)


def _wrong_table(wrong: Sequence[WrongExit]) -> TableBlock:
    return TableBlock(
        "layers-wrong",
        ("round", "after", "drafted", "target chose", "layer", "sure", "calls lost"),
        tuple(
            (
                Cell(str(w.round), w.round),
                *map(Cell, (w.after, w.drafted, w.chosen)),
                Cell(str(w.layer), w.layer),
                Cell(prob(w.conf), w.conf),
                Cell(str(w.cost), w.cost),
            )
            for w in wrong
        ),
        "Wrong exits",
        help="a line leads there",
        missing="" if wrong else "none",
        places=tuple(Destination(w.index, w.node) for w in wrong),
    )


def _times_words(times: Sequence[Sequence[float]]) -> str:
    if not times:
        return ""
    predicted, measured = (sum(column) for column in zip(*times, strict=True))
    gap = measured / predicted - 1 if predicted else 0.0
    return (
        f"{len(times)} rounds took {number(measured)} ms, {number(predicted)} were predicted from the measured cost of "
        f"layers and heads: {'+' if gap >= 0 else '−'}{number(abs(gap) * 100, 0)} %."
    )


def _wrong_exits(run: Run, record: RoundRecord) -> list[WrongExit]:
    """The first wrong draft of a round ends it: what was drafted behind it was paid for nothing as well."""
    climbs = {climb.row: climb for climb in record.every(LayerTrace)}
    lost = [v.node for v in record.verdicts.values() if v.status == "rejected" and v.node in record.nodes]
    out = []
    for node in lost[:1]:
        rank = sorted(record.nodes).index(node)  # draft k came of row k
        climb = climbs.get(rank)
        if climb is None or climb.exit_layer is None or record.closing is None or record.closing.token is None:
            continue
        behind = sum(c.exit_layer or 0 for row, c in climbs.items() if row > rank and not c.terminal)
        parent = record.nodes[node].parent
        out.append(
            WrongExit(
                record.index,
                record.r,
                parent if parent in record.nodes else -1,
                climb.exit_layer,
                run.word(climb.token),
                run.word(record.nodes[node].token),
                run.word(record.closing.token),
                climb.raw_conf,
                climb.exit_layer + behind,
            )
        )
    return out


def _wrong_words(wrong: Sequence[WrongExit], n_exits: int) -> str:
    if not n_exits:
        return "No row stopped early in this run."
    if not wrong:
        return f"None of {n_exits} exits was found wrong."
    lost = sum(exit.cost for exit in wrong)
    return f"{len(wrong)} of {n_exits} exits were wrong; they and what was drafted behind them took {lost} layer calls."
