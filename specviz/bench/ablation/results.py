"""SpecBranch with and without its two ideas, beside the pipelines it is compared with (specbranch.md 8, 10 and 11).

The rows of the paper's table: rollback rate and speed-up. Two clocks stand side by side and are never put into one
number. *Measured*: whole runs of this machine, interleaved, paired by prompt, on the lanes that it has. *Modelled*: the
same rounds played with the costs that were calibrated here, as if target and draft model really ran beside each other;
also for other ratios c, with the rounds as they were run.

An ablation as rows of words.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np

from specviz.bench.compare.results import Ratio, difference_of
from specviz.bench.machine import Machine
from specviz.bench.report.sheet import Sheet
from specviz.bench.report.text import equality_sheet
from specviz.bench.statistics import Equality, PairedRatio, Spread
from specviz.cost.model_clock import Rates, Timing, TimingTally, timing
from specviz.cost.timing import run_facts
from specviz.events import Event, Signal
from specviz.metrics import Metrics, Tally
from specviz.metrics.estimate import Estimate
from specviz.text import running
from specviz.view.words.numbers import UNKNOWN, number, percent

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


class Row(msgspec.Struct, frozen=True, kw_only=True):
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
    rows: list[Row]
    claims: list[Claim]
    equality: list[Equality]
    seconds: float
    cut: bool
    notes: list[str] = []


@dataclass(frozen=True, slots=True)
class Recorded:
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
        over_all, by_prompt = TimingTally(), dict[int, list[Timing]]()
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
            c=rates.c, speedup=Ratio(plain, took).estimate(),
            seconds=[(float(a), float(b)) for a, b in zip(plain, took, strict=True)], bubble_target=whole.bubble_target,
            bubble_draft=whole.bubble_draft, overlap_efficiency=whole.overlap_efficiency,
            wasted_share=whole.wasted / whole.busy_draft if whole.busy_draft else None,
        )  # fmt: skip


def claims_of(rows: Sequence[Row]) -> list[Claim]:
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
            out += [_faster(other, *pair) for pair in zip(full.modelled, peer.modelled, strict=True)]
    return out


def _claim(text: str, ours: Estimate, theirs: Estimate, less: bool) -> Claim:
    holds = ours.value < theirs.value if less else ours.value > theirs.value
    return Claim(text=text, found=(ours.value, theirs.value), holds=holds)


def _faster(other: str, ours: OnClock, theirs: OnClock) -> Claim:
    claim = _claim(f"modelled clock, c = {ours.c:.3g}: faster than {other}", ours.speedup, theirs.speedup, less=False)
    return msgspec.structs.replace(claim, difference=difference_of(_ratio(ours), _ratio(theirs)))


def _ratio(at: OnClock) -> Ratio:
    plain, took = np.array(at.seconds).T
    return Ratio(plain, took)


def heading(report: Ablation) -> list[str]:
    """What must be known before any number."""
    machine, settings, costs, prompts = report.machine, report.settings, report.costs, report.prompts
    cut = " (the time was up)" if report.cut else "" if report.rows[0].tokens_per_second else " (nothing was timed)"
    load = f"load {_plain(machine.load_before)} before, {_plain(machine.load_after)} after"
    return [
        f"{machine.processor}, {machine.cores} cores, {machine.device}, {machine.threads} threads, {load}",
        f"commit {machine.commit or 'unknown'}",
        *(f"{role}: {running(model)}" for role, model in report.models.items()),
        f"prompts: {running(prompts['source'])}, {prompts['n_used']} of {prompts['n_found']}{cut}; "
        f"{settings['max_new_tokens']} new tokens each, temperature {settings['temperature']:g}, gamma "
        f"{settings['gamma']}, {settings['repeats']} repeats, lanes {settings['lanes']}",
        f"modelled clock: t = {costs['t_ns'] / 1e6:.2f} ms, c = {costs['c']:.2f}, kappa_q = {costs['kappa_q']:.3f}, "
        f"kappa_p = {costs['kappa_p']:.3f}, medians of {costs['repeats']} passes",
        *report.notes,
    ]


def sheets(report: Ablation) -> list[Sheet]:
    """Rollback beside speed on both clocks; drafts, lanes, branches, what was claimed; empty ones left out."""
    found = [_table(report.rows), _drafts(report.rows), _lanes(report.rows), _branches(report.rows)]
    found += [_claims(report), equality_sheet(report.equality)]
    return [sheet for sheet in found if sheet.rows]


def _table(rows: Sequence[Row]) -> Sheet:
    ratios = [at.c for at in rows[0].modelled[1:]]
    head = ("method", "rollback", "±", "measured", "interval", "cpu", "lanes", "modelled", "±")
    note = (
        "rollback: drafted and thrown away on one path, a branch counted once; ± 95 %. Speed-ups over ar; measured: "
        "whole runs here, paired by prompt and turn, cpu: the same of processor time; modelled: the same rounds at the "
        "costs above, as if both models ran beside each other (no number of one clock is comparable with one of the "
        "other); c = ..: with another ratio, rounds as they were run"
    )
    return Sheet("Rollback and speed-up", (*head, *(f"c = {c:g}" for c in ratios)), [_both(row) for row in rows], note)


def _both(row: Row) -> list[str]:
    over, first = row.over_ar, row.modelled[0].speedup
    interval = UNKNOWN if over is None or over.interval is None else " .. ".join(f"{x:.3f}" for x in over.interval)
    measured = f"{over.value:.3f}" if over is not None else "1" if row.tokens_per_second else UNKNOWN
    cpu = UNKNOWN if over is None or over.cpu is None else f"{over.cpu:.3f}"
    others = [f"{at.speedup.value:.2f}" for at in row.modelled[1:]]
    return [
        row.name, _share(row.rollback_rate), _half(row.rollback_rate), measured, interval, cpu, row.lanes,
        f"{first.value:.3f}", _half(first), *others,
    ]  # fmt: skip


def _drafts(rows: Sequence[Row]) -> Sheet:
    head = ("method", "rollback, all cells", "accepted/drafted", "M_run", "M_fwd")
    note = (
        "all cells: losing branches and trimmed tokens included; M_run: accepted tokens between rejections, M_fwd: "
        "tokens per target pass: two things that papers both call mean accepted tokens"
    )
    shown = [
        [
            row.name, _share(row.rollback_rate_tokens), _share(row.draft_acceptance_rate),
            _value(row.accepted_run_length), _value(row.block_efficiency),
        ]
        for row in rows
    ]  # fmt: skip
    return Sheet("Drafts", head, shown, note)


def _lanes(rows: Sequence[Row]) -> Sheet:
    head = ("method", "target idle", "draft idle", "overlap", "draft time wasted")
    note = (
        "on the modelled clock: idle shares of both lanes; overlap: of the shorter lane's work, 1 all hidden; wasted: "
        "share of the draft model's busy time spent on tokens that were not kept"
    )
    shown = [[row.name, *_idle(row.modelled[0])] for row in rows if row.modelled[0].bubble_draft is not None]
    return Sheet("Lanes", head, shown, note)


def _idle(at: OnClock) -> list[str]:
    overlap = None if at.overlap_efficiency is None else max(0.0, at.overlap_efficiency)
    return [percent(at.bubble_target), percent(at.bubble_draft), number(overlap), percent(at.wasted_share)]


def _branches(rows: Sequence[Row]) -> Sheet:
    head = ("method", "signal", "ms", "hits by branches", "said > true")
    shown = [
        [row.name, row.hrad or UNKNOWN, number(row.hrad_ms or None), _hits(row), _said(row)]
        for row in rows
        if row.branch_hit_rate is not None and row.hrad is not None
    ]
    return Sheet("Branches", head, shown, _BRANCHES)


_BRANCHES = (
    "ms: the classifier's median time, part of the modelled clock; hits by branches: how often one of so many branch "
    "tokens was the target's, of how many matches; said > true: classes of the signal (0 none, 1 some, 2 all of a "
    "draft) and how often, where the verdict tells"
)


def _hits(row: Row) -> str:
    return ", ".join(f"{k}: {found.value:.0%} of {found.n}" for k, found in (row.branch_hit_rate or {}).items())


def _said(row: Row) -> str:
    found = row.hrad_confusion or {}
    return ", ".join(f"{s} > {true}: {n}" for s, counts in found.items() for true, n in counts.items() if n) or UNKNOWN


def _claims(report: Ablation) -> Sheet:
    shown = [
        [
            "✓" if claim.holds else "✗",
            claim.text,
            number(claim.found[0], 3),
            number(claim.found[1], 3),
            UNKNOWN if claim.difference is None else f"{claim.difference.value:+.3f}",
            _half(claim.difference),
        ]
        for claim in report.claims
    ]
    return Sheet("The paper's shape", ("", "specbranch", "found", "the other", "minus", "±"), shown, _SHAPE)


_SHAPE = "held against the rows above; differences of speed-ups are paired by prompt, ± 95 %"


def _share(found: Estimate | None) -> str:
    return percent(None if found is None else found.value)


def _value(found: Estimate | None) -> str:
    return number(None if found is None else found.value)


def _half(found: Estimate | None) -> str:
    if found is None or found.interval is None:
        return UNKNOWN
    return f"{(found.interval[1] - found.interval[0]) / 2:.3f}"


def _plain(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:g}"
