"""What texts and tests tell beside counts: how each answer begins, whether it ends in a loop, whether a draft fares
worse behind a rejection, how tokens of a class fare, and tests of tokens that the target rules out."""

from collections import Counter, deque
from collections.abc import Sequence
from functools import lru_cache

from specviz.events import ZERO
from specviz.metrics.draft_confidence import TokenPlace
from specviz.names import DraftEnd
from specviz.runlog.run import RoundRecord

MOST_QUERIES, MOST_TOKENS = 64, 4096  # of whose texts the beginning is held
MOST_ANSWERS = 4096  # that are told one by one
_TAIL, _PERIODS = 64, 16  # newest tokens that are looked at for a loop, and the longest that counts as one
_PLACES = 6  # of each thing that is seen
_SAME = 0.97  # of these tokens equal to the one a period before


class TextTally:
    """Give it every finished round in order. Its size is bounded.

    `texts`: by query, its prompt and its first tokens. `behind`: by whether the round before ended in a rejection,
    rounds that drafted and those of them that kept their first token. `n_refused`, `n_ruled_out`: tests that failed,
    and those of them whose token the target gave no chance at all. `by_class`: tests on a right prefix and those that
    were kept, by the class of the drafted token. `idle`: rounds without a draft, by why. `answers`: rounds that drafted
    of each query, and those that kept anything, in order. `seen`: by what they show, the first places: "ruled out",
    "behind" (nothing kept behind a rejection), and refused tokens by their class.
    """

    def __init__(self) -> None:
        self.texts: dict[int, tuple[tuple[int, ...], list[int]]] = {}
        self.behind: dict[bool, tuple[int, int]] = {False: (0, 0), True: (0, 0)}
        self.n_refused = self.n_ruled_out = 0
        self.by_class: dict[str, list[int]] = {}
        self.idle: Counter[DraftEnd] = Counter()
        self.answers: list[list[int]] = []
        self.seen: dict[str, list[TokenPlace]] = {}
        self.n_loops = self.n_answers = 0
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
            self.n_answers += 1
            self._tail.clear()
            if len(self.answers) < MOST_ANSWERS:
                self.answers.append([0, 0])
        if not end.n_drafted:
            self.idle[end.draft_end] += 1
        elif self.n_answers <= MOST_ANSWERS:
            self.answers[-1][0] += 1
            self.answers[-1][1] += end.n_accepted > 0
        if end.n_drafted and self._rejected is not None:
            rounds, kept = self.behind[self._rejected]
            self.behind[self._rejected] = rounds + 1, kept + (end.n_accepted > 0)
            if self._rejected and not end.n_accepted:
                self._see("behind", TokenPlace(record.q, record.r))
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
                if verdict.logp <= ZERO:
                    self.n_ruled_out += 1
                    self._see("ruled out", TokenPlace(record.q, record.r, verdict.node))
            node = record.node(verdict.node) if verdict.order is not None else None
            if node is not None and verdict.status in ("accepted", "rejected"):
                name = class_of(node.text)
                counts = self.by_class.setdefault(name, [0, 0])
                counts[0] += 1
                counts[1] += verdict.status == "accepted"
                if verdict.status == "rejected":
                    self._see(name, TokenPlace(record.q, record.r, verdict.node))

    def _see(self, what: str, place: TokenPlace) -> None:
        places = self.seen.setdefault(what, [])
        if len(places) < _PLACES:
            places.append(place)

    @property
    def loops(self) -> bool:
        """Whether the newest tokens of the answer in hand repeat."""
        return is_loop(tuple(self._tail))

    @property
    def n_looping(self) -> int:
        """Answers that end in a loop, the one in hand as it is."""
        return self.n_loops + self.loops


@lru_cache(1 << 14)
def class_of(text: str) -> str:
    """What a token is made of: `mark` of a template, `word`, `number`, `sign` (of JSON and code), `space`."""
    bare = text.strip()
    if not bare:
        return "space"
    if bare.startswith("<|") or (bare.startswith("<") and bare.endswith(">")):
        return "mark"
    if any(map(str.isalpha, bare)):
        return "word"
    return "number" if any(map(str.isdigit, bare)) else "sign"


def is_loop(tokens: Sequence[int]) -> bool:
    """Whether so many tokens are nearly all equal to the one a period before."""
    if len(tokens) < _TAIL:
        return False
    for period in range(1, _PERIODS + 1):
        same = sum(a == b for a, b in zip(tokens, tokens[period:], strict=False))
        if same >= _SAME * (len(tokens) - period):
            return True
    return False
