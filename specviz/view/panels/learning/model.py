"""The bandit's panel: what was done after every query, what it expected, what it cost, and what came of it.

Plain values. Seconds unless said otherwise; `gain` is a rise of the mean acceptance length.
"""

from dataclasses import dataclass
from typing import Literal

from specviz.runlog.run import Mark
from specviz.view.frame.parts import WhyRow

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
