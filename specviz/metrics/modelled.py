"""A run on the modelled clock: its rounds played with the costs that were measured when it began (`calibration`).

A number of this block is never put together with a measured time. It says what the pipeline would have taken had its
two lanes run beside each other, whatever lanes the machine really had.
"""

import msgspec

from specviz.cost.model_clock import Rates, TimingTally
from specviz.cost.timing import facts_of
from specviz.events import Calibration, Signal
from specviz.metrics.sums import Median
from specviz.runlog.run import RoundRecord


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
        if record.q != self._query:  # node ids begin again: what was never settled belongs to nobody
            self._query = record.q
            self.timing.forget()
        self.timing.add(facts)

    def summary(self) -> Modelled | None:
        """None without measured costs, or without rounds this clock knows."""
        if self.calibration is None or not self.timing.n:
            return None
        took = self.hrad_ns.estimate()
        return modelled(self.timing, Rates.of(self.calibration, took.value / 1e9 if took is not None else 0.0))


def modelled(rounds: TimingTally, rates: Rates) -> Modelled:
    """The block for these rounds at these costs."""
    found = rounds.timing(rates)
    return Modelled(
        t_s=rates.t,
        c=rates.c,
        kappa_q=rates.kappa_q,
        kappa_p=rates.kappa_p,
        hrad_s=rates.hrad,
        elapsed_s=found.elapsed,
        speedup=found.speedup,
        overlap_efficiency=found.overlap_efficiency,
        bubble_target=found.bubble_target,
        bubble_draft=found.bubble_draft,
        wasted_draft_s=found.wasted,
    )
