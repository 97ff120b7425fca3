"""What texts and tests tell beside counts: how each answer begins, whether it ends in a loop, whether a draft fares
worse behind a rejection, how tokens of a class fare, and tests of tokens that the target rules out."""

import re
from array import array
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

from specviz.events import ZERO
from specviz.metrics.draft_confidence import TokenPosition
from specviz.names import DraftEnd
from specviz.runlog.run import RoundRecord

MOST_QUERIES, MOST_TOKENS = 8, 4096  # of the first, whose texts are held as far
MOST_ANSWERS = 512  # that are told one by one
_TAIL, _PERIODS = 64, 16  # newest tokens that are looked at for a loop, and the longest that counts as one
_PLACES = 6  # of each thing that is seen
_ENDS_TEXT = re.compile("text|</?s>")  # marks that models without a chat template have too
_SAME = 0.97  # of these tokens equal to the one a period before


class TextTally:
    """Give it every finished round in order. Its size is bounded.

    `n_closed_at_once`: answers that their first round ends with a mark of a chat template which the prompt lacks.
    `texts`: by query, its prompt and its first tokens. `behind`: by whether the round before ended in a rejection,
    rounds that drafted and those of them that kept their first token. `n_refused`, `n_ruled_out`: tests that failed,
    and those of them whose token the target gave no chance at all. `by_class`: tests on a right prefix and those that
    were kept, by the class of the drafted token. `idle`: rounds without a draft, by why. `answers`: rounds that drafted
    of each query, and those that kept anything, in order. `seen`: by what they show, the first places: "ruled out",
    "behind" (nothing kept behind a rejection), and refused tokens by their class.
    """

    def __init__(self) -> None:
        self._texts: list[tuple[array[int], array[int]]] = []
        self._queries = array("q")  # whose texts they are
        self._behind = array("q", bytes(32))  # counts stand in arrays: objects would grow with them
        self.by_class: dict[str, array[int]] = {}
        self._idle: dict[DraftEnd, array[int]] = {}
        self._answers = array("i", bytes(8 * MOST_ANSWERS))  # two numbers an answer
        self._firsts = array("q", bytes(16 * MOST_ANSWERS))  # query and round of each answer's first draft
        self.seen: dict[str, list[TokenPosition]] = {}
        self._at = array(
            "q", (-1, 0, 0, 0, 0, 0)
        )  # query in hand; answers, looping; refused, ruled out; closed at once
        self._tail = array("q")
        self._rejected: bool | None = None

    def take(self, record: RoundRecord) -> None:
        """Count a round."""
        end, commit = record.end, record.commit
        if end is None:
            return
        if record.q != self._at[0]:
            self._at[2] += self.loops
            self._at[0], self._rejected = record.q, None
            self._at[1] += 1
            del self._tail[:]
        if not end.n_drafted:
            self._idle.setdefault(end.draft_end, array("q", (0,)))[0] += 1
        elif self.n_answers <= MOST_ANSWERS:
            at = 2 * (self.n_answers - 1)
            if not self._answers[at]:
                self._firsts[at], self._firsts[at + 1] = record.q, record.r
            self._answers[at] += 1
            self._answers[at + 1] += end.n_accepted > 0
        if end.n_drafted and self._rejected is not None:
            self._behind[2 * self._rejected] += 1
            self._behind[2 * self._rejected + 1] += end.n_accepted > 0
            if self._rejected and not end.n_accepted:
                self._see("behind", TokenPosition(record.q, record.r))
        self._rejected = end.n_tested > end.n_accepted if end.n_drafted else None
        tokens = [token for token in commit.tokens if token >= 0] if commit is not None else []
        self._at[5] += _closes_at_once(record)
        self._tail.extend(tokens)
        del self._tail[:-_TAIL]
        if record.q not in self._queries and len(self._texts) < MOST_QUERIES:
            prefill = record.query.prefill
            self._texts.append((array("q", prefill.prompt if prefill is not None else ()), array("q")))
            self._queries.append(record.q)
        if record.q in self._queries:
            text = self._texts[self._queries.index(record.q)][1]
            text.extend(tokens[: MOST_TOKENS - len(text)])
        for verdict in record.verdicts.values():
            if verdict.status == "rejected" and verdict.logp is not None and verdict.log_left is None:
                self._at[3] += 1
                if verdict.logp <= ZERO:
                    self._at[4] += 1
                    self._see("ruled out", TokenPosition(record.q, record.r, verdict.node))
            node = record.node(verdict.node) if verdict.order is not None else None
            if node is not None and verdict.status in ("accepted", "rejected"):
                name = class_of(node.text)
                counts = self.by_class.setdefault(name, array("q", (0, 0)))
                counts[0] += 1
                counts[1] += verdict.status == "accepted"
                if verdict.status == "rejected":
                    self._see(name, TokenPosition(record.q, record.r, verdict.node))

    def _see(self, what: str, place: TokenPosition) -> None:
        places = self.seen.setdefault(what, [])
        if len(places) < _PLACES:
            places.append(place)

    @property
    def n_answers(self) -> int:
        return self._at[1]

    @property
    def n_closed_at_once(self) -> int:
        return self._at[5]

    @property
    def n_refused(self) -> int:
        return self._at[3]

    @property
    def n_ruled_out(self) -> int:
        return self._at[4]

    @property
    def texts(self) -> dict[int, tuple[tuple[int, ...], list[int]]]:
        """By query, its prompt and its first tokens."""
        texts = zip(self._queries, self._texts, strict=True)
        return {q: (tuple(prompt), list(text)) for q, (prompt, text) in texts}

    @property
    def idle(self) -> Counter[DraftEnd]:
        """Rounds without a draft, by why."""
        return Counter({why: n[0] for why, n in self._idle.items()})

    @property
    def behind(self) -> dict[bool, tuple[int, int]]:
        """By whether the round before ended in a rejection: rounds that drafted, and those that kept anything."""
        return {False: (self._behind[0], self._behind[1]), True: (self._behind[2], self._behind[3])}

    @property
    def answers(self) -> list[tuple[int, int]]:
        """Of each query, rounds that drafted and those of them that kept anything."""
        known = self._answers[: 2 * min(self.n_answers, MOST_ANSWERS)]
        return list(zip(known[::2], known[1::2], strict=True))

    def first_draft(self, answer: int) -> TokenPosition:
        """Where an answer (from 0, of those in `answers`) first drafts."""
        return TokenPosition(self._firsts[2 * answer], self._firsts[2 * answer + 1])

    @property
    def loops(self) -> bool:
        """Whether the newest tokens of the answer in hand repeat."""
        return is_loop(tuple(self._tail))

    @property
    def n_looping(self) -> int:
        """Answers that end in a loop, the one in hand as it is."""
        return self._at[2] + self.loops


def _closes_at_once(record: RoundRecord) -> bool:
    """Whether the first round of an answer ends it with a mark of its chat template, of which the prompt has none."""
    commit, prefill = record.commit, record.query.prefill
    if record.r != 1 or commit is None or prefill is None or not prefill.prompt or commit.finish != "eos":
        return False
    mark, text = next(iter(commit.tokens[-1:]), -1), next(iter(commit.texts[-1:]), "")
    return mark not in prefill.prompt and class_of(text) == "mark" and not _ENDS_TEXT.search(text)


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
