"""Early exits over a whole run, as lists: predicted and measured time of every round, and every exit that was wrong."""

from dataclasses import dataclass

from specviz.events import Climb, ExitRound
from specviz.runlog.fold import Run
from specviz.runlog.run import RoundRecord
from specviz.view.panels.exits.parts import timing
from specviz.view.words.numbers import number


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
            times += [point for point in (_time(record),) if point is not None]
            wrong += _wrong(run, record)
            n_exits += sum(climb.exit_layer is not None for climb in record.every(Climb))
    return ExitRun(tuple(times), _times_words(tuple(times)), tuple(wrong), _wrong_words(tuple(wrong), n_exits))


def _time(record: RoundRecord) -> TimePoint | None:
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


def _wrong(run: Run, record: RoundRecord) -> list[WrongExit]:
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
