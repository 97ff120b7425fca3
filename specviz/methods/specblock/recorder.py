"""Events of a block-drafted round: blocks, expansions, the tree, and true ranks once the target has verified it.

They are filled while drafting and completed after the verdict, and reach the recorder only when the round is over, so
no decision can depend on values that need the target. Every kept parent has a target row, so a true rank costs one
comparison.
"""

from collections.abc import Sequence

import torch

from specviz.engine.decode.context import Context, Observation
from specviz.engine.model.host import to_device
from specviz.events import six
from specviz.events.tree_drafting import Expansion, TreeMade
from specviz.methods.specblock.growth import GrowingTree
from specviz.methods.trained.calls import BlockCall, CallCosts, count_widths
from specviz.methods.trained.ranks import N_BUCKETS, bucket, ranks
from specviz.methods.trained.vocabulary import Vocabulary
from specviz.probability.draft import ROOT, Draft
from specviz.probability.host import fetch
from specviz.probability.rows import CertainRows, Rows

Tensor = torch.Tensor


class BlockFacts:
    def __init__(
        self, growth: GrowingTree, draft: Draft, vocabulary: Vocabulary, calls: list[BlockCall], pace: CallCosts
    ) -> None:
        self.growth, self.vocabulary, self.made, self.pace = growth, vocabulary, calls, pace
        self.ids = [node.id for node in draft.nodes]  # by number in the raw tree
        self.n_kept = len(draft)
        self.expansions: list[Expansion] = []

    def _id(self, node: int) -> int:
        return ROOT if node == ROOT else self.ids[node]

    def note(self, ctx: Context) -> None:
        for number, call in enumerate(self.made):
            ctx.note(call.record(number, self._id(call.node)))
        full = ctx.level == "full"
        for number, expansion in enumerate(self.growth.expansions):
            offer = expansion.offer
            record = Expansion(
                id=number,
                parent=self._id(expansion.parent),
                block=expansion.block,
                slot=expansion.slot,
                start=expansion.start,
                bucket=offer.bucket,
                width=expansion.width.n,
                width_reason=expansion.width.reason,
                n_children=len(expansion.children),
            )
            if full:
                record.rank_probs, record.phi = [six(p) for p in offer.rank_probs], [six(x) for x in offer.summary]
                record.top = [(token, six(log)) for token, log in zip(offer.tokens, offer.logs, strict=True)]
                record.entropy = None if offer.entropy is None else six(offer.entropy)
            self.expansions.append(record)
            ctx.note(record)
        ctx.note(self.pace.of(self._tree(), ctx.counters.n_draft_calls))

    def _tree(self) -> TreeMade:
        growth = self.growth
        widths = [expansion.width.n for expansion in growth.expansions]
        guessed = [expansion.offer.bucket for expansion in growth.expansions]
        return TreeMade(
            n_raw=growth.n_offered,
            n_merged=growth.n_offered - len(growth.nodes),
            n_kept=self.n_kept,
            widths=count_widths(widths),
            buckets=[guessed.count(b) for b in range(N_BUCKETS)],
        )

    def judge(self, seen: Observation) -> None:
        """Complete the expansions of parents the target ran on, and the tree."""
        self.pace.judge(seen)
        row_of = {ROOT: 0} | {seen.draft.ids[k]: k + 1 for k in range(seen.draft.n_fed)}
        known = [record for record in self.expansions if record.parent in row_of]
        best = best_tokens(seen.target_probs, [row_of[record.parent] for record in known])
        emitted = _emitted(seen)
        followed = [emitted.get(record.parent, -1) for record in known]
        scores = self._scores(known)
        by_best, by_emitted = self._ranks(scores, best), self._ranks(scores, followed)
        for record, first, second in zip(known, by_best, by_emitted, strict=True):
            record.true_rank_argmax, record.true_rank_emitted = first, second
            record.true_bucket = N_BUCKETS - 1 if first is None else bucket(first)
            record.on_path = record.parent in emitted
        self._prefixes()

    def _scores(self, records: list[Expansion]) -> Tensor:
        """`[n, V_d]`, what each expansion's tokens were offered by."""
        rows = {start: self.made[start].scores for start in {record.start for record in records}}
        return torch.stack([rows[record.start][record.slot] for record in records]) if records else torch.empty(0, 0)

    def _ranks(self, scores: Tensor, tokens: list[int]) -> list[int | None]:
        """The rank of each token in its expansion; None for one that is not there to rank."""
        if not tokens:
            return []
        wanted = to_device(tokens, scores.device)
        place, there = self.vocabulary.find(wanted.clamp(min=0))
        (at_rank,) = fetch(ranks(scores, place).masked_fill(~there | (wanted < 0), 0))
        return [rank or None for rank in at_rank]

    def _prefixes(self) -> None:
        """Whether all earlier slots of an expansion's block were right; unknown behind an unknown one."""
        right: dict[int, bool | None] = {}
        for record in self.expansions:  # the slots of a block stand in order
            so_far = right.get(record.start, True)
            record.valid_prefix = so_far
            unknown = record.true_bucket is None
            right[record.start] = None if so_far is None or unknown else so_far and record.true_rank_argmax == 1


def best_tokens(laws: Rows, rows: Sequence[int]) -> list[int]:
    if isinstance(laws, CertainRows):
        return [laws.tokens[row] for row in rows]
    best: list[int] = fetch(laws.index_select(0, to_device(list(rows), laws.device)).argmax(-1))[0]
    return best


def _emitted(seen: Observation) -> dict[int, int]:
    """By node id on the path (root first): the token written after it."""
    assert seen.outcome is not None
    path = [ROOT, *(seen.draft.ids[node] for node in seen.outcome.accepted)]
    return dict(zip(path, seen.tokens, strict=False))
