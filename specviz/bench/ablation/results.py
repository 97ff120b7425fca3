"""SpecBranch with and without its two ideas, beside the pipelines it is compared with (specbranch.md 8, 10 and 11).

The rows of the paper's table: rollback rate and speed-up. Two clocks stand side by side and are never put into one
number. *Measured*: whole runs of this machine, interleaved, paired by prompt, on the lanes that it has. *Modelled*: the
same rounds played with the costs that were calibrated here, as if target and draft model really ran beside each other;
also for other ratios c, with the rounds as they were run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np

from specviz.bench.compare.results import RatioOfSums, difference_of
from specviz.bench.machine import Machine
from specviz.bench.statistics import Equality, PairedRatio, Spread
from specviz.cost.model_clock import ModelTiming, Rates, TimingTally, run_facts, timing
from specviz.events import Event, Signal
from specviz.metrics import Metrics, Tally
from specviz.metrics.estimate import Estimate

SCHEMA = "specviz.ablation/1"


@dataclass(frozen=True, slots=True)
class Variant:
    """One row: a method, and what is switched off in it."""

    name: str
    method: str
    knobs: Mapping[str, Any] = field(default_factory=dict)


NO_HRAD, NO_BRANCHES = {"hrad": ["none"]}, {"k_max": 1}  # a k_max of 1 forks one branch and no more
FULL = "specbranch"
VARIANTS = (
    Variant("ar", "ar"),
    Variant("lookahead", "lookahead"),
    Variant("sps", "sps"),
    Variant("adaedl", "adaedl"),
    Variant("pearl", "pearl"),
    Variant(FULL, "specbranch"),
    Variant("- hrad", "specbranch", NO_HRAD),
    Variant("- branches", "specbranch", NO_BRANCHES),
    Variant("- both", "specbranch", {**NO_HRAD, **NO_BRANCHES}),
)


class OnClock(msgspec.Struct, frozen=True, kw_only=True):
    """A row on the modelled clock at ratio `c`. `wasted_share`: of the draft model's busy time, for tokens not kept.

    `seconds`: by prompt, what plain decoding of the same tokens takes, and what this did.
    """

    c: float
    speedup: Estimate
    seconds: list[tuple[float, float]]
    bubble_target: float | None
    bubble_draft: float | None
    overlap_efficiency: float | None
    wasted_share: float | None


class VariantResult(msgspec.Struct, frozen=True, kw_only=True):
    """One variant. `over_ar`: measured; null for plain decoding itself. `modelled`: the calibrated c first."""

    name: str
    method: str
    knobs: dict[str, Any]
    lanes: str
    hrad: str | None  # where signals came from: hrad, fallback, forced; null for methods without
    hrad_ms: float  # median time of the classifier, as measured here; it counts on the modelled clock
    tokens_per_second: Spread | None
    over_ar: PairedRatio | None
    modelled: list[OnClock]
    rollback_rate: Estimate | None
    rollback_rate_tokens: Estimate | None
    draft_acceptance_rate: Estimate | None
    accepted_run_length: Estimate | None  # M_run
    block_efficiency: Estimate | None  # M_fwd
    branch_hit_rate: dict[int, Estimate] | None
    hrad_confusion: dict[int, dict[int, int]] | None


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """Something said of the full method, and whether it was found so here. `found`: its number and the other one.

    `difference`: of speed-ups, paired by prompt; none of rollback rates.
    """

    text: str
    found: tuple[float, float]
    holds: bool
    difference: Estimate | None = None


class Ablation(msgspec.Struct, frozen=True, kw_only=True):
    """The report."""

    schema: str = SCHEMA
    wall: str
    command: str
    machine: Machine
    models: dict[str, str]
    settings: dict[str, Any]
    costs: dict[str, Any]  # of the modelled clock, as calibrated
    prompts: dict[str, Any]
    rows: list[VariantResult]
    claims: list[Claim]
    equality: list[Equality]
    seconds: float
    cut: bool
    notes: list[str] = []


@dataclass(frozen=True, slots=True)
class RecordedRuns:
    """The runs of one variant: records in order, and the prompt of each."""

    runs: Sequence[Sequence[Event]]
    prompts: Sequence[int]

    def metrics(self) -> Metrics:
        """Over all runs, each a query of its own."""
        tally = Tally()
        for query, events in enumerate(self.runs):
            for event in events:
                event.q = query
                tally.add(event)
        return tally.summary()

    def hrad_s(self) -> float:
        """Median time of the classifier, 0 where there is none."""
        took = [e.dur_ns for events in self.runs for e in events if isinstance(e, Signal) and e.source == "hrad"]
        return float(np.median(took)) / 1e9 if took else 0.0

    def source(self) -> str | None:
        """Where the signals came from."""
        names = {e.source for events in self.runs for e in events if isinstance(e, Signal)}
        return ", ".join(sorted(names)) or None

    def on_clock(self, rates: Rates) -> OnClock:
        """The rounds at these costs; the speed-up with an interval over prompts."""
        over_all, by_prompt = TimingTally(), dict[int, list[ModelTiming]]()
        for prompt, events in zip(self.prompts, self.runs, strict=True):
            rounds = list(run_facts(events))
            by_prompt.setdefault(prompt, []).append(timing(rounds, rates))
            over_all.forget()  # nodes of one run are not those of another
            for facts in rounds:
                over_all.add(facts)
        whole = over_all.timing(rates)
        plain, took = (
            np.array([sum(getattr(t, name) for t in found) for _, found in sorted(by_prompt.items())])
            for name in ("plain", "elapsed")
        )
        return OnClock(
            c=rates.c,
            speedup=RatioOfSums(plain, took).estimate(),
            seconds=[(float(a), float(b)) for a, b in zip(plain, took, strict=True)],
            bubble_target=whole.bubble_target,
            bubble_draft=whole.bubble_draft,
            overlap_efficiency=whole.overlap_efficiency,
            wasted_share=whole.wasted / whole.busy_draft if whole.busy_draft else None,
        )


def claims_of(rows: Sequence[VariantResult]) -> list[Claim]:
    """The shape of the paper's table, held against what was found: fewer tokens rolled back, and faster, than both."""
    by_name = {row.name: row for row in rows}
    full, out = by_name.get(FULL), []
    for other in ("sps", "pearl"):
        if full is None or other not in by_name:
            continue
        peer = by_name[other]
        if full.rollback_rate and peer.rollback_rate:
            out.append(_claim(f"rolls back less than {other}", full.rollback_rate, peer.rollback_rate, less=True))
        if full.modelled and peer.modelled:
            for ours, theirs in zip(full.modelled, peer.modelled, strict=True):
                text = f"modelled clock, c = {ours.c:.3g}: faster than {other}"
                claim = _claim(text, ours.speedup, theirs.speedup, less=False)
                claim = msgspec.structs.replace(claim, difference=difference_of(_ratio(ours), _ratio(theirs)))
                out.append(claim)
    return out


def _claim(text: str, ours: Estimate, theirs: Estimate, less: bool) -> Claim:
    holds = ours.value < theirs.value if less else ours.value > theirs.value
    return Claim(text=text, found=(ours.value, theirs.value), holds=holds)


def _ratio(at: OnClock) -> RatioOfSums:
    plain, took = np.array(at.seconds).T
    return RatioOfSums(plain, took)
