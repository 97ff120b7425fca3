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
        self.steps: list[Adapt] = []

    def add(self, event: Event) -> None:
        """Take in a record."""
        if isinstance(event, Adapt):
            self.steps.append(event)

    def summary(self) -> Adapted | None:
        """None where nothing learns."""
        if not self.steps:
            return None
        last, regrets = self.steps[-1], [step.regret for step in self.steps if step.regret is not None]
        return Adapted(
            n_queries=len(self.steps), actions=dict(Counter(step.action for step in self.steps)),
            reasons=dict(Counter(step.reason for step in self.steps)),
            n_reverted=sum(step.reverted for step in self.steps), spent_s=last.spent, budget_s=last.budget,
            regret=sum(regrets) if regrets else None, version=last.version_after,
        )  # fmt: skip
