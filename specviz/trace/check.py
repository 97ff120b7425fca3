"""What a reader can check of a trace (contract.md 4, "Checked on read"): a fold that stops at the first violation.

Per round: `u < thr` iff passed; the drawn token decides; `n_emitted` = accepted + closing = length of `commit`;
lengths go on without a hole. Over the run: `n_accepted` and `n_tested` at most `n_drafted` (a single round may test
what an earlier one drafted), and the sums named in `end.totals`.
"""

from collections.abc import Callable
from functools import singledispatchmethod
from pathlib import Path

from specviz.errors import TraceError
from specviz.events import WIRE_RECORDS, Closing, Commit, End, Event, Node, Prefill, RoundEnd, RoundStart, Verify
from specviz.trace.recorder import Totals

_EDGE = 1e-12  # two ways to round u * total: an interval's edge and the draw itself


class Checker:
    """Feed it every record with its line number; raises TraceError that names file, line, round and the broken rule."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._totals = Totals()
        self._tokens: dict[int, int] = {}  # node -> token, of the query
        self._positions: dict[int, int] = {}
        self._length: int | None = None
        self._root: int | None = None
        self._begin_round()
        self._fail: Callable[[str], TraceError] = lambda reason: TraceError(reason)

    def take(self, event: Event, line: int) -> None:
        """Checks one record against what came before it."""
        self._fail = lambda reason: TraceError(f"{self._path} line {line} (query {event.q}, round {event.r}): {reason}")
        if isinstance(event, WIRE_RECORDS):
            raise self._fail(f"a '{event.__struct_config__.tag}' record belongs on the wire, not in a file")
        self._totals.take(event)
        _CHECKS(type(event))(self, event)

    def _begin_round(self) -> None:
        self._verdicts: list[Verify] = []
        self._closing: Closing | None = None
        self._commit: Commit | None = None

    def _expect(self, holds: bool, reason: str) -> None:
        if not holds:
            raise self._fail(reason)

    @singledispatchmethod
    def _check(self, event: Event) -> None:
        """Records without a rule of their own."""

    @_check.register
    def _(self, event: Prefill) -> None:
        self._expect(
            event.n_prompt == len(event.prompt), f"n_prompt {event.n_prompt}, but {len(event.prompt)} prompt tokens"
        )
        self._length, self._root = event.n_prompt, event.prompt[-1] if event.prompt else None
        self._tokens, self._positions = {}, {}

    @_check.register
    def _(self, event: RoundStart) -> None:
        self._begin_round()  # an aborted round's number is used again: what it left is void
        self._expect(self._length is not None, "a round before its query's prefill")
        self._expect(event.n == self._length, f"starts at n {event.n}, but {self._length} tokens are committed")
        self._expect(event.root == self._root, f"root {event.root} is not the last committed token {self._root}")

    @_check.register
    def _(self, event: Node) -> None:
        self._tokens[event.node], self._positions[event.node] = event.token, event.pos

    @_check.register
    def _(self, event: Verify) -> None:
        self._expect(event.node in self._tokens, f"verdict on node {event.node}, which was never drafted")
        self._verdicts.append(event)
        decided = event.order is not None and not event.implied and event.u is not None
        if not decided or event.status not in ("accepted", "rejected"):
            return
        passed = event.status == "accepted"
        if event.kind == "test" and event.thr is not None and event.u is not None:
            rule = "is" if event.u < event.thr else "is not"
            self._expect(passed == (event.u < event.thr), f"node {event.node} {event.status}, but u {rule} below thr")

    @_check.register
    def _(self, event: Closing) -> None:
        self._closing = event

    @_check.register
    def _(self, event: Commit) -> None:
        count = len(event.tokens)
        self._expect(count == len(event.texts) == len(event.kinds), "tokens, texts and kinds differ in number")
        self._expect(self._length is not None, "a commit before its query's prefill")
        expected = (self._length or 0) + count
        self._expect(event.n == expected, f"commit says n {event.n}, but its tokens end at {expected}")
        for verdict in self._verdicts:
            self._check_drawn(verdict, event, self._length or 0)
        if (
            self._closing is not None
            and self._closing.token is not None
            and (event.kinds or ["accepted"])[-1] != "accepted"
        ):
            self._expect(event.tokens[-1] == self._closing.token, "the closing token is not the last one committed")
        self._length, self._root = event.n, event.tokens[-1] if event.tokens else self._root
        self._commit = event

    def _check_drawn(self, verdict: Verify, commit: Commit, n: int) -> None:
        """The token committed at a node's position decides whether a drawn node was kept."""
        place, token = self._positions[verdict.node] - n, self._tokens[verdict.node]
        if verdict.status == "accepted":
            kept = 0 <= place < len(commit.tokens) and commit.tokens[place] == token
            self._expect(kept, f"node {verdict.node} accepted, but its token was not committed at its position")
        if (
            verdict.kind == "draw"
            and verdict.order is not None
            and verdict.u is not None
            and verdict.interval is not None
        ):
            lo, hi = verdict.interval
            inside = lo - _EDGE <= verdict.u < hi + _EDGE
            outside = verdict.u < lo + _EDGE or verdict.u >= hi - _EDGE
            agrees = inside if verdict.status == "accepted" else outside or verdict.status != "rejected"
            self._expect(
                agrees, f"node {verdict.node} {verdict.status}, but u {verdict.u} and interval [{lo}, {hi}) disagree"
            )

    @_check.register
    def _(self, event: RoundEnd) -> None:
        commit = self._commit
        if commit is None:
            raise self._fail("ends without a commit")
        accepted = sum(kind in ("accepted", "branch") for kind in commit.kinds)
        self._expect(
            event.n_emitted == len(commit.tokens), f"n_emitted {event.n_emitted}, committed {len(commit.tokens)}"
        )
        self._expect(event.n_accepted == accepted, f"n_accepted {event.n_accepted}, committed {accepted} of that kind")
        closing = event.n_emitted - event.n_accepted
        self._expect(closing in (0, 1), f"{closing} closing tokens in one round")

    @_check.register
    def _(self, event: End) -> None:
        sums = self._totals.as_dict()
        for name in ("n_accepted", "n_tested"):
            self._expect(
                sums[name] <= sums["n_drafted"], f"{name} {sums[name]} over the run, drafted {sums['n_drafted']}"
            )
        for name, value in event.totals.items():
            self._expect(
                sums.get(name, value) == value, f"totals say {name} {value}, the records add up to {sums.get(name)}"
            )


# The method's own look-up makes a wrapper for every call, which takes longer than what it wraps.
_CHECKS: Callable[[type], Callable[[Checker, Event], None]] = Checker.__dict__["_check"].dispatcher.dispatch
