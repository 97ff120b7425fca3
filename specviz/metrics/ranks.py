"""Ranks, widths and blocks of drafted trees (specblock.md 12): every number over *expansions*, one (block, slot)
distribution at one parent node each.

Buckets: 0 the draft's best token is the target's, 1 ranks 2 to 4, 2 ranks 5 to 10, 3 lower or outside the draft
vocabulary. An expansion is *known* when the target has a row at its parent. Over the path coverage asks for the token
that was written, over all known ones for the target's best; figures on the path are conditional on a right prefix.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from specviz.events import Block, Event, Expansion, Node, TreeMade, Verify
from specviz.metrics.estimate import Estimate, share

N_BUCKETS, GIVE_UP = 4, 3
LARGEST = (1, 4, 10)  # the last rank of buckets 0, 1, 2
Confusion = dict[int, dict[int, int]]  # [true][pred]


class Seen(msgspec.Struct, frozen=True, kw_only=True):
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
        """A node was made."""
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
    """Of one (block, slot): the target's best token stood first; its bucket was predicted."""

    top1: Estimate | None
    bucket: Estimate | None


class RankTally:
    """Give it every record in order; `close` files a round at its end."""

    def __init__(self) -> None:
        self.seen: list[Seen] = []
        self.blocks: dict[int, BlockCount] = {}
        self.depths: dict[int, NodeCount] = {}
        self.costs: list[float | None] = []  # of every round, in target passes; None: not on record
        self.n_trees = self.n_costed = 0
        self._round: list[Event] = []

    def add(self, event: Event) -> None:
        """Take in a record."""
        if isinstance(event, Expansion | Block | TreeMade | Node | Verify):
            self._round.append(event)

    def begin(self) -> None:
        """A round begins; what an aborted one left is dropped."""
        self._round = []

    def close(self, n_emitted: int) -> None:
        """The round is over."""
        records, self._round = self._round, []
        made = next((each for each in records if isinstance(each, TreeMade)), None)
        if made is None:
            self.costs.append(1.0)  # nothing drafted: one pass
            return
        self.n_trees += 1
        self.n_costed += bool(made.modelled_speedup)
        self.costs.append(n_emitted / made.modelled_speedup if made.modelled_speedup else None)
        self.seen += [seen(each) for each in records if isinstance(each, Expansion)]
        self._count(records)

    def _count(self, records: list[Event]) -> None:
        nodes = {each.node: each for each in records if isinstance(each, Node)}
        for node in nodes.values():
            self.blocks.setdefault(home(node), BlockCount()).add(node)
            self.depths.setdefault(node.depth, NodeCount()).add(node)
        for each in records:
            if isinstance(each, Verify) and (born := nodes.get(each.node)) is not None:
                self.blocks[home(born)].judge(each)
                self.depths[born.depth].judge(each)
        blocks = [each for each in records if isinstance(each, Block)]
        for each in blocks:
            count = self.blocks.setdefault(each.block, BlockCount())
            count.starts, count.ns = count.starts + 1, count.ns + each.dur_ns
        for block in {each.block for each in blocks}:
            self.blocks[block].calls += 1


def seen(each: Expansion) -> Seen:
    """An expansion as it is counted."""
    return Seen(
        q=each.q, r=each.r, id=each.id, parent=each.parent, block=each.block, slot=each.slot, bucket=each.bucket,
        width=each.width, reason=each.width_reason, n_children=each.n_children, true=each.true_bucket,
        best=each.true_rank_argmax, written=each.true_rank_emitted, on_path=each.on_path,
    )  # fmt: skip


def home(node: Node) -> int:
    """The call that made a node: its block, else its level where each level is a call; heads speak in one."""
    block = node.src.get("block")
    if isinstance(block, int):
        return block
    return 1 if "head" in node.src else node.depth


def known(rows: Iterable[Seen], path_only: bool = False) -> list[Seen]:
    """Those whose parent the target looked at, or that lie on the path."""
    return [row for row in rows if row.true is not None and (row.on_path or not path_only)]


def confusion(rows: Iterable[Seen]) -> Confusion:
    """`[true][pred]`: counts of known expansions."""
    counts = Counter((row.true, row.bucket) for row in rows if row.true is not None)
    return {true: {pred: counts[true, pred] for pred in range(N_BUCKETS)} for true in range(N_BUCKETS)}


def coverage(rows: Sequence[Seen], written: bool) -> dict[int, Estimate]:
    """coverage[width]: known expansions of that width whose token is among their children / all of them."""
    found: dict[int, Estimate] = {}
    for width in sorted({row.width for row in rows if row.true is not None}):
        mine = [row for row in rows if row.width == width and row.true is not None]
        estimate = share(sum(row.covers(written) for row in mine), len(mine))
        if estimate is not None:
            found[width] = estimate
    return found


def reach(rows: Sequence[Seen], most: int, written: bool) -> list[float]:
    """Share of known expansions whose token has rank 1, at most 2, ..: what every width would have covered."""
    ranks = [row.rank(written) for row in rows if row.true is not None]
    if not ranks:
        return []
    return [sum(rank is not None and rank <= width for rank in ranks) / len(ranks) for width in range(1, most + 1)]


def slot_accuracy(rows: Sequence[Seen]) -> dict[int, dict[int, SlotAccuracy]]:
    """slot_accuracy[block][slot] of known expansions."""
    out: dict[int, dict[int, SlotAccuracy]] = {}
    for block, slot in sorted({(row.block, row.slot) for row in rows if row.true is not None}):
        mine = [row for row in rows if (row.block, row.slot) == (block, slot) and row.true is not None]
        top1 = share(sum(row.best == 1 for row in mine), len(mine))
        right = share(sum(row.bucket == row.true for row in mine), len(mine))
        out.setdefault(block, {})[slot] = SlotAccuracy(top1=top1, bucket=right)
    return out


def needed(bucket: int, widths: Sequence[int]) -> int:
    """The children that a true bucket asks for: enough for its last rank, none where the token is out of reach, never
    more than the widest in use."""
    return 0 if bucket == GIVE_UP else min(LARGEST[bucket], max(widths, default=LARGEST[bucket]))
