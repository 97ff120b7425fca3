"""What is counted besides of a run that another engine made: its requests one by one, for the other denominator, and
what drawing from the target would keep of its drafts."""

import math
from collections import Counter
from collections.abc import Sequence

from specviz.events import ZERO, Node
from specviz.runlog.run import RoundRecord


class RequestCounts:
    """Give it every finished round. Both means of a rate: of sums over the run, and over requests."""

    def __init__(self) -> None:
        # Of every request: rounds that drafted, drafted, tested, accepted.
        self._requests: dict[int, tuple[int, int, int, int]] = {}
        self.by_kept: Counter[int] = Counter()  # rounds that drafted, by tokens kept
        self.seen: set[int] = set()  # requests of which a round was finished
        self.n_drafting = 0  # rounds that drafted
        self.n_behind_stop = 0  # rounds whose text ended inside the draft
        self.n_chains = self.n_walked = 0  # drafts that are one chain, and those of them whose p is known whole
        self.n_sure = 0  # of these the draft's likeliest tokens, which no rule tests by q
        self.walked = 0.0  # what drawing would keep of these

    def take(self, record: RoundRecord) -> None:
        """Count a round."""
        end = record.end
        if end is None:
            return
        self.seen.add(end.q)
        if not end.n_drafted:
            return
        rounds, drafted, tested, accepted = self._requests.get(end.q, (0, 0, 0, 0))
        self._requests[end.q] = (
            rounds + 1,
            drafted + end.n_drafted,
            tested + end.n_tested,
            accepted + end.n_accepted,
        )
        self.by_kept[end.n_accepted] += 1
        self.n_drafting += 1
        self.n_behind_stop += end.cut

    def follow(self, chain: Sequence[Node], record: RoundRecord, *, sure: bool = False) -> None:
        """A draft that is one chain: the target's draw follows it as long as it draws its tokens. `sure`: of the
        draft's likeliest tokens."""
        self.n_chains += 1
        logs = [record.verdicts[node.node].logp for node in chain if node.node in record.verdicts]
        if len(logs) < len(chain) or any(log is None for log in logs):
            return
        so_far = 0.0
        self.n_walked += 1
        self.n_sure += sure
        for log in logs:
            so_far += -math.inf if log is None or log <= ZERO else log
            self.walked += math.exp(so_far)

    def of(self, q: int) -> tuple[int, int, int]:
        """Rounds that drafted, drafted and accepted tokens of a request."""
        rounds, drafted, _, accepted = self._requests.get(q, (0, 0, 0, 0))
        return rounds, drafted, accepted

    @property
    def n_requests(self) -> int:
        """Requests that drafted."""
        return len(self._requests)

    @property
    def mean_rate(self) -> float | None:
        """Accepted / drafted of every request, averaged."""
        return self._mean([accepted / drafted for _, drafted, _, accepted in self._requests.values()])

    @property
    def mean_tested_rate(self) -> float | None:
        """Accepted / tested of every request that tested any, averaged."""
        return self._mean([accepted / tested for _, _, tested, accepted in self._requests.values() if tested])

    @property
    def mean_length(self) -> float | None:
        """1 + accepted / rounds that drafted, of every request, averaged."""
        return self._mean([1 + accepted / rounds for rounds, _, _, accepted in self._requests.values()])

    @staticmethod
    def _mean(values: list[float]) -> float | None:
        return math.fsum(values) / len(values) if values else None
