"""How many times as fast as plain decoding a run was, from the run alone: tokens a second beside those of plain rounds.

Contract 6 defines `speedup` over a run of plain decoding with the same model. Such a run is seldom at hand; what one
plain round takes often is on record. In the order of trust:

* `rounds`: rounds of this very run in which nothing was drafted and one token was written are plain decoding.
* `pass`: the target's pass over one row, timed beside the run (`calibration`). A plain round counts as that pass
  alone, so the speed-up is a little too small.
* `stage`: nothing was timed; a plain pass counts like the target's passes of the run, which feed more rows. Modelled,
  and a little too large.
* `layers`: as `stage` for a target that stops early: layers of a whole pass / layers that ran for a token. Modelled.

Time spent on recording is left out on both sides.
"""

from typing import Literal

import msgspec

from specviz.events import Climb, ExitRound, RoundEnd
from specviz.metrics.estimate import Estimate, Median, Moments, settled
from specviz.runlog.run import RoundRecord

Basis = Literal["rounds", "pass", "stage", "layers"]
MEASURED: tuple[Basis, ...] = ("rounds", "pass")
_S = 1e9  # nanoseconds
LEAST_PLAIN = 8  # plain rounds from which on their median counts


class PlainSpeed(msgspec.Struct, frozen=True, kw_only=True):
    """`times`: as fast as plain decoding; its interval is of the run's own rounds. `plain_ms`: a plain round."""

    times: Estimate
    basis: Basis
    plain_ms: float | None = None

    @property
    def measured(self) -> bool:
        """Whether what a plain round takes was measured on this machine, not modelled."""
        return self.basis in MEASURED


class PlainTally:
    """Give it every finished round in order."""

    def __init__(self) -> None:
        self.rate = Moments()  # tokens / ns, recording left out
        self.plain_ns = Median()  # of rounds that were plain decoding
        self.target_ns = Median()  # the target's stage of the others
        self.climbs = False  # the target's own layers draft: its stage is no whole pass

    def take(self, record: RoundRecord, end: RoundEnd, ns: int) -> None:
        """Count a round that took `ns`; one that nobody timed says nothing of speed."""
        if not ns and not end.stage_ns:
            return
        took = max(1, ns - end.probe_ns)
        self.rate.add(end.n_emitted, took)
        self.climbs = self.climbs or bool(record.by_kind.keys() & {Climb, ExitRound})
        if end.n_drafted or end.n_draft_calls or record.nodes or end.n_emitted != 1 or self.climbs:
            self.target_ns.add(end.stage_ns.get("target", 0))
        else:
            self.plain_ns.add(max(1, took - end.stage_ns.get("draft", 0)))

    def speed(self, pass_ns: int | None, layers: Estimate | None) -> PlainSpeed | None:
        """`pass_ns`: a target's pass over one row, timed at the start; `layers`: the share of a whole pass's layers
        that ran for a token, where that is known. None where nothing tells what plain decoding takes."""
        if not self.rate.n:
            return None
        over = self.rate
        rate = settled(float(over.top / over.bottom) * _S, _scaled(over.interval(), _S), over.n, over.counting)
        plain, stage = self.plain_ns.estimate(), self.target_ns.estimate()
        if plain is not None and self.plain_ns.n >= LEAST_PLAIN:
            return _faster(rate, plain.value, "rounds")
        if pass_ns:
            return _faster(rate, pass_ns, "pass")
        if self.climbs:
            return PlainSpeed(times=_inverse(layers), basis="layers") if layers is not None and layers.value else None
        return _faster(rate, stage.value, "stage") if stage is not None and stage.value else None


def _faster(rate: Estimate, plain_ns: float, basis: Basis) -> PlainSpeed:
    """Tokens a second beside one in `plain_ns`."""
    by = plain_ns / _S
    times = Estimate(value=rate.value * by, interval=_scaled(rate.interval, by), n=rate.n, unknown=rate.unknown)
    return PlainSpeed(times=times, basis=basis, plain_ms=plain_ns / 1e6)


def _scaled(interval: tuple[float, float] | None, by: float) -> tuple[float, float] | None:
    return None if interval is None else (interval[0] * by, interval[1] * by)


def _inverse(share: Estimate) -> Estimate:
    ends = share.interval if share.interval is not None and share.interval[0] > 0 else None
    interval = None if ends is None else (1 / ends[1], 1 / ends[0])
    return Estimate(value=1 / share.value, interval=interval, n=share.n, unknown=share.unknown)
