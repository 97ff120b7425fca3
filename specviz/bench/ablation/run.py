"""One ablation, from the settings to the report."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import msgspec
import torch

from specviz.bench import machine
from specviz.bench.ablation.results import FULL, VARIANTS, Ablation, RecordedRuns, Variant, VariantResult, claims_of
from specviz.bench.arms import Sample, Tokens, of_arm
from specviz.bench.measure import Measurement, MeasuringPlan, measure
from specviz.bench.ours import OurArm
from specviz.bench.results import ratio_of
from specviz.bench.settings import BenchSettings, Contestant
from specviz.bench.speed.run import Tell, encoded, machine_of, margin_of, models_of
from specviz.bench.statistics import check_equal, spread
from specviz.cost.model_clock import Rates
from specviz.engine.decode.overlap_choice import calibrate
from specviz.engine.model.adapter import FactoryModels
from specviz.engine.run.local import Pair, load_pair
from specviz.errors import SpecvizError
from specviz.events import Calibration
from specviz.sources.prompts import load_prompts

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
    if question.noise:
        disturb(pair, question.noise)
    ids, before = encoded(prompts, pair, settings), machine.load()
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
        settings=_plain(question),
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
    found = calibrate(FactoryModels(pair.target.adapter, pair.draft.adapter, 0), None, PATIENCE_S)
    if found is None or found.c is None:
        raise SpecvizError(
            f"{pair.target.adapter.name}: its context of {pair.target.adapter.context} is too short to time passes in"
        )
    return found


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
    hrad_s, found = recorded.hrad_s(), recorded.metrics()
    rates, timed = Rates.of(costs, hrad_s), question.timed
    pace = spread([len(s.tokens) / s.seconds for s in mine.values()]) if timed else None
    return VariantResult(
        name=arm.name,
        method=arm.method.name,
        lanes=arm.used_lanes,
        knobs={spec.name: arm.knobs[spec.name] for spec in arm.method.knobs},
        hrad=recorded.source(),
        hrad_ms=hrad_s * 1e3,
        tokens_per_second=pace,
        over_ar=ratio_of(arm.name, base, {arm.name: mine, base: plain}) if index and timed else None,
        modelled=[recorded.on_clock(replace(rates, c=c)) for c in (rates.c, *question.ratios)],
        rollback_rate=found.rollback_rate,
        rollback_rate_tokens=found.rollback_rate_tokens,
        draft_acceptance_rate=found.draft_acceptance_rate,
        accepted_run_length=found.accepted_run_length,
        block_efficiency=found.block_efficiency,
        branch_hit_rate=found.branch_hit_rate,
        hrad_confusion=found.hrad_confusion,
    )


@torch.no_grad()
def disturb(pair: Pair, noise: float) -> None:
    """Make the draft model a worse one: seeded noise on its matrices, `noise` times their own spread."""
    assert pair.draft is not None
    generator = torch.Generator().manual_seed(0)
    for weight in pair.draft.adapter.model.parameters():
        if weight.dim() > 1:
            step = torch.randn(weight.shape, generator=generator).to(weight.device, weight.dtype)
            weight.add_(step * weight.std() * noise)
    info = msgspec.structs.replace(pair.draft.info, name=f"{pair.draft.info.name} + noise {noise:g}")
    object.__setattr__(pair.draft, "info", info)


def _plain(question: AblationSettings) -> dict[str, Any]:
    settings = question.settings
    names = ("gamma", "max_new_tokens", "repeats", "temperature", "minutes", "lanes")
    values = {name: getattr(settings, name) for name in names}
    rest = {"threads": torch.get_num_threads(), "ratios": list(question.ratios), "noise": question.noise}
    return {**values, "knobs": settings.checked_knobs, **rest}


def _notes(rows: Sequence[VariantResult], question: AblationSettings) -> list[str]:
    out = ["every run writes exactly max_new_tokens tokens; end-of-text tokens are ignored"]
    full = next(row for row in rows if row.name == FULL)
    if full.hrad != "hrad":
        out.append(f"no classifier for this pair and gamma: signals are those of {full.hrad}, so -hrad changes nothing")
    if question.settings.temperature > 0:
        out.append("sampled methods keep the law of the text, not its tokens: no equality is promised for them")
    return out
