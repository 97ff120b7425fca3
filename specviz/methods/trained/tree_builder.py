"""What a call's logits offer the tree, read off the device in one copy.

EAGLE-3's tree: expand the best nodes of each level, keep the best of all in the end. Pure functions of numbers.

Level 1 holds the `k` best children of the root. Each further level runs the `k` best nodes of the level before, by
path probability, and offers `k` children of each; finally the `budget` best of all are kept (rerank). With k = 10 and
8 levels that is 10 + 7 * 100 = 710 candidates for 8 drafter calls.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch

from specviz.engine.decode.context import Context
from specviz.engine.decode.sampling import Warper
from specviz.methods.trained.ranks import N_BUCKETS, N_SUMMARY, N_TOP, Offer
from specviz.methods.trained.vocabulary import Vocabulary
from specviz.probability.draft import ROOT

Tensor = torch.Tensor
Order = Callable[[Tensor], Tensor]
"""Logits `[n, V_d]` of one start -> the scores its tokens were ranked by."""


@dataclass(frozen=True, slots=True)
class Reading:
    """How rank logits are read this round: `bias` is added after `temp` divided them."""

    bias: tuple[float, ...] = (0.0,) * N_BUCKETS
    temp: float = 1.0
    full: bool = False  # also summaries and entropies, for the record


def offers(
    ctx: Context, vocabulary: Vocabulary, spoken: tuple[Tensor, Tensor, Tensor], paths: Sequence[Sequence[int]],
    reading: Reading,
) -> list[list[Offer]] | None:  # fmt: skip
    """One list of offers a start, of logits, rank logits and summaries `[B, K, ..]`; None if any is not finite.

    `paths`: the drafted tokens down to each start's node, which a repetition penalty looks at; tokens of the block
    itself are not among them. Scores are full-vocabulary log-probabilities, ranking leaves banned tokens out.
    """
    logits, rank_logits, told = spoken
    slots = logits.shape[1]
    best, logs = ranked(ctx, vocabulary, logits.flatten(0, 1), [path for path in paths for _ in range(slots)], N_TOP)
    judged = rank_logits.flatten(0, 1).to(logs.dtype) / reading.temp + logs.new_tensor(reading.bias)
    columns = [vocabulary.to_target(best).to(logs.dtype), logs, judged.softmax(-1)]
    if reading.full:
        probs = logits.flatten(0, 1).to(logs.dtype).softmax(-1)
        columns += [told.flatten(0, 1).to(logs.dtype), -torch.special.xlogy(probs, probs).sum(-1, keepdim=True)]
    table = torch.cat(columns, -1)  # ids below 2^24 are exact in float32
    ctx.counters.n_syncs += 1
    rows, n_top = table.tolist(), best.shape[-1]
    if not all(math.isfinite(sum(row[n_top : 2 * n_top + N_BUCKETS])) for row in rows):
        return None
    made = [_offer(row, n_top, reading.full) for row in rows]
    return [made[k : k + slots] for k in range(0, len(made), slots)]


def ranked(
    ctx: Context, vocabulary: Vocabulary, logits: Tensor, paths: Sequence[Sequence[int]], n: int
) -> tuple[Tensor, Tensor]:
    """The `n` best draft ids of every row `[rows, V_d]` and their full-vocabulary log-probabilities, `[rows, <= n]`.

    They are ranked as the target ranks tokens: penalised, banned ones last.
    """
    wide = _wide(logits)
    scores = wide
    if _reorders(ctx.warper):
        prefixes = [[*ctx.tokens, *path] for path in paths] if ctx.warper.needs_prefix else None
        scores = vocabulary.to_draft(ctx.warper.scores(vocabulary.spread(wide), prefixes))
    best = scores.topk(min(n, scores.shape[-1]), -1).indices
    return best, wide.gather(-1, best) - wide.logsumexp(-1, keepdim=True)


def order(ctx: Context, vocabulary: Vocabulary, path: Sequence[int]) -> Order | None:
    """How `ranked` ranks below a start that `path` leads to, for once the round is over; None: by the logits alone."""
    warper = ctx.warper
    if not _reorders(warper):
        return None
    prefix = [*ctx.tokens, *path]
    return lambda rows: vocabulary.to_draft(warper.scores(vocabulary.spread(_wide(rows)), [prefix] * len(rows)))


def _reorders(warper: Warper) -> bool:
    return bool(warper.banned) or warper.needs_prefix


def _wide(logits: Tensor) -> Tensor:
    return logits if logits.dtype == torch.float64 else logits.float()


def _offer(row: list[float], n_top: int, full: bool) -> Offer:
    probs = tuple(row[2 * n_top : 2 * n_top + N_BUCKETS])
    rest = row[2 * n_top + N_BUCKETS :]
    return Offer(
        tokens=tuple(int(token) for token in row[:n_top]),
        logs=tuple(row[n_top : 2 * n_top]),
        bucket=max(range(N_BUCKETS), key=lambda b: probs[b]),
        rank_probs=probs,
        summary=tuple(rest[:N_SUMMARY]) if full else (),
        entropy=rest[N_SUMMARY] if full else None,
    )


@dataclass(slots=True)
class Candidate:
    """A candidate node; `row`: number of the expanded node that offered it, 0 the root."""

    token: int
    parent: int
    depth: int
    log: float
    cum: float
    rank: int
    row: int


@dataclass(slots=True)
class Levels:
    """The raw tree. `ends(token)`: nothing follows that token."""

    k: int
    deepest: int
    ends: Callable[[int], bool] = lambda token: False
    nodes: list[Candidate] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)  # expanded nodes in the order they ran, the root first

    def offer(self, parents: Sequence[int], offers: Sequence[tuple[Sequence[int], Sequence[float]]]) -> None:
        """Children of expanded nodes: for each its tokens with their log-probabilities, best first."""
        for parent, (tokens, logs) in zip(parents, offers, strict=True):
            self.rows.append(parent)
            for rank, (token, log) in enumerate(zip(tokens[: self.k], logs, strict=False), 1):
                self.add(parent, token, log, rank)

    def add(self, parent: int, token: int, log: float, rank: int) -> None:
        """A node that the row expanded last offered."""
        low = min(0.0, log)
        cum, depth = (0.0, 0) if parent == ROOT else (self.nodes[parent].cum, self.nodes[parent].depth)
        self.nodes.append(Candidate(token, parent, depth + 1, low, cum + low, rank, len(self.rows) - 1))

    def next(self) -> list[int]:
        """The `k` best nodes of the deepest level, those that end the text left out; none when deep enough."""
        level = max((node.depth for node in self.nodes), default=0)
        if level >= self.deepest:
            return []
        last = [n for n, node in enumerate(self.nodes) if node.depth == level and not self.ends(node.token)]
        return sorted(last, key=lambda n: (-self.nodes[n].cum, n))[: self.k]

    def path(self, node: int) -> list[int]:
        """Drafted tokens down to a node."""
        out: list[int] = []
        while node != ROOT:
            out.append(self.nodes[node].token)
            node = self.nodes[node].parent
        return out[::-1]

    def kept(self, budget: int) -> list[int]:
        """The `budget` best by (score, depth, number), ascending; closed, as no child outscores its parent."""
        order = sorted(range(len(self.nodes)), key=lambda n: (-self.nodes[n].cum, self.nodes[n].depth, n))
        kept = sorted(order[:budget])
        inside = {ROOT, *kept}
        assert all(self.nodes[n].parent in inside for n in kept), "pruning cut a node off from its parent"
        return kept
