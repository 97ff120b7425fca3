"""Staircase, ledger, gates and times of a round; over the run, predicted and measured times and the wrong exits."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from specviz.cost.exit_replay import annealed, one_rival
from specviz.cost.exit_setting import ExitSetting
from specviz.cost.ledger import RoundCost
from specviz.events import Climb, ExitRound, Gate
from specviz.runlog.fold import Run
from specviz.runlog.run import RoundRecord
from specviz.view.panels.exits.climbs import Climbs
from specviz.view.panels.exits.model import (
    ClimbEntry,
    Column,
    GateCurve,
    GateLayer,
    Ledger,
    PendingStairs,
    RoundTimes,
    StairStep,
)
from specviz.view.words.numbers import MINUS, UNKNOWN, duration, growth, number, plural, prob


def stairs(climbs: Climbs, columns: Sequence[Column]) -> PendingStairs | None:
    """The staircase after every climb that is shown."""
    steps = tuple(_step(climbs, columns, climb) for climb in climbs.climbs[: len(columns)])
    return PendingStairs(steps, climbs.n_layers, _stair_words(climbs, steps)) if steps else None


def _step(climbs: Climbs, columns: Sequence[Column], climb: Climb) -> StairStep:
    first = climbs.first
    depths = tuple(sum(fill > first + row for fill in climb.fill_after) for row in range(climb.row + 1))
    along = sorted({row for (row, _), how in climbs.computed.items() if how[1] == climb.row and row != climb.row})
    text = "to the top" if climb.exit_layer is None else f"stops at {climb.exit_layer}"
    return StairStep(
        climb.row, columns[climb.row].shown, text, depths, tuple(climb.width), climb.layer_from, tuple(along)
    )


def _stair_words(climbs: Climbs, steps: Sequence[StairStep]) -> str:
    last, n = steps[-1], climbs.n_layers
    waiting = [row for row, depth in enumerate(last.depths) if depth < n]
    if not waiting and len(last.depths) == 1:
        return f"One row, alone in every call, has passed all {n} layers."
    if not waiting:
        wide = max(last.widths, default=1)
        return f"All {len(last.depths)} rows have passed all {n} layers: the last climb took up to {wide} rows a call."
    rows = f"{len(waiting)} rows wait" if len(waiting) > 1 else "One row waits"
    return f"{rows} below layer {n}; deeper layers take them along, in calls that are made anyway."


# The ledger ----------------------------------------------------------------------------------------------------------


def ledger(climbs: Climbs, columns: Sequence[Column], judged: bool) -> Ledger:
    """Who paid and who earned. Only the verdict tells who earned."""
    if not judged or not columns:
        return Ledger((), 0, 0, 0, "", "", "", "The verdict tells which drafts earned what they cost: not yet reached.")
    exits = tuple(column.exit_layer for column in columns if column.exit_layer is not None)
    if len(columns) != len(exits) + 1:  # a recording that was cut off among the climbs
        return Ledger((), 0, 0, 0, "", "", "", "The climb to the top is not recorded, so nobody earned anything here.")
    kept = sum(column.wrong is False for column in columns)
    cost, n = RoundCost(climbs.n_layers, exits, kept), climbs.n_layers
    entries = tuple(
        ClimbEntry(
            column.row,
            column.shown,
            column.mark,
            column.glyph,
            _what(column),
            entry.paid,
            entry.earned,
            entry.net,
            signed(entry.net),
        )
        for column, entry in zip(columns, cost.entries(), strict=True)
    )
    plain = (kept + 1) * n
    saved = f"{abs(cost.saved_calls)} {'saved' if cost.saved_calls > 0 else 'more'}" if cost.saved_calls else "even"
    calls = f"{cost.layer_calls} layer calls for {plural(kept + 1, 'token')}, {plain} in plain decoding: {saved}"
    wasted = f"{cost.wasted_cells} of them for rejected rows" if cost.wasted_cells else "none wasted, none saved"
    cells = f"{cost.cells} cells of arithmetic, {plain} in plain decoding: {wasted}"
    paid, earned = sum(entry.paid for entry in entries), sum(entry.earned for entry in entries)
    return Ledger(entries, paid, earned, cost.saved_calls, calls, cells, _ledger_words(cost, n))


def _what(column: Column) -> str:
    if column.exit_layer is None:
        return "climbs to the top: the target pass"
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

    def behind(self, rounds: Sequence[RoundRecord]) -> int:
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

    def restore(self, data: bytes) -> None:
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
    found, before = [], 0
    for value in sorted(counts):
        found += [value] * sum(before <= place < before + counts[value] for place in {(n - 1) // 2, n // 2})
        before += counts[value]
    return sum(found) / len(found)


def gate_curve(setting: ExitSetting | None, tally: GateTally) -> GateCurve | None:
    """Temperature and threshold of every layer but the last, which has no test."""
    if setting is None:
        return None
    n, alpha, tau = setting.n_layers, setting.alpha or 0.0, setting.tau
    found = []
    for layer in range(1, n):
        temp, asked = annealed(alpha, layer, n), tally.asked.get(layer, Counter[float]())
        found.append(
            GateLayer(
                layer,
                temp,
                None if tau is None else one_rival(tau, temp),
                _median(asked),
                asked.total(),
                tally.stops.get(layer, 0),
                tally.wrong.get(layer, 0),
                layer in setting.layers,
            )
        )
    return GateCurve(tuple(found), tau, setting.alpha, _gate_words(found, setting))


def _gate_words(found: Sequence[GateLayer], setting: ExitSetting) -> str:
    if setting.tau is None or not setting.layers:
        return "No layer has a test: every row climbs to the top."
    if setting.tau > 1:
        return f"τ {number(setting.tau)} is above 1, so no row ever stops."
    if not setting.alpha:
        return f"α 0: every layer is asked for a raw confidence of {prob(setting.tau)}, deep or shallow."
    low = next(gate for gate in found if gate.layer == setting.layers[0])
    asked = low.raw_thr if low.raw_thr is not None else low.one_rival
    return (
        f"At layer {low.layer} the logits are softened by T {number(low.temp)}: conf ≥ τ {prob(setting.tau)} asks for "
        f"a raw confidence of about {prob(asked)}, more where many tokens share what is left."
    )


# Time ----------------------------------------------------------------------------------------------------------------


def timing(record: RoundRecord) -> RoundTimes | None:
    """Predicted from measured layers, beside what the draft and target stages took."""
    costs = record.every(ExitRound)
    if not costs or record.end is None:
        return None
    stages: Mapping[str, int] = record.end.stage_ns
    measured = stages.get("draft", 0) + stages.get("target", 0)
    predicted = costs[-1].predicted_ns
    if predicted is None or not measured:
        return RoundTimes(
            predicted, measured or None, f"measured {duration(measured or None)}, no prediction in this trace"
        )
    more = growth(measured / predicted)
    return RoundTimes(predicted, measured, f"predicted {fine_ms(predicted)}, measured {fine_ms(measured)} ({more})")


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
class TimePoint:
    """A round on the clock. `index` counts over the run."""

    index: int
    round: int
    n_rows: int
    predicted_ms: float
    measured_ms: float
    text: str


@dataclass(frozen=True, slots=True)
class WrongExit:
    """A row that stopped, and whose draft was not what the target chose."""

    index: int
    round: int
    row: int
    node: int  # the row's own token; -1 the root
    layer: int
    after: str
    drafted: str
    chosen: str
    conf: float | None  # the head's own, raw
    cost: int  # layer calls that bought nothing: its climb, and those of the drafts behind it


@dataclass(frozen=True, slots=True)
class ExitRun:
    """Both lists, and what they say."""

    times: tuple[TimePoint, ...]
    times_words: str
    wrong: tuple[WrongExit, ...]
    wrong_words: str


def exit_run(run: Run) -> ExitRun:
    """The lists of all rounds that have ended."""
    times: list[TimePoint] = []
    wrong: list[WrongExit] = []
    n_exits = 0
    for record in run.rounds:
        if record.complete:
            times += [point for point in (_time_point(record),) if point is not None]
            wrong += _wrong_exits(run, record)
            n_exits += sum(climb.exit_layer is not None for climb in record.every(Climb))
    return ExitRun(tuple(times), _times_words(tuple(times)), tuple(wrong), _wrong_words(tuple(wrong), n_exits))


def _time_point(record: RoundRecord) -> TimePoint | None:
    found, costs = timing(record), record.every(ExitRound)
    if found is None or found.predicted_ns is None or found.measured_ns is None or not costs:
        return None
    return TimePoint(
        record.index, record.r, costs[-1].n_rows, found.predicted_ns / 1e6, found.measured_ns / 1e6, found.text
    )


def _times_words(times: tuple[TimePoint, ...]) -> str:
    if not times:
        return ""
    predicted, measured = sum(p.predicted_ms for p in times), sum(p.measured_ms for p in times)
    gap = measured / predicted - 1 if predicted else 0.0
    return (
        f"{len(times)} rounds took {number(measured)} ms, {number(predicted)} were predicted from the measured cost of "
        f"layers and heads: {'+' if gap >= 0 else '−'}{number(abs(gap) * 100, 0)} %."
    )


def _wrong_exits(run: Run, record: RoundRecord) -> list[WrongExit]:
    """The first wrong draft of a round ends it: what was drafted behind it was paid for nothing as well."""
    climbs = {climb.row: climb for climb in record.every(Climb)}
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
                rank,
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


def _wrong_words(wrong: tuple[WrongExit, ...], n_exits: int) -> str:
    if not n_exits:
        return "No row stopped early in this run."
    if not wrong:
        return f"None of {n_exits} exits was found wrong."
    lost = sum(found.cost for found in wrong)
    return f"{len(wrong)} of {n_exits} exits were wrong; they and what was drafted behind them took {lost} layer calls."
