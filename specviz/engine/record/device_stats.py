"""Numbers of many tokens off a table of rows at once, so that a device is waited for as seldom as can be."""

from array import array
from collections.abc import Sequence

import torch

from specviz.engine.model.host import sent
from specviz.events import log6
from specviz.probability.host import fetch
from specviz.probability.rows import Certain, Row, Rows, at

FEW = 16  # entries of a host table that cost less one by one than the index of a gather


def top_lists(probs: torch.Tensor, topk: int) -> list[list[tuple[int, float]]]:
    """`[[(id, log probability), ..], ..]` of rows `[n, V]`, one copy off the device."""
    top = probs.topk(min(topk, probs.shape[-1]), -1)
    return [
        [(token, log6(p)) for token, p in zip(ids, values, strict=True) if p > 0]
        for ids, values in zip(*fetch(top.indices, top.values), strict=True)
    ]


def picked(table: Rows, rows: Sequence[int], tokens: Sequence[int]) -> list[float]:
    """`table[rows[i]][tokens[i]]` for every i. From a device in one copy; a few on the host cost less one by one."""
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
        return picked(torch.stack(list(rows)).log_softmax(-1), range(len(rows)), tokens)
    laws: dict[int, torch.Tensor] = {}
    out: list[float] = []
    for row, token in zip(rows, tokens, strict=True):
        law = laws.get(id(row))
        if law is None:
            law = laws[id(row)] = row.log_softmax(-1)
        out.append(law[token].item())
    return out


def leads(rows: torch.Tensor) -> list[float]:
    """Highest minus second highest entry of every row `[n, V]`, in the precision of the rows.

    The difference is taken here: as an operation on tensors it costs a quarter of the whole.
    """
    width = "d" if rows.dtype == torch.float64 else "f"
    return array(width, [first - second for first, second in fetch(rows.topk(2, -1).values)[0]]).tolist()


def rows_of(table: torch.Tensor, rows: Sequence[int]) -> torch.Tensor:
    """`[n, V]`: some rows of a table; a list as subscript costs twice as much."""
    return table.index_select(0, sent(list(rows), table.device))


def entropies(probs: torch.Tensor) -> list[float]:
    """Entropy of every row `[n, V]`, in nats; `special.entr` takes twice as long."""
    tiny = torch.finfo(probs.dtype).tiny
    out: list[float] = fetch(probs.clamp_min(tiny).log_().mul_(probs).sum(-1).neg_())[0]
    return out


def ranks_of(scores: torch.Tensor, rows: Sequence[int], tokens: Sequence[int]) -> list[int]:
    """Rank (1 = highest) of `tokens[i]` in row `rows[i]` of `[n, V]`."""
    picked = rows_of(scores, rows)
    mine = picked.gather(-1, sent(list(tokens), scores.device)[:, None])
    ranks: list[int] = fetch((picked > mine).sum(-1) + 1)[0]
    return ranks
