"""What was learnt while serving, over a run: actions, what exploring cost, what was taken back, and regret
(specblock.md 8)."""

from collections import Counter

import msgspec

from specviz.events import Adapt, Event


class Adapted(msgspec.Struct, frozen=True, kw_only=True):
    """Over all queries that ended with a decision. `regret`: seconds that the decisions gave up against the best
    expected profit, null when none is on record; `spent_s`, `budget_s`: seconds of exploring."""

    n_queries: int
    actions: dict[str, int]
    reasons: dict[str, int]
    n_reverted: int
    spent_s: float
    budget_s: float
    regret: float | None
    version: int


class AdaptTally:
    """Give it every record in order."""

    def __init__(self) -> None:
        self._n = self._n_reverted = 0
        self._actions: Counter[str] = Counter()
        self._reasons: Counter[str] = Counter()
        self._regret: float | None = None
        self._last: Adapt | None = None

    def add(self, event: Event) -> None:
        """Take in a record."""
        if not isinstance(event, Adapt):
            return
        self._last, self._n = event, self._n + 1
        self._actions[event.action] += 1
        self._reasons[event.reason] += 1
        self._n_reverted += event.reverted
        if event.regret is not None:
            self._regret = (self._regret or 0) + event.regret

    def summary(self) -> Adapted | None:
        """None where nothing learns."""
        last = self._last
        if last is None:
            return None
        return Adapted(
            n_queries=self._n, actions=dict(self._actions), reasons=dict(self._reasons), n_reverted=self._n_reverted,
            spent_s=last.spent, budget_s=last.budget, regret=self._regret, version=last.version_after,
        )  # fmt: skip
