"""What was learnt while serving, from `adapt` records: a line a query, what was done after it, and what came of it.

Seconds unless said otherwise; `gain` is a rise of the mean acceptance length.
"""

import math
from collections import Counter
from dataclasses import dataclass

from specviz.events import Adapt
from specviz.runlog.fold import Run
from specviz.runlog.run import Mark, Query, RoundRecord
from specviz.text import shown
from specviz.traits import MethodTraits
from specviz.view.frame.frame import PanelOptions
from specviz.view.frame.parts import WhyRow
from specviz.view.panels import Panel, Scene
from specviz.view.words.numbers import UNKNOWN, number, short_seconds

ACTIONS: dict[str, str] = {
    "skip": "learn nothing",
    "head": "output and rank head",
    "full": "every weight of the drafter",
}
REASONS: dict[str, str] = {
    "exploit": "it pays for sure: its lower bound is above 0",
    "explore": "it may pay: tried within the exploring budget",
    "skip": "nothing is expected to pay, or too little was learnt from this query",
    "guard": "the guard stepped in",
}


@dataclass(frozen=True, slots=True)
class AdaptStep:
    """A query and what was learnt at its end."""

    q: int
    index: int | None  # of its last round over the run: where to jump
    domain: str
    tau: float | None  # mean acceptance length of the query
    s: float  # surprise a round
    action: str
    reason: str
    measured_gain: float | None  # by held-out coverage
    regret: float | None  # by the bandit's own estimates
    total_regret: float  # up to here
    spent: float  # on exploring, up to here
    mark: Mark
    words: str
    cursor: bool  # the query on screen
    reverted: bool
    reset: str | None  # "anchor", "base": weights put back


@dataclass(frozen=True, slots=True)
class AdaptView:
    """The run, at the query on screen. `words`: the decision after it; `actions`: what each of them was worth there."""

    steps: tuple[AdaptStep, ...]
    words: str
    actions: tuple[str, ...]
    summary: tuple[WhyRow, ...]


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
    """The queries; None before the first decision."""
    steps: list[AdaptStep] = []
    learnt = [(query, query.adapt) for query in run.queries if query.adapt is not None]
    total = 0.0
    for query, found in learnt:
        total += found.regret or 0.0
        steps.append(_step(query, found, total, query is record.query))
    if not learnt:
        return None
    here = next((found for query, found in learnt if query is record.query), learnt[-1][1])
    return AdaptView(
        tuple(steps), step_words(here), tuple(_actions(here)), tuple(_summary([a for _, a in learnt], total))
    )


def _step(query: Query, found: Adapt, total: float, cursor: bool) -> AdaptStep:
    domain = found.domain or (query.prefill.domain if query.prefill is not None else "") or ""
    back = found.reverted or found.reset
    return AdaptStep(
        q=query.number,
        index=query.first + query.n_rounds - 1 if query.n_rounds else None,
        domain=shown(domain),
        tau=found.mean_acceptance_length,
        s=found.s,
        action=found.action,
        reason=found.reason,
        measured_gain=found.measured_gain,
        regret=found.regret,
        total_regret=total,
        spent=found.spent,
        mark="rejected" if back else "untested" if found.action == "skip" else "accepted",
        words=step_words(found),
        cursor=cursor,
        reverted=found.reverted,
        reset=found.reset,
    )


def _actions(found: Adapt) -> list[str]:
    """Every allowed action, the one taken marked; older records hold the one taken alone, and its words say it."""
    out = []
    for arm in found.arms:
        upper = math.inf if arm.ucb is None else arm.ucb
        worth = (
            f"expected {short_seconds(arm.save - arm.cost)}" if None not in (arm.save, arm.cost) else "not yet known"
        )
        out.append(
            f"{'▶' if arm.action == found.action else ' '} {arm.action} ({ACTIONS.get(arm.action, '')}): {worth}, at "
            f"least {short_seconds(arm.lcb)}, at most {short_seconds(upper)}; costs {short_seconds(arm.cost)}, "
            f"taken {arm.n} times before"
        )
    return out


def step_words(found: Adapt) -> str:
    """What was done after a query, why, and what came of it."""
    text = f"{found.n_rejections} rejections with a surprise of {number(found.s)} a round. "
    if found.frozen:
        return f"{text}Updates are frozen: nothing was learnt."
    what = ACTIONS.get(found.action, found.action)
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


def _summary(learnt: list[Adapt], total: float) -> list[WhyRow]:
    last, taken = learnt[-1], Counter[str](found.action for found in learnt)
    share = min(1, last.spent / last.budget) if last.budget else None
    rows = [
        WhyRow("queries", str(len(learnt)), None, " · ".join(f"{name} {taken[name]}" for name in ACTIONS)),
        WhyRow("exploring", f"{short_seconds(last.spent)} of {short_seconds(last.budget)}", share),
        WhyRow("regret so far", short_seconds(total), None, "by the bandit's own estimates"),
        WhyRow("taken back", str(sum(a.reverted for a in learnt)), None, "updates that made held-out coverage worse"),
        WhyRow("weights", f"version {last.version_after}"),
    ]
    true = [found.replay_regret for found in learnt if found.replay_regret is not None]
    if true:
        rows.insert(3, WhyRow("true regret", short_seconds(sum(true)), None, "by replaying every action on copies"))
    return rows
