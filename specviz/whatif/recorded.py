"""`RecordedRound`: one round as a verifier saw it, put together again from what a trace holds of it.

The draft comes back whole: tokens, parents, ids, what was fed, what was drawn. Of rows only a part is on record: the
mass of every drafted token, the likeliest entries, and sums over the whole vocabulary. `PartialRow` says what is known
and how much is not; `specviz.whatif.complete` makes rows of it that no record contradicts.
"""

import math
from dataclasses import dataclass, field
from itertools import count

from specviz.errors import SpecvizError
from specviz.events import ZERO, Node, Verify, prob
from specviz.probability.draft import ROOT, Draft
from specviz.runlog.fold import Run
from specviz.runlog.run import RoundRecord
from specviz.runlog.tree import RoundTree

FARTHEST = 64  # tokens of text that are compared
UNKNOWN_TOKEN = -1  # a token that the record does not name
_SAME_ROW = 2e-4  # of a ratio of two logs with six figures each
_PLAIN = {"top_k": 0, "top_p": 1.0, "min_p": 0.0, "repetition_penalty": 1.0}


class CannotTell(SpecvizError):
    """The recording does not hold what a decision needs; the message is the reason, to follow "cannot be told: "."""


@dataclass(frozen=True, slots=True)
class PartialRow:
    """Some entries of a law `[V]`; what is left of 1 lies on tokens that are not named, nobody knows where."""

    known: dict[int, float]

    @property
    def rest(self) -> float:
        """The mass of all other tokens."""
        return max(0.0, 1.0 - math.fsum(self.known.values()))


@dataclass(slots=True)
class RecordedRound:
    """A round to be decided again. Nodes are numbered as in `draft`; `draft.ids` are those of the trace."""

    run: Run
    round_tree: RoundTree
    draft: Draft = field(init=False)

    def __post_init__(self) -> None:
        self.draft = _draft(self)

    @property
    def record(self) -> RoundRecord:
        return self.round_tree.record

    @property
    def n(self) -> int:
        """Committed length before the round."""
        return self.record.start.n

    @property
    def seed(self) -> int:
        """What the draws of this query are keyed by. Raises CannotTell."""
        header = self.run.header
        if header is not None and header.outside is not None:
            raise CannotTell(
                f"the random numbers of {header.outside.engine} are not keyed, so no other draw can be told"
            )
        if self.record.query.prefill is None:
            raise CannotTell("the beginning of this query, and with it its seed, is not on record")
        return self.record.query.prefill.seed

    @property
    def certain(self) -> bool:
        """Whether rows are one-hot: temperature 0."""
        return self.record.temperature == 0

    def verdict(self, node: int) -> Verify:
        return self.record.verdicts[self.draft.ids[node]]

    def born(self, node: int) -> Node:
        return self.round_tree.nodes[self.draft.ids[node]]

    def place(self, node: int) -> int:
        """The node whose row is used for `node`: the first sibling with the same token."""
        return self.draft.spelling.first(node)

    def children(self, node: int) -> tuple[int, ...]:
        return self.draft.candidates(node)

    # What the target's rows are known to be --------------------------------------------------------------------------

    def target(self, node: int) -> PartialRow:
        """The target's row after `node` (ROOT too), at a temperature above 0."""
        known: dict[int, float] = {}
        for child in self.children(node):
            p = self.round_tree.p(self.draft.ids[child])
            if p is not None:
                known[self.draft.tokens[child]] = p
            if (top := self.verdict(child).top) is not None:
                known = {token: prob(log) or 0.0 for token, log in top} | known
        closing = self.record.closing
        if closing is not None and self.stop == self.place(node):
            known = {token: p for token, p, *_ in closing.row or []} | known
            if closing.token is not None and closing.logp is not None:
                known.setdefault(closing.token, prob(closing.logp) or 0.0)
        return PartialRow(known)

    def likeliest(self, node: int) -> int:
        """The target's choice after `node` at temperature 0; UNKNOWN_TOKEN where it is not on record."""
        for child in self.children(node):
            if self.verdict(child).logp == 0:
                return self.draft.tokens[child]
        closing = self.record.closing
        if closing is not None and closing.token is not None and self.stop == self.place(node):
            return closing.token
        return next((_choice(self.verdict(child)) for child in self.children(node)), UNKNOWN_TOKEN)

    @property
    def stop(self) -> int:
        """The node where the recorded round closed, by what it spells."""
        numbers = {i: k for k, i in enumerate(self.draft.ids)}
        stop = self.record.closing.node if self.record.closing is not None else ROOT
        return self.place(numbers[stop]) if stop in numbers else ROOT

    # What the draft laws are known to be -----------------------------------------------------------------------------

    def law(self, node: int) -> PartialRow:
        """The law a drawn node came from. Siblings of one row are told from each other by the draft model's odds."""
        known = {self.draft.tokens[node]: self._q(node)}
        known |= self._by_odds(node)
        closing, here = self.record.closing, self.draft.parents[node]
        if closing is not None and self.stop == (here if here == ROOT else self.place(here)):
            first = next((i for i in self.children(here) if self.draft.row_of[i] >= 0), None)
            if first is not None and self.same_law(first, node):
                known = {token: q for token, _, q, *_ in closing.row or [] if q is not None} | known
        return PartialRow(known)

    def _q(self, node: int) -> float:
        logq = self.verdict(node).logq
        logq = self.born(node).logq if logq is None else logq
        if logq is None:
            raise CannotTell(f"the draft law's mass of n{self.draft.ids[node]} is not on record")
        return prob(logq) or 0.0

    def _by_odds(self, node: int) -> dict[int, float]:
        """Other tokens of the law, from the draft model's raw odds: law ~ odds^(1/T) where no filter is at work."""
        own, t = self.born(node).log_conf, self.record.temperature
        if own is None or not t or any(self.record.knobs.get(k, v) != v for k, v in _PLAIN.items()):
            return {}
        if self.record.knobs.get("ban"):
            return {}
        q, gone = self._q(node), self._gone(node)
        # Nodes that spell one text have one draft row behind them, so all that follow it tell of it.
        odds = {i: self.born(i).log_conf for i in self.children(self.draft.parents[node])}
        listed = next((top for i in odds if (top := self.born(i).top)), [])
        logs = dict(listed) | {self.draft.tokens[i]: log for i, log in odds.items() if log is not None}
        return {
            token: 0.0 if token in gone else min(1.0, q * math.exp(min(700.0, (log - own) / t)))
            for token, log in logs.items()
            if token != self.draft.tokens[node]
        }

    def _gone(self, node: int) -> set[int]:
        """Tokens of elder siblings that had been taken out of its law: drawn without replacement."""
        out: set[int] = set()
        for elder in self.children(self.draft.parents[node]):
            if elder == node:
                break
            if self.draft.row_of[elder] >= 0 and self.draft.parents[elder] == self.draft.parents[node]:
                out.add(self.draft.tokens[elder])
        first = next(
            (i for i in self.draft.children.get(self.draft.parents[node], ()) if self.draft.row_of[i] >= 0), node
        )
        return set() if self.same_law(first, node) else out

    def same_law(self, one: int, other: int) -> bool:
        """Whether two drawn siblings came from one law, and not each without the tokens of those before."""
        if one == other:
            return True
        logs = [(self.born(i).log_conf, self._q(i)) for i in (one, other)]
        (a, qa), (b, qb) = logs
        t = self.record.temperature
        if a is None or b is None or not t or not qa > 0 or not qb > 0:
            return False
        return abs(math.log(qa) - math.log(qb) - (a - b) / t) < _SAME_ROW

    # Sums over whole rows that are on record -------------------------------------------------------------------------

    def surpluses(self, node: int, child: int) -> list[tuple[float, float]]:
        """`(w, sum_y (w p(y) - q(y))+)` of the row after `node` and the law of a drawn child of it."""
        out: list[tuple[float, float]] = []
        if self.draft.parents[child] != node:
            return out  # of a twin: its law may be another
        tv = self.verdict(child).tv_pq
        if tv is not None:
            out.append((1.0, tv))
        eldest = self.draft.children[node][0] == child  # `chain` records go on from a node to its eldest child
        chain = self.record.chains.get(self.draft.ids[node]) if node != ROOT and eldest else None
        if chain is not None and chain.d_pq is not None and chain.log_c > ZERO:
            out.append((math.exp(chain.log_c), chain.d_pq))
        if chain is not None and chain.dhat_pq is not None and ZERO < chain.log_r < 700:
            out.append((math.exp(chain.log_r), chain.dhat_pq))
        return sorted({round(w, 12): s for w, s in out if w > 0}.items())


def _choice(verdict: Verify) -> int:
    """The likeliest token of a row; of several that are alike to the last bit (bfloat16) the first by its id."""
    top = verdict.top or []
    alike = [token for token, log in top if log == top[0][1]]
    if len(alike) > 1:
        return min(alike) if verdict.margin == 0 else UNKNOWN_TOKEN
    return UNKNOWN_TOKEN if verdict.argmax_p is None else verdict.argmax_p


def _draft(of: RecordedRound) -> Draft:
    """The draft of a round. Raises CannotTell where it is not on record."""
    record, round_tree, run = of.record, of.round_tree, of.run
    if not record.complete:
        raise CannotTell("the round has not come to its end")
    if (why := run.missing(record)) is not None:
        raise CannotTell(why)
    judged = [i for i, v in record.verdicts.items() if v.status != "pruned" and i in round_tree.nodes]
    fed = {i: i not in record.nodes or round_tree.nodes[i].fed for i in judged}
    order = [i for i in sorted(judged) if fed[i]] + [i for i in sorted(judged) if not fed[i]]
    place = {i: k for k, i in enumerate(order)}
    nodes = [round_tree.nodes[i] for i in order]
    for i in order:
        parent = round_tree.parent(i)
        if parent != ROOT and not (parent in place and fed[parent] and place[parent] < place[i]):
            raise CannotTell(f"the records of n{i} and of its parent do not fit together: the trace is damaged")
    numbers = count()
    return Draft(
        tokens=tuple(node.token for node in nodes),
        parents=tuple(place.get(round_tree.parent(i), ROOT) for i in order),
        ids=tuple(order),
        n_judged=sum(fed.values()),
        n_fed=sum(fed.values()),
        row_of=tuple(next(numbers) if record.verdicts[i].logq is not None else -1 for i in order),
        shared=any(node.mode == "shared" for node in nodes),
        planned=round_tree.planned(len(nodes)),
    )


def follows(record: RoundRecord) -> tuple[int, ...]:
    """The recorded text from this round on, as far as a round can reach."""
    out: list[int] = []
    rounds = record.query.rounds
    for k in range(record.index - record.query.first, len(rounds)):
        commit = rounds[k].commit
        if commit is None or len(out) > FARTHEST:
            break
        out += commit.tokens
    return tuple(out)


def cut_at(record: RoundRecord, tokens: list[int]) -> int:
    """How many of the tokens become text: the recorded round may have ended it, at the limit or by what it wrote."""
    commit = record.commit
    if commit is None or commit.finish is None:
        return len(tokens)
    by_place = commit.finish in ("length", "context")
    if by_place or tokens[: len(commit.tokens)] == commit.tokens:
        return min(len(tokens), len(commit.tokens))
    return len(tokens)
