"""What some kinds of method leave besides counts: pipelined drafters, early exits, and a run on the modelled clock.

The tokens of a pipelined drafter (SpecBranch, PEARL) are settled in a later round than they were born in, so nothing
about them can be read off the counts of one round. Everything about them needs level `summary`.

On the modelled clock rounds are played with the costs that were measured beside the run (`calibration`). A number
of it is never put together with a measured time: it says what the pipeline would have taken had its two lanes run
beside each other, whatever lanes the machine really had.
"""

from collections import Counter
from fractions import Fraction

import msgspec

from specviz.cost.model_clock import Rates, TimingTally, facts_of
from specviz.events import (
    Calibration,
    DraftStep,
    ExitRound,
    Fork,
    Header,
    LayerTrace,
    Match,
    Posterior,
    RoundEnd,
    Settle,
    Signal,
    TokenFate,
)
from specviz.metrics.estimate import Median, Ratio
from specviz.runlog.run import RoundRecord


class PathCounts(msgspec.Struct):
    """Drafted positions of a round on one path and those of them thrown away; settled cells, and those not kept."""

    path: int = 0
    path_void: int = 0
    cells: int = 0
    cells_void: int = 0


class Pipeline:
    """Give it every finished round in order."""

    def __init__(self) -> None:
        self.active = False  # whether the run is a pipelined one
        self.matches: Counter[tuple[int, bool]] = Counter()  # by branches forked, and whether one was hit
        self.masses = Ratio()
        self.confusion: dict[int, Counter[int]] = {}  # predicted -> true
        self.wasted_ns = 0
        self._n_masses = 0

    def begin(self, header: Header) -> None:
        self.active = header.method_traits.pipelined

    def take(self, record: RoundRecord, end: RoundEnd) -> PathCounts | None:
        """What the round adds; None where every draft is settled by its own round."""
        forks, settles = record.every(Fork), record.every(Settle)
        self.active = self.active or bool(forks or settles)
        if not self.active:
            return None
        fates = Counter(fate for settle in settles for _, fate in settle.fates)
        self.wasted_ns += sum(settle.wasted_ns for settle in settles)
        for match in record.every(Match):
            if forks and forks[0].k:
                self.matches[forks[0].k, match.branch is not None] += 1
            if match.mass is not None:
                self._n_masses += 1
                self.masses.add(self._n_masses, match.q, Fraction(match.mass), 1)
        self._judge_signal(record, fates, end)
        length = len({node.pos for node in record.nodes.values() if node.branch is not None})
        void = fates["rejected"] + fates["orphaned"] + (length if fates["branch_void"] else 0)
        path = _n_trunk(record) + length
        settled = sum(fates.values())
        return PathCounts(path, void, settled, settled - fates["accepted"])

    def _judge_signal(self, record: RoundRecord, fates: Counter[TokenFate], end: RoundEnd) -> None:
        """What the classifier should have said, where the verdict tells.

        A rejection does, wherever it falls: none or some of the draft was worth keeping. All kept and accepted says
        `all`, but only if the signal had cut nothing off. Nothing kept leaves the question open.
        """
        signal = next((signal for signal in record.every(Signal) if signal.source == "hrad"), None)
        if signal is None:
            return
        posteriors = record.every(Posterior)
        n_kept = posteriors[0].n_kept if posteriors else _n_trunk(record)
        cut = any(posterior.n_trimmed for posterior in posteriors)
        cut = cut or any(step.stopped for step in record.every(DraftStep) if step.branch is None)
        if fates["rejected"]:
            true = 1 if end.n_accepted else 0
        elif n_kept and not cut and not fates["unverified_at_end"]:
            true = 2
        else:
            return
        self.confusion.setdefault(signal.s, Counter())[true] += 1


def _n_trunk(record: RoundRecord) -> int:
    """Tokens drafted on the one path before branches."""
    return sum(node.branch is None for node in record.nodes.values())


class Modelled(msgspec.Struct, kw_only=True, frozen=True):
    """`t_s`, `c`, `kappa_q`, `kappa_p`, `hrad_s` are the costs it rests on; the rest as the metrics of those names."""

    t_s: float
    c: float
    kappa_q: float
    kappa_p: float
    hrad_s: float
    elapsed_s: float
    speedup: float | None
    overlap_efficiency: float | None
    bubble_target: float | None
    bubble_draft: float | None
    wasted_draft_s: float


class ModelledTally:
    """Give it every finished round in order."""

    def __init__(self) -> None:
        self.calibration: Calibration | None = None
        self.timing = TimingTally()
        self.hrad_ns = Median()
        self._query = -1

    def take(self, record: RoundRecord) -> None:
        """Count a round, if this clock knows such."""
        for signal in record.every(Signal):
            if signal.source == "hrad":
                self.hrad_ns.add(signal.dur_ns)
        facts = facts_of(record)
        if facts is None:
            return
        if record.q != self._query:  # node ids restart with the query: unsettled tokens are dropped
            self._query = record.q
            self.timing.forget()
        self.timing.add(facts)

    def summary(self) -> Modelled | None:
        """None without measured costs, or without rounds this clock knows."""
        costs = self.calibration
        if costs is None or not costs.has_rows or not self.timing.n:
            return None
        took = self.hrad_ns.estimate()
        return modelled(self.timing, Rates.of(costs, took.value / 1e9 if took is not None else 0.0))


def modelled(rounds: TimingTally, rates: Rates) -> Modelled:
    """The block for these rounds at these costs."""
    timing = rounds.timing(rates)
    return Modelled(
        t_s=rates.t,
        c=rates.c,
        kappa_q=rates.kappa_q,
        kappa_p=rates.kappa_p,
        hrad_s=rates.hrad,
        elapsed_s=timing.elapsed,
        speedup=timing.speedup,
        overlap_efficiency=timing.overlap_efficiency,
        bubble_target=timing.bubble_target,
        bubble_draft=timing.bubble_draft,
        wasted_draft_s=timing.wasted,
    )


class Exits(msgspec.Struct):
    """One round. `stops`: rows that stopped; `judged`: those whose draft the target was asked about."""

    layer_calls: int = 0
    cells: int = 0
    head_tests: int = 0
    rows: int = 0
    stops: int = 0
    depth: int = 0  # layers of the stops, added up
    judged: int = 0
    right: int = 0


class ExitTally:
    """Give it every finished round in order.

    Rounds without an `exit_round` record cost the whole target once if nothing but the target ran in the run; with a
    draft model or a block drafter beside it such a count would say nothing, and is left out.
    """

    def __init__(self) -> None:
        self.counted = False  # whether layer calls are known of every round
        self._n_layers: int | None = None

    def begin(self, header: Header) -> None:
        target, draft = header.models.target, header.models.draft
        self._n_layers = target.n_layers if target is not None and draft is None else None
        self.counted = self._n_layers is not None

    def take(self, record: RoundRecord) -> Exits:
        if record.tree is not None:  # a separate drafter ran
            self.counted, self._n_layers = False, None
        cost = record.first(ExitRound)
        committed = record.commit.tokens if record.commit is not None else []
        out = Exits()
        if cost is not None:
            self.counted = True
            out.layer_calls, out.cells, out.head_tests = cost.layer_calls, cost.cells, cost.head_tests
        elif self._n_layers is not None:
            rows = 1 + sum(node.fed for node in record.nodes.values() if node.kept)
            out.layer_calls, out.cells = self._n_layers, self._n_layers * rows
        for climb in record.every(LayerTrace):
            out.rows += 1
            if climb.exit_layer is None:
                continue
            out.stops, out.depth = out.stops + 1, out.depth + climb.exit_layer
            if climb.row < len(committed):
                out.judged, out.right = out.judged + 1, out.right + (climb.draft_token == committed[climb.row])
        return out
