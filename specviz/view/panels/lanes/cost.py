"""The cost panel: what a token costs in each pipeline by draft length, and where the run stands.

Theorem 1 as published, the exact latencies of the literal pipelines and the run itself, on one clock at a time, stay
apart. Unit of all latencies: one draft forward.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import msgspec

from specviz.cost import pipelines
from specviz.events import Fork, Match
from specviz.runlog.fold import Run
from specviz.runlog.run import RoundRecord
from specviz.view.frame.series import Meter
from specviz.view.words.numbers import number, prob, times

if TYPE_CHECKING:
    from specviz.metrics import Metrics

ClockName = Literal["measured", "modelled"]
CURVES = (  # key, label, what it is
    ("theorem", "Theorem 1, as published", "averages rates, and leaves out the token a rejection still commits"),
    ("sps", "SpS", "draft, then verify; exact"),
    ("full", "overlap, whole slot lost", "the next draft beside the pass; a rejection costs a slot; exact"),
    ("refill", "overlap, draft refilled", "a rejection costs the drafting alone, with an idle target; exact"),
    ("pearl", "PEARL", "first token checked beside drafting; exact"),
    ("branch", "SpecBranch chain", "branches beside the pass, exact for a constant number of pending tokens"),
)
_COST = {
    "sps": pipelines.sps,
    "full": pipelines.overlap_full_refill,
    "refill": pipelines.overlap_draft_refill,
    "pearl": pipelines.pearl,
    "theorem": pipelines.theorem_1,
}
_ASSUMED_C, _LEAST, _MOST = 8.0, 12, 64


@dataclass(frozen=True, slots=True)
class Operating:
    """What the formulas need, as far as a run tells. `alpha`: accepted / tested; `c`: a target pass in draft forwards.

    `hit`: how often a branch was hit, None where nothing branched. `latency`: of a token, per clock.
    """

    method: str
    alpha: float | None
    gamma: int | None
    c: float | None
    hit: float | None
    t_ms: float | None
    latency: dict[ClockName, float]
    missing: str  # why c and the latencies are not known


@dataclass(frozen=True, slots=True)
class CostCurve:
    """Latency by draft length; `best` is the length with the smallest one."""

    key: str
    label: str
    help: str
    values: tuple[float, ...]
    texts: tuple[str, ...]
    best: int
    text: str  # "best at γ 5: 10.2, 1.5×"


@dataclass(frozen=True, slots=True)
class CostPanel:
    """All curves at one alpha, c and hit rate. `point`: the run at its own γ on the clock asked for."""

    alpha: float
    c: float
    hit: float
    xs: tuple[int, ...]
    curves: tuple[CostCurve, ...]
    plain: float  # of plain decoding: c
    point: tuple[int, float] | None
    point_text: str
    words: str


class Worked:
    """What the rounds of a run did, added up round by round."""

    def __init__(self) -> None:
        self.matches = self.hits = self.measured_ns = 0
        self.forked = False
        self._done = 0

    def behind(self, run: Run) -> int:
        """Rounds not taken in yet."""
        return len(run.rounds) - self._done

    def add(self, run: Run, stop: int | None = None) -> "Worked":
        """Take in the rounds that have come since, those before `stop`; the last may still grow."""
        while self._done < (len(run.rounds) if stop is None else stop):
            record = run.rounds[self._done]
            if record.end is None and self._done == len(run.rounds) - 1:
                break
            self._next(record)
        return self

    def take(self, record: RoundRecord) -> None:
        """The next round, as it ended; another one is left to `add`."""
        if record.index == self._done:
            self._next(record)

    def kept(self) -> bytes:
        """As MessagePack."""
        return msgspec.msgpack.encode((self._done, self.matches, self.hits, self.measured_ns, self.forked))

    def restore(self, data: bytes) -> None:
        """What was kept, in place of adding it up. Raises ValueError for something else."""
        found = msgspec.msgpack.decode(data, type=tuple[int, int, int, int, bool])
        self._done, self.matches, self.hits, self.measured_ns, self.forked = found

    def _next(self, record: RoundRecord) -> None:
        self._done += 1
        found = record.every(Match)
        self.matches, self.hits = self.matches + len(found), self.hits + sum(m.branch is not None for m in found)
        self.forked = self.forked or bool(record.every(Fork))
        if record.complete and record.end is not None:
            self.measured_ns += sum(record.end.stage_ns.values())


def operating(run: Run, metrics: "Metrics | None" = None, worked: Worked | None = None) -> Operating:
    """The run's own numbers; what is known of them already may be handed in."""
    if metrics is None and run.rounds:
        metrics = Meter().metrics(run)
    worked = (worked or Worked()).add(run)
    knobs = run.knobs
    gamma = knobs.get("gamma")
    tested = metrics.test_acceptance_rate if metrics is not None else None
    alone = run.header is not None and run.header.models.draft is None
    modelled = metrics.modelled if metrics is not None and not alone else None
    why = (
        "it drafts without a second model, which these pipelines need"
        if alone
        else ("the trace holds no calibration: what a forward takes here was not measured")
    )
    return Operating(
        method=run.header.method if run.header is not None else "",
        alpha=tested.value if tested else None,
        gamma=int(gamma) if isinstance(gamma, int) and gamma > 0 else None,
        c=modelled.c if modelled else None,
        hit=worked.hits / worked.matches if worked.matches else 0.0 if worked.forked else None,
        t_ms=modelled.t_s * 1e3 if modelled else None,
        latency={} if alone else _latencies(worked.measured_ns, metrics),
        missing="" if modelled else why,
    )


def _latencies(measured_ns: int, metrics: "Metrics | None") -> dict[ClockName, float]:
    """Of a token, in draft forwards: the measured rounds, and the modelled ones. Never a mixture."""
    modelled = metrics.modelled if metrics is not None else None
    if metrics is None or modelled is None or not modelled.t_s or not metrics.n_emitted:
        return {}
    return {
        "measured": measured_ns / 1e9 / metrics.n_emitted / modelled.t_s,
        "modelled": modelled.elapsed_s / metrics.n_emitted / modelled.t_s,
    }


def cost_panel(
    at: Operating,
    clock: ClockName = "modelled",
    alpha: float | None = None,
    c: float | None = None,
    hit: float | None = None,
) -> CostPanel:
    """The panel at a run's own numbers, or at others that are tried; what nobody knows is a plain assumption."""
    alpha = _first(alpha, at.alpha, 0.7)
    c = _first(c, at.c, _ASSUMED_C)
    hit = _first(hit, at.hit, 0.8)
    most = min(_MOST, max(_LEAST, round(2 * c), at.gamma or 0))
    xs = tuple(range(1, most + 1))
    curves = tuple(_curve(key, label, help_, alpha, c, hit, xs) for key, label, help_ in CURVES)
    latency = at.latency.get(clock)
    point = (at.gamma, latency) if latency is not None and at.gamma is not None else None
    return CostPanel(
        alpha, c, hit, xs, curves, pipelines.ideal_ar(c), point, _point_text(at, clock, c), _words(curves, alpha, c)
    )


def _first(*values: float | None) -> float:
    return next(value for value in values if value is not None)


def _curve(key: str, label: str, help_: str, alpha: float, c: float, hit: float, xs: tuple[int, ...]) -> CostCurve:
    if key == "branch":  # branches of γ tokens keep γ - 1 pending after a hit
        values = tuple(pipelines.specbranch_chain(alpha, x - 1, c, hit, x) for x in xs)
    else:
        values = tuple(_COST[key](alpha, x, c) for x in xs)
    best = min(range(len(xs)), key=lambda k: (values[k], k))
    text = (
        f"best at γ {xs[best]}: {number(values[best])} draft forwards a token, {times(c / values[best])} plain decoding"
    )
    texts = tuple(
        f"{label}, γ {x}\n{number(v)} draft forwards a token\n{times(c / v)} plain decoding"
        for x, v in zip(xs, values, strict=True)
    )
    return CostCurve(key, label, help_, values, texts, xs[best], text)


def _point_text(at: Operating, clock: ClockName, c: float) -> str:
    latency = at.latency.get(clock)
    if latency is None:
        return f"The run is not on this picture: {at.missing or 'its tokens have no time'}."
    gamma = f" at γ {at.gamma}" if at.gamma is not None else ""
    unit = f"; a draft forward takes {number(at.t_ms)} ms" if at.t_ms is not None else ""
    return (
        f"This run ({at.method}){gamma} on the {clock} clock: {number(latency)} draft forwards a token, "
        f"{times(c / latency)} plain decoding{unit}."
    )


def _words(curves: tuple[CostCurve, ...], alpha: float, c: float) -> str:
    best = {curve.key: curve for curve in curves}
    least = min((curve for curve in curves if curve.key != "theorem"), key=lambda curve: min(curve.values))
    return (
        f"At acceptance {prob(alpha)} and c {number(c)} Theorem 1 wants γ = {best['theorem'].best} whatever the "
        f"acceptance; exactly, SpS is best at γ {best['sps'].best}, refilling overlap at {best['refill'].best}, "
        f"PEARL at {best['pearl'].best}. Cheapest of these: {least.label}, γ {least.best}."
    )
