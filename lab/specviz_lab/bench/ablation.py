"""SpecBranch with and without its two ideas, beside the pipelines it is compared with.

The rows of the paper's table: rollback rate and speed-up. Two clocks stand side by side and are never put into one
number. *Measured*: whole runs of this machine, interleaved, paired by prompt, on the lanes that it has. *Modelled*: the
same rounds played with the costs that were calibrated here, as if target and draft model really ran beside each other;
also for other ratios c, with the rounds as they were run.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

import msgspec
import numpy as np
import torch

from specviz.comparison import machine
from specviz.comparison.machine import Machine
from specviz.comparison.measured import fitting, machine_of, models_of
from specviz.cost.model_clock import ModelTiming, Rates, RoundFacts, TimingTally, run_facts, timing
from specviz.engine.measure import calibrate
from specviz.engine.model.adapter import FactoryModels
from specviz.engine.run.local import Pair, load_pair
from specviz.engine.run.prepare import wants_chat
from specviz.errors import SpecvizError
from specviz.events import Calibration, Event, Signal
from specviz.metrics import Metrics, Tally
from specviz.metrics.differences import RatioOfSums, difference_of
from specviz.metrics.estimate import Estimate
from specviz.sources.prompts import load_prompts, suited
from specviz_lab.bench.measure import Measurement, MeasuringPlan, Sample, Tokens, measure, of_arm
from specviz_lab.bench.ours import OurArm
from specviz_lab.bench.results import ratio_of
from specviz_lab.bench.settings import FULL, VARIANTS, BenchSettings, Contestant, Variant
from specviz_lab.bench.speed import Tell, margin_of
from specviz_lab.bench.statistics import Equality, PairedRatio, Spread, check_equal, spread

SCHEMA = "specviz.ablation/1"


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


@dataclass(frozen=True)
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

    @property
    def signals(self) -> list[Signal]:
        """Of all runs."""
        return [event for events in self.runs for event in events if isinstance(event, Signal)]

    def hrad_s(self) -> float:
        """Median time of the classifier, 0 where there is none."""
        took = [signal.dur_ns for signal in self.signals if signal.source == "hrad"]
        return float(np.median(took)) / 1e9 if took else 0.0

    @cached_property
    def facts(self) -> list[list[RoundFacts]]:
        """The rounds of every run, folded once for all costs."""
        return [list(run_facts(events)) for events in self.runs]

    def on_clock(self, rates: Rates) -> OnClock:
        """The rounds at these costs; the speed-up with an interval over prompts."""
        over_all, by_prompt = TimingTally(), dict[int, list[ModelTiming]]()
        for prompt, rounds in zip(self.prompts, self.facts, strict=True):
            by_prompt.setdefault(prompt, []).append(timing(rounds, rates))
            over_all.forget()  # nodes of one run are not those of another
            for facts in rounds:
                over_all.add(facts)
        whole = over_all.timing(rates)
        plain, took = (
            [float(sum(getattr(t, name) for t in timings)) for _, timings in sorted(by_prompt.items())]
            for name in ("plain", "elapsed")
        )
        return OnClock(
            c=rates.c,
            speedup=RatioOfSums(plain, took).estimate(),
            seconds=list(zip(plain, took, strict=True)),
            **{name: getattr(whole, name) for name in ("bubble_target", "bubble_draft", "overlap_efficiency")},
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
            both = full.rollback_rate.value, peer.rollback_rate.value
            out.append(Claim(text=f"rolls back less than {other}", found=both, holds=both[0] < both[1]))
        if full.modelled and peer.modelled:
            for ours, theirs in zip(full.modelled, peer.modelled, strict=True):
                text = f"modelled clock, c = {ours.c:.3g}: faster than {other}"
                one, two = (RatioOfSums(*zip(*at.seconds, strict=True)) for at in (ours, theirs))
                both = ours.speedup.value, theirs.speedup.value
                out.append(Claim(text=text, found=both, holds=both[0] > both[1], difference=difference_of(one, two)))
    return out


_SETTINGS = ("gamma", "max_new_tokens", "repeats", "temperature", "minutes", "lanes")
_CALIBRATED = ("t_ns", "c", "kappa_q", "kappa_p", "widths", "target_ns", "draft_ns", "repeats")
PATIENCE_S = 10.0  # of the calibration: it is what the modelled clock stands on


@dataclass(frozen=True, slots=True)
class AblationSettings:
    """`settings` as for a bench, its arms made here. `ratios`: further values of c; `noise`: on the draft's weights;
    `timed`: whether whole runs are timed, which is the slow part; rollback and the modelled clock do without."""

    settings: BenchSettings
    ratios: tuple[float, ...] = ()
    noise: float = 0.0
    timed: bool = True


def arms_of(variants: Sequence[Variant] = VARIANTS) -> tuple[Contestant, ...]:
    """The variants as arms of a bench."""
    return tuple(Contestant(v.name, v.method, None, None, tuple(v.knobs.items())) for v in variants)


def ablate(question: AblationSettings, command: str, tell: Tell) -> Ablation:
    """Load, calibrate, measure, record. Raises SpecvizError for what the user can mend, before anything is timed."""
    settings = replace(question.settings, arms=arms_of())
    prompts = load_prompts(settings.prompts, settings.limit)
    tell("loading models")
    pair = load_pair(settings.target, settings.draft, True, settings.device, settings.dtype, settings.threads or None)
    pair.runtime.begin()
    if question.noise:
        disturb(pair, question.noise)
    prompts = suited(prompts, wants_chat(pair.target, None))
    ids, before = [*fitting(prompts, pair, settings.max_new_tokens).values()], machine.load()
    arms = [OurArm(arm, settings, pair) for arm in settings.arms]
    for arm in arms:  # a folder of trained parts or lanes that do not fit are told now, not after minutes of timing
        arm.session(ids[0], settings.max_new_tokens, 0)
    tell("timing passes of both models")
    costs = _costs(pair)
    measured = _measured(question, arms, ids, tell)
    tell("recording every run once more")
    rows = [_row(k, arm, settings, measured, ids, costs, question) for k, arm in enumerate(arms)]
    base = arms[0].name  # what the others are held against, plain decoding
    keeps = [base if arm.keeps_tokens and arm.name != base and question.timed else None for arm in arms]
    equality = check_equal([arm.name for arm in arms], keeps, measured.samples, ids, margin_of(pair))
    return Ablation(
        wall=datetime.now(UTC).isoformat(timespec="seconds"),
        command=command,
        machine=machine_of(pair, before),
        models=models_of(pair),
        settings={
            **{name: getattr(settings, name) for name in _SETTINGS},
            "knobs": settings.checked_knobs,
            "threads": torch.get_num_threads(),
            "ratios": list(question.ratios),
            "noise": question.noise,
        },
        costs={name: getattr(costs, name) for name in _CALIBRATED},
        prompts={
            "source": prompts.source,
            "sha256": prompts.sha256,
            "n_found": prompts.n_found,
            "n_used": len({s.prompt for s in measured.samples}),
        },
        rows=rows,
        claims=claims_of(rows),
        equality=equality,
        seconds=measured.seconds,
        cut=measured.cut,
        notes=_notes(rows, question),
    )


def _measured(question: AblationSettings, arms: Sequence[OurArm], ids: Sequence[Tokens], tell: Tell) -> Measurement:
    """The timed runs; untimed, one prompt and seed after the other in name only."""
    settings = question.settings
    if question.timed:
        seconds = settings.minutes * 60 if settings.minutes else None
        return measure(arms, ids, MeasuringPlan(settings.max_new_tokens, settings.repeats, seconds, apart=False), tell)
    repeats = 1 if settings.temperature == 0 else settings.repeats
    return Measurement([Sample(0, k, repeat, 0.0, []) for k in range(len(ids)) for repeat in range(repeats)])


def _costs(pair: Pair) -> Calibration:
    assert pair.draft is not None
    costs = calibrate(FactoryModels(pair.target.adapter, pair.draft.adapter, 0), None, PATIENCE_S)
    if costs is None or costs.c is None:
        raise SpecvizError(
            f"{pair.target.adapter.name}: its context of {pair.target.adapter.context} is too short to time passes in"
        )
    return costs


def _row(
    index: int,
    arm: OurArm,
    settings: BenchSettings,
    measured: Measurement,
    ids: Sequence[Tokens],
    costs: Calibration,
    question: AblationSettings,
) -> VariantResult:
    mine, plain, base = of_arm(measured.samples, index), of_arm(measured.samples, 0), settings.arms[0].name
    seeds = sorted({(s.prompt, s.repeat) for s in measured.samples})
    if settings.temperature == 0:
        seeds = [key for key in seeds if key[1] == 0]
    runs = [arm.records(ids[prompt], settings.max_new_tokens, seed) for prompt, seed in seeds]
    recorded = RecordedRuns(runs, [prompt for prompt, _ in seeds])
    hrad_s, metrics = recorded.hrad_s(), recorded.metrics()
    rates, timed = Rates.of(costs, hrad_s), question.timed
    pace = spread([len(s.tokens) / s.seconds for s in mine.values()]) if timed else None
    return VariantResult(
        name=arm.name,
        method=arm.method.name,
        lanes=arm.used_lanes,
        knobs={spec.name: arm.knobs[spec.name] for spec in arm.method.knobs},
        hrad=", ".join(sorted({signal.source for signal in recorded.signals})) or None,
        hrad_ms=hrad_s * 1e3,
        tokens_per_second=pace,
        over_ar=ratio_of(arm.name, base, {arm.name: mine, base: plain}) if index and timed else None,
        modelled=[recorded.on_clock(replace(rates, c=c)) for c in (rates.c, *question.ratios)],
        rollback_rate=metrics.rollback_rate,
        rollback_rate_tokens=metrics.rollback_rate_tokens,
        draft_acceptance_rate=metrics.draft_acceptance_rate,
        accepted_run_length=metrics.accepted_run_length,
        block_efficiency=metrics.block_efficiency,
        branch_hit_rate=metrics.branch_hit_rate,
        hrad_confusion=metrics.hrad_confusion,
    )


@torch.no_grad()
def disturb(pair: Pair, noise: float) -> None:
    """Make the draft model a worse one: seeded noise on its matrices, `noise` times their own spread."""
    assert pair.draft is not None
    if pair.draft.adapter.model is pair.target.adapter.model:
        raise SpecvizError(
            f"noise on {pair.draft.info.name} would fall on the target too: name a draft model of its own"
        )
    generator = torch.Generator().manual_seed(0)
    for weight in pair.draft.adapter.model.parameters():
        if weight.dim() > 1:
            step = torch.randn(weight.shape, generator=generator).to(weight.device, weight.dtype)
            weight.add_(step * weight.std() * noise)
    info = msgspec.structs.replace(pair.draft.info, name=f"{pair.draft.info.name} + noise {noise:g}")
    object.__setattr__(pair.draft, "info", info)


def _notes(rows: Sequence[VariantResult], question: AblationSettings) -> list[str]:
    out = ["every run writes exactly max_new_tokens tokens; end-of-text tokens are ignored"]
    full = next(row for row in rows if row.name == FULL)
    if full.hrad != "hrad":
        out.append(f"no classifier for this pair and gamma: signals are those of {full.hrad}, so -hrad changes nothing")
    if question.settings.temperature > 0:
        out.append("sampled methods keep the law of the text, not its tokens: no equality is promised for them")
    return out
