"""What texts and tests tell beside counts: how each answer begins, whether it ends in a loop, whether a draft fares
worse behind a rejection, and tests of tokens that the target rules out."""

from collections import deque
from collections.abc import Sequence

from specviz.events import ZERO
from specviz.runlog.run import RoundRecord

MOST_QUERIES, MOST_TOKENS = 64, 4096  # of whose texts the beginning is held
_TAIL, _PERIODS = 64, 16  # newest tokens that are looked at for a loop, and the longest that counts as one
_SAME = 0.97  # of these tokens equal to the one a period before


class TextTally:
    """Give it every finished round in order. Its size is bounded.

    `texts`: by query, its prompt and its first tokens. `behind`: by whether the round before ended in a rejection,
    rounds that drafted and those of them that kept their first token. `n_refused`, `n_ruled_out`: tests that failed,
    and those of them whose token the target gave no chance at all.
    """

    def __init__(self) -> None:
        self.texts: dict[int, tuple[tuple[int, ...], list[int]]] = {}
        self.behind: dict[bool, tuple[int, int]] = {False: (0, 0), True: (0, 0)}
        self.n_refused = self.n_ruled_out = 0
        self.n_loops = self._n_ended = 0
        self._tail: deque[int] = deque(maxlen=_TAIL)
        self._query = -1
        self._rejected: bool | None = None

    def take(self, record: RoundRecord) -> None:
        """Count a round."""
        end, commit = record.end, record.commit
        if end is None:
            return
        if record.q != self._query:
            self.n_loops += self.loops
            self._query, self._rejected = record.q, None
            self._tail.clear()
        if end.n_drafted and self._rejected is not None:
            rounds, kept = self.behind[self._rejected]
            self.behind[self._rejected] = rounds + 1, kept + (end.n_accepted > 0)
        self._rejected = end.n_tested > end.n_accepted if end.n_drafted else None
        tokens = [token for token in commit.tokens if token >= 0] if commit is not None else []
        self._tail += tokens
        if record.q in self.texts or len(self.texts) < MOST_QUERIES:
            prefill = record.query.prefill
            prompt = tuple(prefill.prompt) if prefill is not None else ()
            text = self.texts.setdefault(record.q, (prompt, []))[1]
            text += tokens[: MOST_TOKENS - len(text)]
        for verdict in record.verdicts.values():
            if verdict.status == "rejected" and verdict.logp is not None and verdict.log_left is None:
                self.n_refused += 1
                self.n_ruled_out += verdict.logp <= ZERO

    @property
    def loops(self) -> bool:
        """Whether the newest tokens of the answer in hand repeat."""
        return is_loop(tuple(self._tail))

    @property
    def n_looping(self) -> int:
        """Answers that end in a loop, the one in hand as it is."""
        return self.n_loops + self.loops


def is_loop(tokens: Sequence[int]) -> bool:
    """Whether so many tokens are nearly all equal to the one a period before."""
    if len(tokens) < _TAIL:
        return False
    for period in range(1, _PERIODS + 1):
        same = sum(a == b for a, b in zip(tokens, tokens[period:], strict=False))
        if same >= _SAME * (len(tokens) - period):
            return True
    return False
