"""Ranks, widths and blocks of drafted trees: every number over *expansions*, one (block, slot)
distribution at one parent node each.

Buckets: 0 the draft's best token is the target's, 1 ranks 2 to 4, 2 ranks 5 to 10, 3 lower or outside the draft
vocabulary. An expansion is *known* when the target has a row at its parent. Over the path coverage asks for the token
that was written, over all known ones for the target's best; figures on the path are conditional on a right prefix.

What was learnt while serving, over a run: actions, what exploring cost, what was taken back, and regret.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction

import msgspec

from specviz.events import Adapt, Expansion, Node, Verify
from specviz.metrics.estimate import Estimate, share
from specviz.runlog.run import RoundRecord

N_BUCKETS, GIVE_UP = 4, 3
LARGEST = (1, 4, 10)  # the last rank of buckets 0, 1, 2
Confusion = dict[int, dict[int, int]]  # [true][pred]


class ScoredExpansion(msgspec.Struct, frozen=True, kw_only=True):
    """An expansion of a finished round. `best`, `written`: ranks of the target's best token and of the one written."""

    q: int
    r: int
    id: int
    parent: int
    block: int
    slot: int
    bucket: int
    width: int
    reason: str
    n_children: int
    true: int | None  # bucket; None: unknown
    best: int | None
    written: int | None
    on_path: bool
    n: int = 1  # how many alike are counted in it

    def rank(self, written: bool) -> int | None:
        """Of the token that was written (on the path) or of the target's best; None: at no width, or unknown."""
        return self.written if written else self.best

    def covers(self, written: bool) -> bool:
        """Whether that token was among the children."""
        rank = self.rank(written)
        return rank is not None and rank <= self.n_children


class NodeCount(msgspec.Struct):
    """Nodes over the run: all that were made, `sent` within the budget, and what became of those."""

    nodes: int = 0
    sent: int = 0
    tested: int = 0
    accepted: int = 0

    def add(self, node: Node) -> None:
        self.nodes, self.sent = self.nodes + 1, self.sent + node.kept

    def judge(self, verdict: Verify) -> None:
        """The walk came to it, or did not."""
        if verdict.order is not None:
            self.tested, self.accepted = self.tested + 1, self.accepted + (verdict.status == "accepted")


class BlockCount(NodeCount):
    """One block level (a level of eagle3), with the nodes it offered first. `starts`: blocks in all its calls."""

    calls: int = 0
    starts: int = 0
    ns: int = 0


class SlotAccuracy(msgspec.Struct, frozen=True, kw_only=True):
    """For one (block, slot): how often the target's best token ranked first, and how often its bucket was predicted."""

    top1: Estimate | None
    bucket: Estimate | None


class RankTally:
    """Give it every finished round in order."""

    def __init__(self) -> None:
        self._seen: Counter[ScoredExpansion] = Counter()  # by what a formula asks of it
        self.blocks: dict[int, BlockCount] = {}
        self.depths: dict[int, NodeCount] = {}
        self.n_trees = self.n_costed = 0

    @property
    def seen(self) -> list[ScoredExpansion]:
        """The expansions of all finished rounds, like ones in one."""
        return [msgspec.structs.replace(counts, n=n) for counts, n in self._seen.items()]

    def take(self, record: RoundRecord, n_emitted: int) -> Fraction | None:
        """Count a round; what it cost, in target passes, where that is on record."""
        tree = record.tree
        if tree is None:
            return Fraction(1)  # nothing drafted: one pass
        self.n_trees += 1
        self.n_costed += bool(tree.modelled_speedup)
        self._seen.update(alike(seen(expansion)) for expansion in record.expansions)
        for node in record.nodes.values():
            self.blocks.setdefault(home(node), BlockCount()).add(node)
            self.depths.setdefault(node.depth, NodeCount()).add(node)
        for verdict in record.verdicts.values():
            if (born := record.nodes.get(verdict.node)) is not None:
                self.blocks[home(born)].judge(verdict)
                self.depths[born.depth].judge(verdict)
        for block in record.blocks:
            count = self.blocks.setdefault(block.block, BlockCount())
            count.starts, count.ns = count.starts + 1, count.ns + block.dur_ns
        for level in {block.block for block in record.blocks}:
            self.blocks[level].calls += 1
        return Fraction(n_emitted / tree.modelled_speedup) if tree.modelled_speedup else None


def seen(expansion: Expansion) -> ScoredExpansion:
    """An expansion as it is counted."""
    return ScoredExpansion(
        q=expansion.q,
        r=expansion.r,
        id=expansion.id,
        parent=expansion.parent,
        block=expansion.block,
        slot=expansion.slot,
        bucket=expansion.bucket,
        width=expansion.width,
        reason=expansion.width_reason,
        n_children=expansion.n_children,
        true=expansion.true_bucket,
        best=expansion.true_rank_argmax,
        written=expansion.true_rank_emitted,
        on_path=expansion.on_path,
    )


def alike(row: ScoredExpansion) -> ScoredExpansion:
    """Only what a metric of the run asks of an expansion, so that like ones can be counted in one: no place, and of
    ranks whether the target's best token stood first and whether the written one was among the children."""
    return msgspec.structs.replace(
        row,
        q=0,
        r=0,
        id=0,
        parent=0,
        reason="",
        n_children=1,
        best=1 if row.best == 1 else None,
        written=1 if row.covers(True) else None,
    )


def home(node: Node) -> int:
    """The call that made a node: its block, else its level where each level is a call; heads speak in one."""
    block = node.src.get("block")
    if isinstance(block, int):
        return block
    return 1 if "head" in node.src else node.depth


def known(rows: Iterable[ScoredExpansion], path_only: bool = False) -> list[ScoredExpansion]:
    """The expansions with a known true rank: their parent was verified, or is on the committed path."""
    return [row for row in rows if row.true is not None and (row.on_path or not path_only)]


def confusion(rows: Iterable[ScoredExpansion]) -> Confusion:
    """`[true][pred]`: counts of known expansions."""
    counts: Counter[tuple[int, int]] = Counter()
    for row in rows:
        if row.true is not None:
            counts[row.true, row.bucket] += row.n
    return {true: {pred: counts[true, pred] for pred in range(N_BUCKETS)} for true in range(N_BUCKETS)}


def coverage(rows: Sequence[ScoredExpansion], written: bool) -> dict[int, Estimate]:
    """coverage[width]: known expansions of that width whose token is among their children / all of them."""
    covered: dict[int, Estimate] = {}
    for width in sorted({row.width for row in rows if row.true is not None}):
        mine = [row for row in rows if row.width == width and row.true is not None]
        estimate = share(_count(row for row in mine if row.covers(written)), _count(mine))
        if estimate is not None:
            covered[width] = estimate
    return covered


def reach(rows: Sequence[ScoredExpansion], most: int, written: bool) -> list[float]:
    """Share of known expansions whose token has rank 1, at most 2, ..: what every width would have covered."""
    ranks: Counter[int | None] = Counter()
    for row in rows:
        if row.true is not None:
            ranks[row.rank(written)] += row.n
    total = ranks.total()
    if not total:
        return []
    return [sum(n for r, n in ranks.items() if r is not None and r <= width) / total for width in range(1, most + 1)]


def slot_accuracy(rows: Sequence[ScoredExpansion]) -> dict[int, dict[int, SlotAccuracy]]:
    """slot_accuracy[block][slot] of known expansions."""
    out: dict[int, dict[int, SlotAccuracy]] = {}
    for block, slot in sorted({(row.block, row.slot) for row in rows if row.true is not None}):
        mine = [row for row in rows if (row.block, row.slot) == (block, slot) and row.true is not None]
        n = _count(mine)
        top1 = share(_count(row for row in mine if row.best == 1), n)
        right = share(_count(row for row in mine if row.bucket == row.true), n)
        out.setdefault(block, {})[slot] = SlotAccuracy(top1=top1, bucket=right)
    return out


def _count(rows: Iterable[ScoredExpansion]) -> int:
    return sum(row.n for row in rows)


def needed(bucket: int, widths: Sequence[int]) -> int:
    """The children that a true bucket asks for: enough for its last rank, none where the token is out of reach, never
    more than the widest in use."""
    return 0 if bucket == GIVE_UP else min(LARGEST[bucket], max(widths, default=LARGEST[bucket]))


class AdaptCounts(msgspec.Struct, frozen=True, kw_only=True):
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
    """Give it every decision in order."""

    def __init__(self) -> None:
        self.n = self._n_reverted = 0
        self.actions: Counter[str] = Counter()
        self._reasons: Counter[str] = Counter()
        self._regret: float | None = None
        self._last: Adapt | None = None

    def add(self, event: Adapt) -> None:
        """What was decided at the end of a query."""
        self._last, self.n = event, self.n + 1
        self.actions[event.action] += 1
        self._reasons[event.reason] += 1
        self._n_reverted += event.reverted
        if event.regret is not None:
            self._regret = (self._regret or 0) + event.regret

    def summary(self) -> AdaptCounts | None:
        """None where nothing learns."""
        last = self._last
        if last is None:
            return None
        return AdaptCounts(
            n_queries=self.n,
            actions=dict(self.actions),
            reasons=dict(self._reasons),
            n_reverted=self._n_reverted,
            spent_s=last.spent,
            budget_s=last.budget,
            regret=self._regret,
            version=last.version_after,
        )
