"""How many times as fast as plain decoding a run was, from the run alone: tokens a second beside those of plain rounds.

Contract 6 defines `speedup` over a run of plain decoding with the same model. Such a run is seldom at hand; what one
plain round takes often is on record. In the order of trust:

* `timed`: passes of plain decoding that were timed by the wall between the rounds of this very run. A plain round
  counts as such a pass alone, so the speed-up is a little too small.
* `rounds`: rounds of this very run in which nothing was drafted and one token was written are plain decoding.
* `behind`: such passes timed right behind the text, where too few lie between the rounds.
* `pass`: a pass over one row timed alone, once in a process (`calibration`).
* `stage`: nothing was timed; a plain pass counts like the target's passes of the run, less what their rows may cost by
  rule of thumb (`cost.row_cost`). Modelled, and a range.
* `layers`: layers of a whole pass / layers that ran for a token, for a target that stops early. Modelled.

A measured pass counts only where the run's own passes, taken to one row, took as long: other programs beside the run
and not beside the timing, or the other way round, make any ratio of the two. Where they part by more than `APART`
nobody can tell (`agrees`); where they part by less the interval takes both in.

Where exact rows need padding, plain decoding without it is faster (`calibration.plain_ns`): that is the base, and
`price` says how many times as long an exact pass over one row takes. Time spent on recording is left out on both sides.
"""

import math
from collections import defaultdict
from collections.abc import Callable
from statistics import median
from typing import Literal

import msgspec

from specviz.cost.ledger import between
from specviz.cost.row_cost import row_cost
from specviz.events import Calibration, ExitRound, Header, LayerTrace, ModelInfo, RoundEnd
from specviz.metrics.estimate import Estimate, Median, Moments, settled
from specviz.runlog.run import RoundRecord

Basis = Literal["timed", "rounds", "behind", "pass", "stage", "layers"]
Ends = tuple[float, float]
MEASURED: tuple[Basis, ...] = ("timed", "rounds", "behind", "pass")
LEAST_PLAIN = 8  # plain rounds from which on their median counts
LEAST_ROUNDS = 2  # before there is a spread
LEAST_TIMED = 3  # passes of plain decoding from which on their median counts
APART = 1.25  # times: as far as a drafter's weights in the cache take passes of a quiet machine from those timed alone
BESIDE = 2.0  # the same where a drafter works beside the pass and takes half of the memory's speed


class PlainSpeed(msgspec.Struct, frozen=True, kw_only=True):
    """`times`: as fast as plain decoding. `plain_ms`: a plain pass or round, as measured; where it
    is modelled, the least that it may take, and `own_ms` the most. `own_ms`: a pass over one row
    by the run's own passes; with `agrees` false these two part, and `times` means nothing. `alone_ms`: such a pass
    timed alone, `age_s`: how long before the record of it; null where it is not known, or nothing was timed.
    `slower`: times as long as timed alone a pass took in the run, by passes of plain decoding beside it; else null."""

    times: Estimate
    basis: Basis
    plain_ms: float | None = None
    own_ms: float | None = None
    alone_ms: float | None = None
    agrees: bool = True
    price: float | None = None
    age_s: float | None = None
    slower: float | None = None

    @property
    def measured(self) -> bool:
        """Whether what a plain round takes was measured on this machine, not modelled."""
        return self.basis in MEASURED

    @property
    def trusted(self) -> Estimate | None:
        """The number where it may be shown and judged by; None where it cannot be told."""
        return self.times if self.agrees and self.times.n >= LEAST_ROUNDS else None

    @property
    def costs_hold(self) -> bool:
        """Whether it is known what passes timed alone take in the run, so that times of both may be added."""
        return (
            self.slower is not None
            or self.own_ms is None
            or self.alone_ms is None
            or 1 / APART <= self.own_ms / self.alone_ms <= APART
        )


class PlainTally:
    """Give it every finished round in order."""

    def __init__(self) -> None:
        self.target: ModelInfo | None = None
        self.climbs = self.overlapped = False  # the target's own layers draft; a drafter works beside its passes
        self.rate = Moments()  # tokens / ns, recording left out
        self.slowest = (0, 0)  # nanoseconds and tokens of the round that took longest
        self.timed_ns = Median()  # passes of plain decoding between the rounds
        self.plain_ns, self.plain_pass_ns = Median(), Median()  # of rounds that were plain decoding, and their passes
        self.plain_sum_ns = 0  # of these rounds
        self.pass_ns: defaultdict[int, Median] = defaultdict(Median)  # the target's stage of the others, by rows
        self.call_ns = Median()  # a layer call, where those draft: the target's stage is no whole pass there
        self.calls = self.tests = 0  # of layers and heads there

    def begin(self, header: Header) -> None:
        """Note the header of the run."""
        self.target, self.overlapped = header.models.target, header.lanes != "serial"
        self.climbs = header.method_traits.exits != "none"

    def merge(self, other: "PlainTally") -> None:
        """Add what another counted of other rounds."""
        self.target, self.overlapped = other.target, self.overlapped or other.overlapped
        self.climbs = self.climbs or other.climbs
        self.calls, self.tests = self.calls + other.calls, self.tests + other.tests
        self.rate.merge(other.rate)
        self.slowest = max(self.slowest, other.slowest)
        self.timed_ns.merge(other.timed_ns)
        self.plain_ns.merge(other.plain_ns)
        self.plain_sum_ns += other.plain_sum_ns
        self.plain_pass_ns.merge(other.plain_pass_ns)
        self.call_ns.merge(other.call_ns)
        for rows, took in other.pass_ns.items():
            self.pass_ns[rows].merge(took)

    def take(self, record: RoundRecord, end: RoundEnd, ns: int) -> None:
        """Count a round that took `ns`; one that nobody timed says nothing of speed."""
        if not ns and not end.stage_ns:
            return
        took = max(1, ns - end.probe_ns)
        self.rate.add(end.n_emitted, took)
        self.slowest = max(self.slowest, (took, end.n_emitted))
        if end.plain_ns:
            self.timed_ns.add(end.plain_ns)
        draft, target = end.stage_ns.get("draft", 0), end.stage_ns.get("target", 0)
        exits = record.first(ExitRound)
        self.climbs = self.climbs or exits is not None or LayerTrace in record.by_kind
        if self.climbs:
            if exits is not None and exits.layer_calls:
                self.call_ns.add((draft + target) // exits.layer_calls)
                self.calls, self.tests = self.calls + exits.layer_calls, self.tests + exits.head_tests
        elif end.n_drafted or end.n_draft_calls or record.nodes or end.n_emitted != 1:
            if target:
                self.pass_ns[_rows(record, end)].add(target)
        else:
            self.plain_ns.add(max(1, took - draft))
            self.plain_sum_ns += max(1, took - draft)
            self.plain_pass_ns.add(target)

    def speed(self, costs: Calibration | None, layers: Estimate | None) -> PlainSpeed | None:
        """`costs`: passes of the target timed alone; `layers`: the share of a whole pass's layers that ran for a
        token, where that is known. None where nothing tells what plain decoding takes."""
        if not self.rate.n:
            return None
        behind = costs.behind_ns if costs is not None else []
        if costs is not None and (costs.widths[:1] != [1] or len(costs.target_ns) != len(costs.widths)):
            costs = None  # it says nothing of one row
        if self.timed_ns.n >= LEAST_TIMED:
            return self._timed(costs)
        own, plain, of_pass = self._own(costs), self.plain_ns.estimate(), self.plain_pass_ns.estimate()
        if plain is not None and of_pass is not None and self.plain_ns.n >= LEAST_PLAIN:
            return self._measured("rounds", plain.value, of_pass.value, own, costs)
        if len(behind) >= LEAST_TIMED:
            alone = median(behind) * _price(costs)
            speed = self._measured("behind", alone, alone, own, costs)
            slower = alone / costs.target_ns[0] if costs is not None and speed.agrees else None
            return msgspec.structs.replace(speed, slower=slower)
        if costs is not None:
            own = (of_pass.value, of_pass.value) if own is None and of_pass is not None else own
            return self._measured("pass", costs.target_ns[0], costs.target_ns[0], own, costs)
        if self.climbs:
            return PlainSpeed(times=_inverse(layers), basis="layers") if layers is not None and layers.value else None
        if own is None or not own[0]:
            return None
        times = self._times(own, math.sqrt(own[0] * own[1]))
        return PlainSpeed(times=times, basis="stage", plain_ms=own[0] / 1e6, own_ms=own[1] / 1e6)

    def _timed(self, costs: Calibration | None) -> PlainSpeed:
        """Beside passes of the same minutes, which other programs slow down as they do the rounds."""
        plain, ends, own = self.timed_ns.estimate(), self.timed_ns.interval(), self._own(costs)
        assert plain is not None
        return PlainSpeed(
            times=self._times(ends, plain.value),
            basis="timed",
            plain_ms=plain.value / 1e6,
            own_ms=own[1] / 1e6 if own is not None else None,
            price=_price(costs) if costs is not None and costs.plain_ns else None,
            slower=plain.value * _price(costs) / costs.target_ns[0] if costs is not None else None,
            alone_ms=costs.target_ns[0] / 1e6 if costs is not None else None,
            age_s=costs.age_s if costs is not None else None,
        )

    def _measured(
        self, basis: Basis, plain: float, of_pass: float, own: Ends | None, costs: Calibration | None
    ) -> PlainSpeed:
        """Beside plain rounds of `plain` ns whose passes take `of_pass`; `own`: what the run's passes say of those."""
        near = of_pass if own is None or not of_pass else min(max(of_pass, own[0]), own[1])
        slower = BESIDE if self.overlapped else APART
        price = _price(costs) if costs is not None and costs.plain_ns else None
        base = plain / (price or 1.0)
        widened = basis in ("behind", "pass") and (near < of_pass or not self.overlapped)
        other = base * near / of_pass if widened else base
        if basis == "rounds":  # the rounds beside them are added up, of which a few slow ones take a large part
            other = self.plain_sum_ns / self.plain_ns.n / (price or 1.0)
        return PlainSpeed(
            times=self._times((min(base, other), max(base, other)), base),
            basis=basis,
            plain_ms=plain / 1e6,
            own_ms=None if own is None else (near if basis != "rounds" else own[1]) / 1e6,
            agrees=of_pass / APART <= near <= of_pass * slower,
            price=price,
            alone_ms=costs.target_ns[0] / 1e6 if costs is not None else None,
            age_s=costs.age_s if costs is not None else None,
        )

    def _times(self, ends: Ends, plain_ns: float) -> Estimate:
        """Tokens a second beside one in `plain_ns`, which lies between `ends`. The interval takes in what the run is
        without its slowest round: where the machine stood still in that one, no spread of the others tells it."""
        over = self.rate
        rate = settled(float(over.top / over.bottom), over.interval(), over.n, over.counting)
        if rate.interval is None and ends[0] == ends[1]:
            return Estimate(value=rate.value * plain_ns, n=rate.n, unknown=rate.unknown)
        low, high = rate.interval or (rate.value, rate.value)
        ns, tokens = self.slowest
        if rate.interval is not None:
            high = max(high, float((over.top - tokens) / (over.bottom - ns)))
        return Estimate(value=rate.value * plain_ns, interval=(low * ends[0], high * ends[1]), n=rate.n)

    def _own(self, costs: Calibration | None) -> Ends | None:
        """Nanoseconds of a pass over one row by the run's own passes: the median over rounds, each taken to one row by
        the passes timed alone, or by rule of thumb and not at all."""
        target = self.target
        if self.climbs:
            call = self.call_ns.estimate()
            if call is None or target is None or not target.n_layers:
                return None
            whole = call.value * target.n_layers
            tests = self.tests * target.n_layers / self.calls * ((costs.test_ns or 0) if costs is not None else 0)
            return max(0.0, whole - tests), whole
        if costs is not None:
            one = costs.target_ns[0]
            one_row = self._taken_to_one(lambda rows: between(costs.widths, costs.target_ns, rows) / one)
            return None if one_row is None else (one_row, one_row)
        device = (target.device or "") if target is not None else ""
        low, high = self._taken_to_one(lambda rows: row_cost(device.partition(":")[0], rows)), self._taken_to_one(_one)
        return None if low is None or high is None else (low, high)

    def _taken_to_one(self, cost: Callable[[int], float]) -> float | None:
        """The weighted median of the passes of every width, divided by what so many rows cost."""
        medians = {rows: took.estimate() for rows, took in self.pass_ns.items()}
        one_row = sorted((spent.value / cost(rows), spent.n) for rows, spent in medians.items() if spent is not None)
        left = sum(n for _, n in one_row) / 2
        for value, n in one_row:
            left -= n
            if left <= 0:
                return value
        return None


def _price(costs: Calibration | None) -> float:
    """How many times as long a pass over one exact row takes as without the padding that it needs."""
    return costs.target_ns[0] / costs.plain_ns if costs is not None and costs.plain_ns else 1.0


def _one(rows: int) -> float:
    return 1.0


def _rows(record: RoundRecord, end: RoundEnd) -> int:
    """Rows of the target's pass: the root, what was drafted and fed now, and what was drafted before and is judged
    now. Where no node is on record, what was drafted."""
    if not record.nodes and not record.verdicts:
        return 1 + end.n_drafted
    earlier = sum(verdict.status != "pruned" for node, verdict in record.verdicts.items() if node not in record.nodes)
    return 1 + sum(node.fed and node.kept for node in record.nodes.values()) + earlier


def _inverse(share: Estimate) -> Estimate:
    ends = share.interval if share.interval is not None and share.interval[0] > 0 else None
    interval = None if ends is None else (1 / ends[1], 1 / ends[0])
    return Estimate(value=1 / share.value, interval=interval, n=share.n, unknown=share.unknown)
