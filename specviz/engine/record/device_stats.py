"""Numbers of many tokens off a table of rows at once, so that a device is waited for as seldom as can be.

Rows on the host are looked at by the kernel of `compiled.rows`, where there is one. Without it, what is sure to be the
same number either way (a largest entry, a count, a single entry) is looked up by numpy where the table is on the host:
an operation on tensors takes some microseconds before it begins, and `topk` copies the whole row. Logs and sums are
taken in double, so that a record has the same six digits wherever it was made; only where a sum falls within rounding
of the middle between two may the last one differ.
"""

import math
from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from specviz.engine.model.compiled.rows import RowFacts, RowKernel, addresses
from specviz.engine.model.host import sent
from specviz.events import log6, six
from specviz.probability.host import fetch
from specviz.probability.rows import Certain, Row, Rows, at
from specviz.probability.surplus import SURPLUS

FEW = 16  # entries of a host table that cost less one by one than the index of a gather
LONG = 8192  # entries of a row from which on two searches cost less than `topk`
HEAD = 2048  # first entries of a long row, among which `topk` finds what the others must be higher than
ROUNDED = 256  # numbers from which on numpy rounds them faster than one by one, also right behind a pass
_LEAST = -103.97  # log of the smallest probability that float32 holds: what is below it is not listed
_TENS = 10.0 ** np.arange(23)  # exact

Host = np.ndarray[Any, Any]


def on_host(table: Any) -> Host | None:
    """A tensor's memory as an array, where numpy can read it."""
    if isinstance(table, torch.Tensor) and table.is_cpu and table.dtype in (torch.float32, torch.float64):
        found: Host = table.numpy()
        return found
    return None


def facts_of(
    kernel: RowKernel | None,
    rows: Sequence[torch.Tensor] | torch.Tensor,
    k: int,
    of: Sequence[int],
    tokens: Sequence[int],
    *,
    shares: bool = False,
) -> RowFacts:
    """What is recorded of rows `[n, V]` of scores, or of probabilities (`shares`), and of `tokens[i]` in row `of[i]`.

    `k`: how many of the highest are told; 0: the logs of the tokens alone. Leads are told where the kernel comes by.
    """
    size = (rows if isinstance(rows, torch.Tensor) else rows[0]).shape[-1]
    k = min(k, size)
    where = None if kernel is None else addresses(rows, k)
    if kernel is not None and where is not None:
        found = kernel.facts(where, size, k, of, tokens, shares=shares)
        if found is not None:
            return found
    if not k:
        return RowFacts([], [], [], [six(log) for log in log_shares([rows[row] for row in of], tokens)], [])
    table = rows if isinstance(rows, torch.Tensor) else torch.stack(list(rows))
    ranks = ranks_of(table, of, tokens) if tokens else []
    if shares:
        logs = [log6(p) for p in picked(table, of, tokens)]
        return RowFacts([], [six(entropy) for entropy in entropies(table)], top_lists(table, k), logs, ranks)
    return _of_scores(table, k, of, tokens, ranks)


def _of_scores(table: torch.Tensor, k: int, of: Sequence[int], tokens: Sequence[int], ranks: list[int]) -> RowFacts:
    ids, scores = highest(table, k)
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


def top_lists(probs: torch.Tensor, topk: int) -> list[list[tuple[int, float]]]:
    """`[[(id, log probability), ..], ..]` of rows `[n, V]`, one copy off the device."""
    k = min(topk, probs.shape[-1])
    ids, values = highest(probs, k)
    logs = logs6([p for row in values for p in row])
    return [
        [(token, log) for token, p, log in zip(ids[n], row, logs[n * k : n * k + k], strict=True) if p > 0]
        for n, row in enumerate(values)
    ]


def highest(rows: torch.Tensor, k: int) -> tuple[list[list[int]], list[list[float]]]:
    """Ids and values of the `k` highest entries of every row `[n, V]`: `topk`, which of level entries it takes too.

    `topk` goes through a row on the host from its first entry on and looks again only at what is higher than the k-th
    highest so far. So what is not higher than that of the first entries need not be copied for it.
    """
    host = on_host(rows)
    if host is None or rows.shape[-1] < 4 * HEAD or k * 64 > HEAD:
        top = rows.topk(k, -1)
        all_ids, all_values = fetch(top.indices, top.values)
        return all_ids, all_values
    ids, values = [], []
    floors = rows[:, :HEAD].topk(k, -1).values[:, -1].tolist()
    for row, floor in zip(host, floors, strict=True):
        places = np.flatnonzero(row[HEAD:] > row.dtype.type(floor)) + HEAD
        top = torch.from_numpy(np.concatenate((row[:HEAD], row[places]))).topk(k)
        ids.append([n if n < HEAD else int(places[n - HEAD]) for n in top.indices.tolist()])
        values.append(top.values.tolist())
    return ids, values


def largest(kernel: RowKernel | None, row: torch.Tensor, k: int) -> tuple[list[int], list[float], float]:
    """Ids and values of the `k` highest entries of a row `[V]`, and its sum."""
    size = row.numel()
    k = min(k, size)
    where = None if kernel is None else addresses([row], k)
    if kernel is not None and where is not None:
        return kernel.largest(where[0], size, k)
    top = row.topk(k)
    ids, values, total = fetch(top.indices, top.values, row.sum(dtype=torch.float64))
    return ids, values, total


def logs6(probs: Sequence[float]) -> list[float]:
    """`log6` of every probability."""
    if len(probs) < ROUNDED:
        return [log6(p) for p in probs]
    with np.errstate(divide="ignore"):
        return _rounded(np.log(probs))


def sixes(numbers: Sequence[float]) -> list[float]:
    """`six` of every number."""
    return [six(number) for number in numbers] if len(numbers) < ROUNDED else _rounded(np.array(numbers))


def _rounded(values: Host) -> list[float]:
    """By a power of ten that is exact; what then lies all but half way between two integers goes the long way."""
    size = np.abs(values)
    usual = (size >= 1e-9) & (size < 1e6)
    tens = _TENS[(5 - np.floor(np.log10(np.where(usual, size, 1.0)))).astype(np.intp)]
    whole = np.where(usual, values, 0.0) * tens
    near = np.rint(whole)
    rounded: list[float] = (near / tens).tolist()
    for k in np.flatnonzero(~usual | (np.abs(np.abs(whole - near) - 0.5) < 1e-6)).tolist():
        rounded[k] = six(float(values[k]))
    return rounded


def picked(table: Rows, rows: Sequence[int], tokens: Sequence[int]) -> list[float]:
    """`table[rows[i]][tokens[i]]` for every i. From a device in one copy; on the host one by one."""
    host = on_host(table)
    if host is not None:
        item = host.item
        return [item(row, token) for row, token in zip(rows, tokens, strict=True)]
    if isinstance(table, torch.Tensor) and not (table.is_cpu and len(rows) <= FEW):
        at_rows, at_tokens = sent([list(rows), list(tokens)], table.device)
        found: list[float] = fetch(table[at_rows, at_tokens])[0]
        return found
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
    host = on_host(rows) if rows.shape[-1] >= LONG else None
    pairs = fetch(rows.topk(2, -1).values)[0] if host is None else [_two_highest(row) for row in host]
    return array(width, [first - second for first, second in pairs]).tolist()


def _two_highest(row: Host) -> tuple[float, float]:
    """Of a row `[V]`: what is highest, and what is when that place is left out."""
    place = int(row.argmax())
    parts = [part for part in (row[:place], row[place + 1 :]) if len(part)]
    return float(row[place]), max(float(np.maximum.reduce(part)) for part in parts)


def rows_of(table: torch.Tensor, rows: Sequence[int]) -> torch.Tensor:
    """`[n, V]`: some rows of a table; a list as subscript costs twice as much. Neighbours are not copied."""
    first = rows[0]
    if list(rows) == list(range(first, first + len(rows))):
        return table[first : first + len(rows)]
    return table.index_select(0, sent(list(rows), table.device))


def entropies(probs: torch.Tensor) -> list[float]:
    """Entropy of every row `[n, V]`, in nats; `special.entr` takes twice as long."""
    wide = probs.double()
    (found,) = fetch(wide.clamp_min(torch.finfo(wide.dtype).tiny).log_().mul_(wide).sum(-1))
    return [max(0.0, -each) for each in found]


def distances(rows: torch.Tensor, laws: torch.Tensor) -> list[float]:
    """Total variation distance between each of some rows `[n, V]` and the law `[n, V]` of that number."""
    host, others = on_host(rows), on_host(laws)
    if host is not None and others is not None:
        found = SURPLUS.masses(host, others, [1.0] * len(rows))
        if found is not None:
            return [(more + less) / 2 for more, less in zip(*found, strict=True)]
    out: list[float] = fetch((rows - laws).abs().sum(-1, dtype=torch.float64).div(2))[0]
    return out


def ranks_of(scores: torch.Tensor, rows: Sequence[int], tokens: Sequence[int]) -> list[int]:
    """Rank (1 = highest) of `tokens[i]` in row `rows[i]` of `[n, V]`."""
    host = on_host(scores)
    if host is not None:
        return [_rank(host[row], token) for row, token in zip(rows, tokens, strict=True)]
    chosen = rows_of(scores, rows)
    mine = chosen.gather(-1, sent(list(tokens), scores.device)[:, None])
    ranks: list[int] = fetch((chosen > mine).sum(-1) + 1)[0]
    return ranks


def _rank(row: Host, token: int) -> int:
    return int(np.count_nonzero(row > row[token])) + 1
