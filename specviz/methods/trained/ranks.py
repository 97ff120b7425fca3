"""Ranks of drafted tokens: the head that predicts them, and the best tokens of a call's rows.

The rank head says in which bucket the target's own token will stand in a slot's draft distribution. Bucket 0: the
draft's best token is right; 1: ranks 2 to 4; 2: ranks 5 to 10; 3: lower. Ranks count from 1. What a call's logits offer
the tree is read off the device in one copy.
"""

import math
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from specviz.engine.decode.context import Context
from specviz.engine.decode.sampling import Warper
from specviz.engine.model.compiled.program import RowChoice
from specviz.engine.model.compiled.rows import RowKernel, addresses, row_kernel
from specviz.engine.row_stats import highest
from specviz.events import six
from specviz.methods.trained.layers import linear
from specviz.methods.trained.programs import ModuleSketch, programs_of
from specviz.methods.trained.vocabulary import Vocabulary
from specviz.names import COMPILE
from specviz.probability.host import fetch

Tensor = torch.Tensor
BORDERS = (1, 4, 10)  # the last rank of buckets 0, 1, 2
N_BUCKETS = len(BORDERS) + 1
N_TOP, N_SUMMARY = 20, 15
_LANES = 16  # numbers that the kernel moves at once
_ABSENT = -1e4  # the logit of entries that a vocabulary under 20 lacks


def summary(logits: Tensor) -> Tensor:
    """`[.., 15]` of logits `[.., V_d]`: 10 log-probabilities among the best 20, three gaps, best share, entropy.

    Float32, float64 for float64 logits. The same normalisation in training and decoding.
    """
    return summary_of(_top(wide(logits)))


def _top(numbers: Tensor) -> Tensor:
    return numbers.topk(min(N_TOP, numbers.shape[-1]), -1).values


def summary_of(top: Tensor) -> Tensor:
    """`summary` of the highest logits `[.., at most 20]`, best first."""
    if top.shape[-1] < N_TOP:
        top = nn.functional.pad(top, (0, N_TOP - top.shape[-1]), value=_ABSENT)
    logs = top.log_softmax(-1)
    probs = logs.exp()
    gaps = top[..., :1] - top[..., 1:5]  # to the second, the third and the fifth
    entropy = -(probs * logs).sum(-1, keepdim=True)
    return torch.cat([logs[..., :10], gaps[..., :2], gaps[..., 3:], probs[..., :1], entropy], -1)


class RankHead(nn.Module):
    """`[n_in] -> width -> SiLU -> 4`, no biases."""

    def __init__(self, n_in: int, width: int) -> None:
        super().__init__()
        self.down, self.up = linear(n_in, width), linear(width, N_BUCKETS)

    def forward(self, read: Tensor) -> Tensor:
        """Logits of the buckets `[.., 4]` from `[.., n_in]`."""
        out: Tensor = self.up(nn.functional.silu(self.down(read)))
        return out

    def judged(self, normed: Tensor, summarised: Tensor) -> Tensor:
        """The same of normed states `[.., width]` and summaries `[.., 15]` behind them. Both are detached: the loss of
        ranks moves nothing but this head."""
        judge: Judge | None = programs_of(self)
        if judge is not None and normed.dtype == self.up.weight.dtype:
            return judge(normed, summarised)
        return self(torch.cat([normed.detach(), summarised.to(normed.dtype)], -1))  # type: ignore[no-any-return]

    def programs(self) -> "Judge":
        """The same by the kernel."""
        return Judge(self)


class Judge:
    """A rank head in the kernel."""

    def __init__(self, head: RankHead) -> None:
        call = ModuleSketch(head.up.weight.dtype)
        down, up = call.matrix(head.down), call.matrix(head.up)
        width = head.down.in_features - N_SUMMARY
        self._tables = normed, inputs, out = call.table(width), call.table(_LANES), call.table(up.n_out)
        read, inner, outputs = call.table(down.n_in), call.table(down.n_out), call.table(up.n_out)
        if down.n_in < width + _LANES:
            raise ValueError("no room for a summary")
        call.copy(call.always(torch.zeros(1, down.n_in, device="cpu")), read, RowChoice.CYCLE)
        call.copy(normed, read)
        call.copy(inputs, read, column=width)
        call.product(read, inner, down)
        call.silu(inner)
        call.product(inner, outputs, up)
        call.widen(outputs, out)
        self._program, self._n = call.build(), up.n_out

    def __call__(self, normed: Tensor, summarised: Tensor) -> Tensor:
        """Logits of the buckets `[.., 4]`, in float32."""
        normed, summarised = (
            normed.contiguous(),
            nn.functional.pad(summarised.to(normed.dtype), (0, _LANES - N_SUMMARY)),
        )
        out = normed.new_empty(*normed.shape[:-1], self._n, dtype=torch.float32)
        self._program.run(
            normed.numel() // normed.shape[-1], dict(zip(self._tables, (normed, summarised, out), strict=True))
        )
        return out[..., :N_BUCKETS]


def ranks(logits: Tensor, tokens: Tensor) -> Tensor:
    """The 1-based rank `[..]` of `tokens` `[..]` in logits `[.., V_d]`; equals share the better rank."""
    own = logits.gather(-1, tokens[..., None])
    above = (logits > own).sum(-1, dtype=torch.int32)  # half the time of the usual sum, in 64 bits
    return 1 + above.long()


def buckets(rank: Tensor) -> Tensor:
    """The bucket `[..]`, 0 to 3, of 1-based ranks `[..]`."""
    return torch.bucketize(rank, torch.tensor(BORDERS, device=rank.device))


def bucket(rank: int) -> int:
    return sum(rank > border for border in BORDERS)


@dataclass(frozen=True, slots=True)
class SlotCandidates:
    """What one slot offers: its best tokens with full-vocabulary log-probabilities, and the rank head's verdict."""

    tokens: tuple[int, ...]  # at most 20, best first
    logs: tuple[float, ...]
    bucket: int
    rank_probs: tuple[float, ...] = ()
    summary: tuple[float, ...] = ()
    entropy: float | None = None
    true_bucket: int | None = None  # the true ranks are known in advance and set the widths
    logits: Any = None  # [V_d], where siblings are drawn


Ranked = tuple[list[int], list[float]]
Order = Callable[[Tensor], Tensor]
"""Logits `[n, V_d]` of one start -> the scores its tokens were ranked by."""


@dataclass(frozen=True, slots=True)
class RankReading:
    """How rank logits are read this round: `bias` is added after `temp` divided them."""

    bias: tuple[float, ...] = (0.0,) * N_BUCKETS
    temp: float = 1.0
    full: bool = False  # also summaries and entropies, for the record


def offers(
    ctx: Context,
    vocabulary: Vocabulary,
    logits: Tensor,
    judge: Callable[[Tensor], Tensor],
    paths: Sequence[Sequence[int]],
    reading: RankReading,
) -> list[list[SlotCandidates]] | None:
    """One list of offers a start, of logits `[B, K, V_d]`; None if any number is not finite. `judge` gives rank logits
    `[B, K, 4]` of summaries `[B, K, 15]`.

    `paths`: the drafted tokens down to each start's node, which a repetition penalty looks at; tokens of the block
    itself are not among them. Scores are full-vocabulary log-probabilities in six digits, ranking leaves banned tokens
    out.
    """
    slots, numbers = logits.shape[1], wide(logits.flatten(0, 1))
    kernel, n_top = _kernel(), min(N_TOP, numbers.shape[-1])
    where = None if kernel is None or _reorders(ctx.warper) else addresses(numbers, n_top)
    listed: list[Ranked] | None = None
    columns: list[Tensor] = []
    summaries: Tensor | None = None
    if kernel is not None and where is not None:
        known = kernel.facts(where, numbers.shape[-1], n_top, (), ())
        if known is None:
            return None
        listed, summaries = _told(vocabulary, known.tops), kernel.summaries(len(where), n_top)
    else:
        ids, logs = ranked(ctx, vocabulary, numbers, [path for path in paths for _ in range(slots)], N_TOP)
        columns = [vocabulary.to_target(ids).to(logs.dtype), logs]
    if summaries is None:
        summaries = summary_of(_top(numbers).double()).to(numbers.dtype)  # as the kernel makes them
    columns.append(judge(summaries.view(*logits.shape[:2], -1)).flatten(0, 1).double())
    if reading.full:
        probs = numbers.double().softmax(-1)
        columns += [summaries.double(), -torch.special.xlogy(probs, probs).sum(-1, keepdim=True)]
    ctx.counters.n_syncs += 1
    (rows,) = fetch(columns[0] if len(columns) == 1 else torch.cat(columns, -1))
    if listed is None:
        if not all(math.isfinite(sum(row[n_top : 2 * n_top])) for row in rows):
            return None
        listed = [([int(token) for token in row[:n_top]], [*map(six, row[n_top : 2 * n_top])]) for row in rows]
        rows = [row[2 * n_top :] for row in rows]
    offered = [_offer(best, row, reading) for best, row in zip(listed, rows, strict=True)]
    if not all(math.isfinite(sum(offer.rank_probs)) for offer in offered):
        return None
    return [offered[k : k + slots] for k in range(0, len(offered), slots)]


def ranked(
    ctx: Context, vocabulary: Vocabulary, logits: Tensor, paths: Sequence[Sequence[int]], n: int
) -> tuple[Tensor, Tensor]:
    """The `n` best draft ids of every row `[rows, V_d]` and their full-vocabulary log-probabilities, `[rows, <= n]`.

    They are ranked as the target ranks tokens: penalised, banned ones last.
    """
    numbers = wide(logits)
    scores = numbers
    if _reorders(ctx.warper):
        prefixes = [[*ctx.tokens, *path] for path in paths] if ctx.warper.needs_prefix else None
        scores = vocabulary.to_draft(ctx.warper.scores(vocabulary.spread(numbers), prefixes))
    best = highest(scores, min(n, scores.shape[-1]))
    exact = numbers.double()  # as a kernel sums them
    return best, exact.gather(-1, best) - exact.logsumexp(-1, keepdim=True)


def best(
    ctx: Context, vocabulary: Vocabulary, logits: Tensor, paths: Sequence[Sequence[int]], k: int
) -> list[Ranked] | None:
    """The k best tokens `(target ids, full-vocabulary logs)` of every row `[n, V_d]`, in six digits; None if any is not
    finite."""
    ctx.counters.n_syncs += 1
    kernel, numbers = _kernel(), wide(logits)
    where = None if kernel is None or _reorders(ctx.warper) else addresses(numbers, k)
    if kernel is not None and where is not None:
        facts = kernel.facts(where, numbers.shape[-1], k, (), ())
        return None if facts is None else _told(vocabulary, facts.tops)
    ids, logs = ranked(ctx, vocabulary, logits, paths, k)
    table = torch.cat([vocabulary.to_target(ids).to(logs.dtype), logs], -1)
    n = ids.shape[-1]
    rows = fetch(table)[0]
    if not all(math.isfinite(sum(row[n:])) for row in rows):
        return None
    return [([int(token) for token in row[:n]], [six(log) for log in row[n:]]) for row in rows]


class _OfThread(threading.local):
    kernel: RowKernel | None = None


_OF_THREAD = _OfThread()


def _kernel() -> RowKernel | None:
    """That of this thread; looked for once more while there is none."""
    if _OF_THREAD.kernel is None or os.environ.get(COMPILE) == "off":
        _OF_THREAD.kernel = row_kernel()
    return _OF_THREAD.kernel


def _told(vocabulary: Vocabulary, tops: Sequence[Sequence[tuple[int, float]]]) -> list[Ranked]:
    """What the kernel found in rows, as the target's ids."""
    return [(vocabulary.target_ids(token for token, _ in top), [log for _, log in top]) for top in tops]


def order(ctx: Context, vocabulary: Vocabulary, path: Sequence[int]) -> Order | None:
    """How `ranked` ranks below a start that `path` leads to, for once the round is over; None: by the logits alone."""
    warper = ctx.warper
    if not _reorders(warper):
        return None
    prefix = [*ctx.tokens, *path]
    return lambda rows: vocabulary.to_draft(warper.scores(vocabulary.spread(wide(rows)), [prefix] * len(rows)))


def _reorders(warper: Warper) -> bool:
    return bool(warper.banned) or warper.needs_prefix


def wide(logits: Tensor) -> Tensor:
    """Logits in float32 or wider: token ids beside them stay exact."""
    return logits if logits.dtype == torch.float64 else logits.float()


def _offer(best: Ranked, row: list[float], reading: RankReading) -> SlotCandidates:
    scores = [logit / reading.temp + more for logit, more in zip(row, reading.bias, strict=False)]
    shares = [math.exp(score - max(scores)) for score in scores]
    probs, rest = tuple(share / sum(shares) for share in shares), row[N_BUCKETS:]
    return SlotCandidates(
        tokens=tuple(best[0]),
        logs=tuple(best[1]),
        bucket=max(range(N_BUCKETS), key=lambda b: probs[b]),
        rank_probs=probs,
        summary=tuple(rest[:N_SUMMARY]) if reading.full else (),
        entropy=rest[N_SUMMARY] if reading.full else None,
    )
