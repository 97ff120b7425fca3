"""A run on the modelled clock: its rounds played with the costs that were measured when it began (`calibration`).

A number of this block is never put together with a measured time. It says what the pipeline would have taken had its
two lanes run beside each other, whatever lanes the machine really had.
"""

import msgspec

from specviz.cost.model_clock import Rates, TimingTally
from specviz.cost.timing import RoundReader
from specviz.events import Calibration, Event, Signal
from specviz.metrics.sums import Median


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
    """Give it every record in order."""

    def __init__(self) -> None:
        self.calibration: Calibration | None = None
        self.timing = TimingTally()
        self.hrad_ns = Median()
        self._reader = RoundReader()
        self._query = -1

    def add(self, event: Event) -> None:
        """Take in a record."""
        if isinstance(event, Calibration):
            self.calibration = event
        elif isinstance(event, Signal) and event.source == "hrad":
            self.hrad_ns.add(event.dur_ns)
        found = self._reader.add(event)
        if found is None:
            return
        if event.q != self._query:  # node ids begin again: what was never settled belongs to nobody
            self._query = event.q
            self.timing.forget()
        self.timing.add(found)

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
        t_s=rates.t, c=rates.c, kappa_q=rates.kappa_q, kappa_p=rates.kappa_p, hrad_s=rates.hrad,
        elapsed_s=found.elapsed, speedup=found.speedup, overlap_efficiency=found.overlap_efficiency,
        bubble_target=found.bubble_target, bubble_draft=found.bubble_draft, wasted_draft_s=found.wasted,
    )  # fmt: skip
