"""Statistics of rows over the vocabulary for the record: top tokens, log probabilities, entropy, ranks, leads,
distances.

Rows in main memory are read by the kernel of `compiled.rows` if there is one, all others by torch with as few device
waits as possible. **Equal entries are ordered by token id** on every path and device, so a record does not depend on
which of them computed it. Logs and sums are taken in double precision and recorded with six digits; only the last digit
may differ between machines, where a sum is within rounding of the middle of two values.
"""

import math
from array import array
from collections.abc import Sequence

import torch

from specviz.engine.model.compiled.rows import RowFacts, RowKernel, addresses
from specviz.engine.model.host import to_device
from specviz.events import log6, six
from specviz.probability.host import fetch
from specviz.probability.rows import Certain, Row, Rows, at
from specviz.probability.surplus import SURPLUS

FEW = 6  # entries of a host table that cost less one by one than the index of a gather
_LEAST = -103.97  # log of the smallest probability that float32 holds: what is below it is not listed


def facts_of(
    kernel: RowKernel | None,
    rows: Sequence[torch.Tensor] | torch.Tensor,
    k: int,
    of: Sequence[int] = (),
    tokens: Sequence[int] = (),
    *,
    shares: bool = False,
) -> RowFacts:
    """Statistics of rows `[n, V]` of scores, or of probabilities (`shares`), and of `tokens[i]` in row `of[i]`.

    `k`: number of highest entries; 0: only the tokens' log probabilities. Leads (gap between the two highest logits)
    are returned only by the kernel, which computes them at no cost.
    """
    size = (rows if isinstance(rows, torch.Tensor) else rows[0]).shape[-1]
    k = min(k, size)
    where = None if kernel is None else addresses(rows, k)
    if kernel is not None and where is not None:
        facts = kernel.facts(where, size, k, of, tokens, shares=shares)
        if facts is not None:
            return facts
    if not k:
        return RowFacts([], [], [], [six(log) for log in log_shares([rows[row] for row in of], tokens)], [])
    table = rows if isinstance(rows, torch.Tensor) else torch.stack(list(rows))
    ranks = ranks_of(table, of, tokens) if tokens else []
    best = highest(table, k)
    ids, values = fetch(best, table.gather(-1, best))
    if shares:
        tops = [
            [(token, log6(p)) for token, p in zip(*pair, strict=True) if p > 0]
            for pair in zip(ids, values, strict=True)
        ]
        logs = [log6(p) for p in picked(table, of, tokens)]
        return RowFacts([], [six(entropy) for entropy in entropies(table)], tops, logs, ranks)
    return _of_scores(table, ids, values, of, tokens, ranks)


def _of_scores(
    table: torch.Tensor,
    ids: list[list[int]],
    scores: list[list[float]],
    of: Sequence[int],
    tokens: Sequence[int],
    ranks: list[int],
) -> RowFacts:
    below = table.double() - table.amax(-1, keepdim=True)
    weights = below.exp()
    masses, pulls = fetch(weights.sum(-1), below.clamp_(min=-1e4).mul_(weights).sum(-1))
    logs = [math.log(mass) for mass in masses]
    tops = [
        [(token, six(log)) for token, score in zip(*pair, strict=True) if (log := score - pair[1][0] - whole) > _LEAST]
        for pair, whole in zip(zip(ids, scores, strict=True), logs, strict=True)
    ]
    mine = [score - scores[row][0] - logs[row] for row, score in zip(of, picked(table, of, tokens), strict=True)]
    entropy = [six(max(0.0, log - pull / mass)) for log, pull, mass in zip(logs, pulls, masses, strict=True)]
    return RowFacts([], entropy, tops, [six(log) for log in mine], ranks)


def highest(rows: torch.Tensor, k: int) -> torch.Tensor:
    """Ids `[n, k]` of the `k` highest entries of every row `[n, V]`, best first; of level ones the lowest id first.

    `topk` takes whichever of level ones, so it is given whole numbers that are as the entries are and never level.
    """
    if rows.dtype == torch.float64:  # no room for an id beside it
        return rows.sort(dim=-1, descending=True, stable=True).indices[:, :k]
    parts = torch.split(rows, 1) if rows.is_cpu else (rows,)  # what is made of a row is still in a cache
    return torch.cat([_ordered(part).topk(k, -1).indices for part in parts])


def _ordered(rows: torch.Tensor) -> torch.Tensor:
    """Whole numbers `[n, V]`: the bits of an entry, which order as it does, above those of its id, the lowest first."""
    keys = (rows.float() + 0.0).view(torch.int32).long()  # one zero only
    keys ^= (keys >> 63) & 0x7FFFFFFF  # bits of negative numbers order the other way round
    keys <<= 32
    keys += torch.arange(rows.shape[-1] - 1, -1, -1, device=rows.device)
    return keys


def largest(kernel: RowKernel | None, row: torch.Tensor, k: int) -> tuple[list[int], list[float], float]:
    """Ids and values of the `k` highest entries of a row `[V]`, and its sum."""
    size = row.numel()
    k = min(k, size)
    where = None if kernel is None else addresses([row], k)
    if kernel is not None and where is not None:
        return kernel.largest(where[0], size, k)
    best = highest(row[None], k)[0]
    ids, values, total = fetch(best, row[best], row.sum(dtype=torch.float64))
    return ids, values, total


def picked(table: Rows, rows: Sequence[int], tokens: Sequence[int]) -> list[float]:
    """`table[rows[i]][tokens[i]]` for every i. Many, and those of a device, in one copy; few on the host one by one."""
    if not rows:
        return []
    if isinstance(table, torch.Tensor) and not (table.is_cpu and len(rows) <= FEW):
        at_rows, at_tokens = to_device([list(rows), list(tokens)], table.device)
        values: list[float] = fetch(table[at_rows, at_tokens])[0]
        return values
    return [at(table[row], token) for row, token in zip(rows, tokens, strict=True)]


def entries(row: Row, tokens: Sequence[int]) -> list[float]:
    """The entries of some tokens of a row `[V]`, from a device in one copy."""
    return picked([row] if isinstance(row, Certain) else row[None], [0] * len(tokens), tokens)


def log_shares(rows: Sequence[torch.Tensor], tokens: Sequence[int]) -> list[float]:
    """Log of the softmax of `rows[i]` `[V]` at `tokens[i]`; a row that comes twice is the same tensor.

    On a device in one go; on the host row by row, which costs less than to stack a few.
    """
    if not rows[0].is_cpu:
        return picked(torch.stack(list(rows)).double().log_softmax(-1), range(len(rows)), tokens)
    laws: dict[int, torch.Tensor] = {}
    out: list[float] = []
    for row, token in zip(rows, tokens, strict=True):
        law = laws.get(id(row))
        if law is None:
            law = laws[id(row)] = row.double().log_softmax(-1)
        out.append(law[token].item())
    return out


def leads(rows: torch.Tensor) -> list[float]:
    """Highest minus second highest entry of every row `[n, V]`, in the precision of the rows.

    The difference is taken here: as an operation on tensors it costs a quarter of the whole.
    """
    width = "d" if rows.dtype == torch.float64 else "f"
    return array(width, [first - second for first, second in fetch(rows.topk(2, -1).values)[0]]).tolist()


def rows_of(table: torch.Tensor, rows: Sequence[int]) -> torch.Tensor:
    """`[n, V]`: some rows of a table; a list as subscript costs twice as much. Neighbours are not copied."""
    first = rows[0]
    if list(rows) == list(range(first, first + len(rows))):
        return table[first : first + len(rows)]
    return table.index_select(0, to_device(list(rows), table.device))


def entropies(probs: torch.Tensor) -> list[float]:
    """Entropy of every row `[n, V]`, in nats; `special.entr` takes twice as long."""
    wide = probs.double()
    (sums,) = fetch(wide.clamp_min(torch.finfo(wide.dtype).tiny).log_().mul_(wide).sum(-1))
    return [max(0.0, -total) for total in sums]


def distances(rows: torch.Tensor, laws: torch.Tensor) -> list[float]:
    """Total variation distance between each of some rows `[n, V]` and the law `[n, V]` of that number."""
    if rows.is_cpu and laws.is_cpu and rows.dtype == laws.dtype == torch.float32:
        masses = SURPLUS.masses(rows.numpy(), laws.numpy(), [1.0] * len(rows))
        if masses is not None:
            return [(more + less) / 2 for more, less in zip(*masses, strict=True)]
    out: list[float] = fetch((rows - laws).abs().sum(-1, dtype=torch.float64).div(2))[0]
    return out


def ranks_of(scores: torch.Tensor, rows: Sequence[int], tokens: Sequence[int]) -> list[int]:
    """Rank (1 = highest) of `tokens[i]` in row `rows[i]` of `[n, V]`; level ones share the better rank."""
    chosen = rows_of(scores, rows)
    mine = chosen.gather(-1, to_device(list(tokens), scores.device)[:, None])
    ranks: list[int] = fetch((chosen > mine).sum(-1) + 1)[0]
    return ranks
