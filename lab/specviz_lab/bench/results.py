"""`Report`: what a measurement found, ready for JSON; and the bars it is held against."""

from collections.abc import Mapping, Sequence

import msgspec

from specviz.comparison.machine import Machine
from specviz_lab.bench.exit_costs import ExitCosts
from specviz_lab.bench.lengths import BestLength
from specviz_lab.bench.measure import Sample, Split, of_arm
from specviz_lab.bench.settings import LAYOUTS, OURS, PACKED, PLAIN, SERVED, Contestant
from specviz_lab.bench.statistics import Equality, PairedRatio, Spread, paired, spread

Runs = Mapping[tuple[int, int], Sample]
SCHEMA = "specviz.bench/1"
# arm, base: the comparisons worth reading, of those measured.
_NAMED = (
    ("ar", "hf-generate"),
    ("chain", "hf-assisted"),
    ("ngram", "hf-lookup"),
    ("chain", "ar"),
    ("tree", "ar"),
    ("ngram", "ar"),
    ("hf-assisted", "hf-generate"),
    ("hf-lookup", "hf-generate"),
    ("hf-early-exit", "hf-generate"),
    ("layerskip", "hf-early-exit"),
    ("specbound", "hf-early-exit"),
    ("ar", "llama-plain"),
    ("chain", "llama-draft"),
    ("ngram", "llama-ngram"),
    ("llama-draft", "llama-plain"),
    ("llama-ngram", "llama-plain"),
    ("hf-compiled", "hf-generate"),
)
_ELSEWHERE = (
    "hf-compiled",
    "hf-lookup",
    "hf-assisted",
    *(name for kind in SERVED for name in (kind, *(f"{kind}:{bits}" for bits in PACKED))),
)
PAIRS = (
    *_NAMED,
    *((kind, PLAIN) for kind in OURS if kind not in (PLAIN, *LAYOUTS) and (kind, PLAIN) not in _NAMED),
    *((kind, "hf-generate") for kind in OURS if kind != PLAIN),
    *((kind, PLAIN) for kind in _ELSEWHERE),
)


class ArmResult(msgspec.Struct, kw_only=True):
    """One arm. Times are of whole runs, prompt included; `round_ms`, `stage_ms`: medians, first rounds left out."""

    name: str
    n_runs: int
    tokens_per_second: Spread
    ms_per_token: Spread
    tokens_per_round: float | None
    draft_acceptance_rate: float | None
    n_drafted: int
    n_accepted: int
    round_ms: Spread | None
    stage_ms: dict[str, float]
    exits: ExitCosts | None = None  # where methods of early exit are measured, of every arm without a draft model


class BenchBar(msgspec.Struct):
    """A promise of the project and what was measured. `applies`: only on the machine and models it was set for."""

    text: str
    wanted: float
    found: float
    interval: tuple[float, float] | None
    met: bool
    applies: bool
    is_cost: bool = False


class PromptsUsed(msgspec.Struct, kw_only=True):
    """What was read and used. `n_left_out`: too long for the models' context together with the new tokens."""

    source: str
    sha256: str
    n_found: int
    n_used: int
    n_left_out: int
    mean_tokens: float


class Report(msgspec.Struct, kw_only=True):
    """Everything, in the order it is read. `cut`: the time was up before all repeats were done."""

    schema: str = SCHEMA
    wall: str
    command: str
    machine: Machine
    models: dict[str, str]
    settings: dict[str, object]
    thread_probe_ms: dict[int, float] | None
    prompts: PromptsUsed
    arms: list[ArmResult]
    ratios: list[PairedRatio]
    equality: list[Equality]
    bars: list[BenchBar]
    seconds: float
    cut: bool
    notes: list[str] = []
    lengths: list[BestLength] = []  # which draft length would pay


def arm_result(name: str, samples: Runs, splits: Sequence[Split], exits: ExitCosts | None = None) -> ArmResult:
    """The numbers of one arm."""
    rates = [len(s.tokens) / s.seconds for s in samples.values()]
    speed, pace = spread(rates), spread([1e3 / rate for rate in rates])
    assert speed is not None
    assert pace is not None
    rounds = [stages for split in splits for stages in split.rounds]
    drafted, accepted = sum(s.n_drafted for s in splits), sum(s.n_accepted for s in splits)
    n_rounds = sum(s.n_rounds for s in splits)
    names = dict.fromkeys(stage for stages in rounds for stage in stages)
    medians = {stage: spread([stages[stage] for stages in rounds]) for stage in names}
    return ArmResult(
        name=name,
        n_runs=len(samples),
        tokens_per_second=speed,
        ms_per_token=pace,
        tokens_per_round=sum(s.n_tokens for s in splits) / n_rounds if n_rounds else None,
        draft_acceptance_rate=accepted / drafted if drafted else None,
        n_drafted=drafted,
        n_accepted=accepted,
        round_ms=spread([sum(stages.values()) for stages in rounds]),
        stage_ms={stage: took.median for stage, took in medians.items() if took is not None},
        exits=exits,
    )


def ratios_of(arms: Sequence[Contestant], samples: Sequence[Sample]) -> list[PairedRatio]:
    """Every comparison worth reading; among them recorded arms against the same arm unrecorded, and what a method
    chooses by itself against knobs set by hand."""
    names = [arm.name for arm in arms]
    watched = []
    for arm in arms:
        # Level none decodes the text and counts as any run does; the bare arm, which stands in for it, does neither.
        none = f"{arm.bare}+none"
        if arm.level:
            watched.append((arm.name, none if none in names and arm.name != none else arm.bare))
        elif arm.knobs:
            watched.append((arm.kind, arm.name))
    runs = {name: of_arm(samples, k) for k, name in enumerate(names)}
    ratios = [ratio_of(arm, base, runs) for arm, base in (*PAIRS, *watched) if arm in runs and base in runs]
    return [ratio for ratio in ratios if ratio is not None]


def ratio_of(arm: str, base: str, runs: Mapping[str, Runs]) -> PairedRatio | None:
    """By the wall, and by the processor's time where every run has it."""
    wall = [{key: s.seconds / len(s.tokens) for key, s in runs[name].items()} for name in (arm, base)]
    cpu = [{key: s.cpu_seconds or 0.0 for key, s in runs[name].items()} for name in (arm, base)]
    ratio = paired(arm, base, *wall)
    if ratio is None or not all(all(times.values()) for times in cpu):
        return ratio
    again = paired(arm, base, *cpu)  # all runs write the same number of tokens
    return ratio if again is None else msgspec.structs.replace(ratio, cpu=again.value, cpu_interval=again.interval)


def bars_of(ratios: Sequence[PairedRatio], applies: bool) -> list[BenchBar]:
    """The bars that were measured. A speed must reach its bar, a cost must stay below it."""
    out = []
    for ratio in ratios:
        for arm, base, wanted, text in _SPEEDS:
            if (ratio.arm, ratio.base) == (arm, base):
                met = ratio.value >= wanted
                out.append(BenchBar(text, wanted, ratio.value, ratio.interval, met, applies))
        for level, wanted in _COSTS.items():
            kind = ratio.base.removesuffix("+none")
            if ratio.arm == f"{kind}+{level}":
                interval = ratio.interval and (1 / ratio.interval[1] - 1, 1 / ratio.interval[0] - 1)
                text = f"recording {kind} at level {level} costs at most {wanted:.0%}"
                out.append(BenchBar(text, wanted, ratio.cost, interval, ratio.cost <= wanted, applies, is_cost=True))
    return out


_SPEEDS = (
    ("ar", "hf-generate", 1.05, "ar is at least 1.05 times as fast as generate"),
    ("chain", "hf-assisted", 1.3, "chain is at least 1.3 times as fast as assisted generation at equal gamma"),
)
_COSTS = {"summary": 0.015, "full": 0.05}
