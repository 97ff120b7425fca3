"""The bandit's panel from `adapt` records: what every action was expected to bring, what was done, what came of it.

Seconds unless said otherwise; `gain` is a rise of the mean acceptance length.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from specviz.events import Adapt
from specviz.runlog.fold import Run
from specviz.runlog.run import Mark, Query, RoundRecord
from specviz.text import shown
from specviz.traits import MethodTraits
from specviz.view.frame.frame import PanelOptions
from specviz.view.frame.parts import WhyRow
from specviz.view.panels import Panel, Scene
from specviz.view.words.numbers import UNKNOWN, mean, number, short_seconds

Action = Literal["skip", "head", "full"]
ACTIONS: dict[str, tuple[str, str]] = {  # glyph, words
    "skip": ("·", "learn nothing"),
    "head": ("◐", "output and rank head"),
    "full": ("●", "every weight of the drafter"),
}
REASONS: dict[str, str] = {
    "exploit": "it pays for sure: its lower bound is above 0",
    "explore": "it may pay: tried within the exploring budget",
    "skip": "nothing is expected to pay, or too little was learnt from this query",
    "guard": "the guard stepped in",
}


@dataclass(frozen=True, slots=True)
class ArmView:
    """One action at one query. Bounds in seconds; None: not on record."""

    action: str
    glyph: str
    words: str
    gain: float | None
    se: float | None
    save: float | None
    cost: float | None
    mean: float | None  # save - cost
    lcb: float | None
    ucb: float | None  # inf: too seldom tried
    chosen: bool
    n: int | None  # times taken before
    text: str  # "LCB −.2 · mean .4 · UCB 1.1 s"


@dataclass(frozen=True, slots=True)
class AdaptStep:
    """A query and what was learnt at its end."""

    q: int
    index: int | None  # of its last round over the run: where to jump
    domain: str
    n_rounds: int
    tau: float | None  # mean acceptance length of the query
    S: float
    s: float
    n_rejections: int
    action: str
    reason: str
    measured_gain: float | None  # by held-out coverage
    coverage: tuple[float | None, float | None]  # held out, before and after
    regret: float | None  # by the bandit's own estimates
    total_regret: float  # up to here
    replay_regret: float | None  # true regret, where replays were asked for
    reverted: bool
    reset: str | None  # "anchor", "base": weights put back
    version: int  # of the weights after it
    update_s: float | None
    mark: Mark
    arms: tuple[ArmView, ...]  # every allowed action, skip not among them
    spent: float
    budget: float
    n_events: int | None
    words: str
    cursor: bool  # the query on screen


@dataclass(frozen=True, slots=True)
class DomainRow:
    """Queries of one domain: the mean length of the earlier half and of the later half of them."""

    domain: str
    n: int
    tau: float | None
    first: float | None
    last: float | None


@dataclass(frozen=True, slots=True)
class AdaptView:
    """The bandit over the run, at the query on screen."""

    steps: tuple[AdaptStep, ...]
    arms: tuple[ArmView, ...]  # of the query on screen
    counts: tuple[tuple[str, int], ...]  # action, times taken
    spent: float
    budget: float
    total_regret: float
    n_reverted: int
    version: int
    domains: tuple[DomainRow, ...]
    words: str
    summary: tuple[WhyRow, ...] = ()


@dataclass(frozen=True, slots=True)
class Learning:
    """What was learnt while serving. `missing`: why there is nothing."""

    missing: str
    view: AdaptView | None = None


class LearningPanel(Panel[PanelOptions, Learning]):
    """Of one run."""

    id, title = "learning", "Learning"

    @classmethod
    def needs(cls, traits: MethodTraits) -> bool:
        """A drafter that learns while it serves."""
        return traits.learns

    @classmethod
    def worth(cls, run: Run) -> int:
        """A run that learnt fills it; one that only could have shows nothing."""
        if not _missing(run):
            return 2
        return int(cls.needs(run.method_traits) and run.knobs.get("adapt") == "on")

    def empty(self, reason: str) -> Learning:
        return Learning(reason)

    def build(self, scene: Scene, options: PanelOptions) -> Learning:
        """The decisions after every query."""
        return Learning(_missing(self.run), _view(self.run, scene.record))


def _missing(run: Run) -> str:
    """Why there is no bandit to see."""
    method = run.header.method if run.header else ""
    if not LearningPanel.needs(run.method_traits):
        return f"{method} does not learn while it serves; specviz run --method specblock --adapt on does."
    if any(query.adapt is not None for query in run.queries):
        return ""
    if run.knobs.get("adapt") == "on":
        return "No query has ended yet: the bandit decides between queries."
    return "The drafter does not learn in this run: knob adapt on, with a stream of queries (specviz run --stream)."


def _view(run: Run, record: RoundRecord) -> AdaptView | None:
    """The bandit at the query on screen; None before the first decision."""
    steps: list[AdaptStep] = []
    total = 0.0
    for query in run.queries:
        if query.adapt is not None:
            total += query.adapt.regret or 0.0
            steps.append(_step(query, query.adapt, total, query is record.query))
    if not steps:
        return None
    last = next((query.adapt for query in reversed(run.queries) if query.adapt is not None), None)
    assert last is not None
    here = next((step for step in steps if step.cursor), steps[-1])
    taken = Counter(step.action for step in steps)
    allowed = [*ACTIONS]
    return AdaptView(
        steps=tuple(steps),
        arms=here.arms,
        counts=tuple((action, taken[action]) for action in allowed),
        spent=last.spent,
        budget=last.budget,
        total_regret=total,
        n_reverted=sum(step.reverted for step in steps),
        version=last.version_after,
        domains=tuple(_domains(steps)),
        words=here.words,
        summary=tuple(_summary(steps, last, total, taken)),
    )


def _step(query: Query, found: Adapt, total: float, cursor: bool) -> AdaptStep:
    last = query.first + query.n_rounds - 1 if query.n_rounds else None
    domain = found.domain or (query.prefill.domain if query.prefill is not None else "") or ""
    return AdaptStep(
        q=query.number,
        index=last,
        domain=shown(domain),
        n_rounds=found.n_rounds or query.n_rounds,
        tau=found.mean_acceptance_length,
        S=found.S,
        s=found.s,
        n_rejections=found.n_rejections,
        action=found.action,
        reason=found.reason,
        measured_gain=found.measured_gain,
        coverage=(found.coverage_before, found.coverage_after),
        regret=found.regret,
        total_regret=total,
        replay_regret=found.replay_regret,
        reverted=found.reverted,
        reset=found.reset,
        version=found.version_after,
        update_s=found.update_s,
        mark=_mark(found),
        arms=tuple(_arms(found)),
        spent=found.spent,
        budget=found.budget,
        n_events=found.n_events or None,
        words=step_words(found),
        cursor=cursor,
    )


def _mark(found: Adapt) -> Mark:
    if found.reverted or found.reset:
        return "rejected"
    return "untested" if found.action == "skip" else "accepted"


def _arms(found: Adapt) -> list[ArmView]:
    """Every allowed action; of an older record the one that was taken."""
    out = []
    for arm in found.arms:
        ucb = math.inf if arm.ucb is None else arm.ucb
        out.append(_arm(found, arm.action, arm.gain, arm.se, arm.save, arm.cost, arm.lcb, ucb, arm.n))
    if not out and found.action != "skip":
        out.append(_arm(found, found.action, found.gain, found.se, found.save, found.cost, found.lcb, found.ucb, None))
    return out


def _arm(
    found: Adapt,
    action: str,
    gain: float | None,
    se: float | None,
    save: float | None,
    cost: float | None,
    lcb: float | None,
    ucb: float | None,
    n: int | None,
) -> ArmView:
    glyph, words = ACTIONS.get(action, ("?", action))
    mean = save - cost if save is not None and cost is not None else None
    text = f"at least {short_seconds(lcb)} · expected {short_seconds(mean)} · at most {short_seconds(ucb)}"
    return ArmView(action, glyph, words, gain, se, save, cost, mean, lcb, ucb, action == found.action, n, text)


def step_words(found: Adapt) -> str:
    """What was done after a query, why, and what came of it."""
    what = ACTIONS.get(found.action, ("", found.action))[1]
    text = f"{found.n_rejections} rejections with a surprise of {number(found.s)} a round. "
    if found.frozen:
        return f"{text}Updates are frozen: nothing was learnt."
    text += f"Chosen: {found.action} ({what}): {REASONS.get(found.reason, found.reason)}."
    if found.action != "skip" and found.measured_gain is not None:
        text += (
            f" Held-out coverage went from {_share(found.coverage_before)} to {_share(found.coverage_after)}, worth "
            f"{number(found.measured_gain)} tokens a round"
        )
        text += f", for {short_seconds(found.update_s)}." if found.update_s is not None else "."
    if found.reverted:
        text += " It was taken back: coverage fell, or a weight was not finite. Its cost stays charged."
    if found.reset:
        text += f" Weights were put back to the {found.reset}."
    return text


def _share(value: float | None) -> str:
    return UNKNOWN if value is None else number(value)


def _domains(steps: Sequence[AdaptStep]) -> list[DomainRow]:
    """Length by domain, and whether it rose: first half of its queries against the rest."""
    out = []
    for domain in dict.fromkeys(step.domain for step in steps):
        taus = [step.tau for step in steps if step.domain == domain and step.tau is not None]
        half = (len(taus) + 1) // 2
        early, late = taus[:half], taus[half:]
        n = sum(step.domain == domain for step in steps)
        out.append(DomainRow(domain or UNKNOWN, n, mean(taus), mean(early), mean(late)))
    return out


def _summary(steps: Sequence[AdaptStep], last: Adapt, total: float, taken: Counter[str]) -> list[WhyRow]:
    share = last.spent / last.budget if last.budget else None
    reverted = sum(step.reverted for step in steps)
    rows = [
        WhyRow("queries", str(len(steps)), None, " · ".join(f"{name} {taken[name]}" for name in ACTIONS)),
        WhyRow(
            "exploring",
            f"{short_seconds(last.spent)} of {short_seconds(last.budget)}",
            None if share is None else min(1, share),
        ),
        WhyRow("regret so far", short_seconds(total), None, "by the bandit's own estimates"),
        WhyRow("taken back", str(reverted), None, "updates that made held-out coverage worse"),
        WhyRow("weights", f"version {last.version_after}"),
    ]
    true = [step.replay_regret for step in steps if step.replay_regret is not None]
    if true:
        rows.insert(3, WhyRow("true regret", short_seconds(sum(true)), None, "by replaying every action on copies"))
    return rows
