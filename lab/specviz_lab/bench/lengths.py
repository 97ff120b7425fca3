"""Which draft length would pay: the curve of specviz.cost.payoff for the arms that were taken apart and draft chains.

The passes of target and draft model are timed by rows once, after everything else.
"""

from collections.abc import Sequence
from dataclasses import asdict
from statistics import fmean
from typing import Any

import msgspec

from specviz.cost.payoff import Payoff, PositionChance, RoundCosts, payoff
from specviz.engine.measure import calibrate
from specviz.engine.model.adapter import FactoryModels
from specviz.engine.run.local import Pair
from specviz.events import Calibration
from specviz.metrics.estimate import wilson_interval
from specviz_lab.bench.measure import BenchArm, Split
from specviz_lab.bench.ours import OurArm

PATIENCE_S = 0.5


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


def best_lengths(arms: Sequence[BenchArm], splits: Sequence[Sequence[Split]], pair: Pair) -> list[BestLength]:
    """Of our unwatched arms that draft chains of a length that is a knob."""
    ours = [(k, arm) for k, arm in enumerate(arms) if isinstance(arm, OurArm) and arm.level is None and splits[k]]
    if not ours:
        return []
    target, draft = pair.target.adapter, pair.draft.adapter if pair.draft else None
    costs = calibrate(FactoryModels(target, draft, 0), None, PATIENCE_S)
    if costs is None:
        return []
    lengths = (_length(arm, splits[k], costs) for k, arm in ours)
    return [length for length in lengths if length is not None]


def _stages(splits: Sequence[Split]) -> dict[str, float]:
    """Mean milliseconds of every stage."""
    rounds = [stages for split in splits for stages in split.rounds]
    return {name: fmean(stages[name] for stages in rounds) for name in (rounds[0] if rounds else ())}


def _length(arm: OurArm, splits: Sequence[Split], timed: Calibration) -> BestLength | None:
    """Of an arm whose drafts were chains tested from the first token on, and whose length is a knob."""
    chains, stages = [chain for split in splits for chain in split.chains], _stages(splits)
    n_rounds, drafted = sum(split.n_rounds for split in splits), sum(split.n_drafted for split in splits)
    gamma: Any = arm.knobs.values.get("gamma")
    if not isinstance(gamma, int) or not stages or not drafted or len(chains) < n_rounds:
        return None
    calls = sum(split.n_draft_calls for split in splits)
    drafting, grows = stages["draft"] / 1e3, calls >= 0.8 * drafted
    costs = RoundCosts(
        tuple(timed.widths),
        tuple(ns / 1e9 for ns in timed.target_ns),
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
