"""What the machine allows our arms, and which draft length would pay: of the runs that were taken apart.

The passes of target and draft model are timed by rows once, after everything else, and held against the bandwidth and
rate that a probe finds (specviz.cost.roofline). An arm that drafts chains gets the curve of specviz.cost.payoff.
"""

from collections.abc import Sequence
from dataclasses import asdict
from statistics import fmean
from typing import Any

import msgspec

from specviz.cost.payoff import Payoff, PositionChance, RoundCosts, payoff
from specviz.cost.roofline import CONTEXT, Roofline, bound, of_round
from specviz.engine.decode.overlap_choice import calibrate
from specviz.engine.decode.pass_cost import machine_rates
from specviz.engine.model.adapter import FactoryModels
from specviz.engine.run.local import Pair
from specviz.events import Calibration, MachineRates, PassWork
from specviz.metrics.estimate import wilson_interval
from specviz_lab.bench.measure import BenchArm, Split, Tokens
from specviz_lab.bench.ours import OurArm

PATIENCE_S = 0.5


class TimedPass(msgspec.Struct, kw_only=True, frozen=True):
    """A pass of the target over so many rows: at least, and measured. `by`: bandwidth or arithmetic."""

    rows: int
    bound_ms: float
    measured_ms: float
    by: str

    @property
    def share(self) -> float:
        return self.bound_ms / self.measured_ms


class RoundPart(msgspec.Struct, kw_only=True, frozen=True):
    """A part of an arm's mean round; `arm` is its name in the first line only."""

    arm: str
    part: str
    bound_ms: float
    measured_ms: float


class BestLength(msgspec.Struct, kw_only=True, frozen=True):
    """Tokens a second by draft length (`speeds[gamma]`, 0 plain decoding), and what is best."""

    arm: str
    own: int
    measured: float
    best: int
    gain: float
    gain_interval: tuple[float, float]
    over_plain: float
    speeds: list[float]

    @property
    def told_apart(self) -> bool:
        return self.gain_interval[0] > 1


class BenchRoof(msgspec.Struct, kw_only=True):
    """Everything that is held against the machine."""

    rates: MachineRates
    target: PassWork
    draft: PassWork | None
    passes: list[TimedPass]
    rounds: list[RoundPart]
    lengths: list[BestLength]


def roof_of(
    arms: Sequence[BenchArm], splits: Sequence[Sequence[Split]], prompts: Sequence[Tokens], n: int, pair: Pair
) -> BenchRoof | None:
    """Of our unwatched arms; None without any, and for a model whose work a pass is not known."""
    ours = [(k, arm) for k, arm in enumerate(arms) if isinstance(arm, OurArm) and arm.level is None and splits[k]]
    if not ours:
        return None
    target, draft = pair.target.adapter, pair.draft.adapter if pair.draft else None
    found = calibrate(FactoryModels(target, draft, 0), None, PATIENCE_S)
    if found is None or found.target_work is None:
        return None
    found.rates = machine_rates(target.device, target.dtype, again=True)
    context = fmean(map(len, prompts)) + n / 2
    out = BenchRoof(
        rates=found.rates,
        target=found.target_work,
        draft=found.draft_work,
        passes=_passes(found, found.target_work, found.rates),
        rounds=[],
        lengths=[],
    )
    for k, arm in ours:
        out.rounds += _rounds(arm, splits[k], found, context)
        best = _length(arm, splits[k], found)
        out.lengths += [best] if best is not None else []
    return out


def _passes(found: Calibration, work: PassWork, rates: MachineRates) -> list[TimedPass]:
    out = []
    for rows, ns in zip(found.widths, found.target_ns, strict=True):
        least = bound(work, rates, rows, CONTEXT)
        out.append(TimedPass(rows=rows, bound_ms=least.seconds * 1e3, measured_ms=ns / 1e6, by=least.by))
    return out


def _rounds(arm: OurArm, splits: Sequence[Split], found: Calibration, context: float) -> list[RoundPart]:
    stages, n_rounds = _stages(splits), sum(split.n_rounds for split in splits)
    if not stages or not n_rounds:
        return []
    rows = 1 + sum(split.n_drafted for split in splits) / n_rounds
    calls = sum(split.n_draft_calls for split in splits) / n_rounds if arm.method.needs_draft else 0.0
    roof: Roofline | None = of_round(found, stages, rows, context, calls)
    return [
        RoundPart(
            arm=arm.name if number == 0 else "",
            part=part.name,
            bound_ms=part.bound_s * 1e3,
            measured_ms=part.measured_s * 1e3,
        )
        for number, part in enumerate(roof.parts if roof is not None else ())
    ]


def _stages(splits: Sequence[Split]) -> dict[str, float]:
    """Mean milliseconds of every stage."""
    rounds = [stages for split in splits for stages in split.rounds]
    return {name: fmean(stages[name] for stages in rounds) for name in (rounds[0] if rounds else ())}


def _length(arm: OurArm, splits: Sequence[Split], found: Calibration) -> BestLength | None:
    """Of an arm whose drafts were chains tested from the first token on, and whose length is a knob."""
    chains, stages = [chain for split in splits for chain in split.chains], _stages(splits)
    n_rounds, drafted = sum(split.n_rounds for split in splits), sum(split.n_drafted for split in splits)
    gamma: Any = arm.knobs.values.get("gamma")
    if not isinstance(gamma, int) or not stages or not drafted or len(chains) < n_rounds:
        return None
    calls = sum(split.n_draft_calls for split in splits)
    drafting, grows = stages["draft"] / 1e3, calls >= 0.8 * drafted
    costs = RoundCosts(
        tuple(found.widths),
        tuple(ns / 1e9 for ns in found.target_ns),
        step_s=drafting * n_rounds / drafted if grows else 0.0,
        rest_s=sum(stages[name] for name in ("verdict", "commit", "other")) / 1e3,
        fixed_s=0.0 if grows else drafting,
    )
    tokens, seconds = sum(split.n_tokens for split in splits), n_rounds * sum(stages.values()) / 1e3
    curve: Payoff | None = payoff(counted(chains), costs, gamma, tokens / seconds)
    if curve is None or curve.gain is None or curve.gain_interval is None:
        return None
    return BestLength(
        arm=arm.name,
        own=gamma,
        measured=tokens / seconds,
        best=curve.best,
        gain=curve.gain,
        gain_interval=curve.gain_interval,
        over_plain=curve.over_plain,
        speeds=list(asdict(curve)["speeds"]),
    )


def counted(rounds: Sequence[tuple[int, int]]) -> dict[int, PositionChance]:
    """Chances by position from rounds of chains, `(drafted, accepted)` each, tested from the first token on."""
    tested: dict[int, int] = {}
    kept: dict[int, int] = {}
    for drafted, accepted in rounds:
        for t in range(1, min(drafted, accepted + 1) + 1):
            tested[t] = tested.get(t, 0) + 1
            kept[t] = kept.get(t, 0) + (t <= accepted)
    out = {}
    for t, n in sorted(tested.items()):
        low, high = wilson_interval(kept[t], n)
        out[t] = PositionChance(kept[t] / n, low, high, n)
    return out
