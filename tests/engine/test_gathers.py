"""What is read one by one, or subtracted outside the tensors, is what whole-tensor operations give, bit for bit."""

import math

import pytest
import torch

from specviz.engine.row_stats import (
    FEW,
    highest,
    leads,
    log_shares,
    picked,
    ranks_of,
)


def rows(n: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(n, 37, generator=torch.Generator().manual_seed(5), dtype=dtype) * 4


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_lead_has_the_precision_of_its_row(dtype: torch.dtype) -> None:
    table = rows(200, dtype)
    table[0, [3, 9]] = 50.0  # a tie for the first place
    two = table.sort(-1, descending=True).values
    assert leads(table) == (two[:, 0] - two[:, 1]).tolist()
    assert leads(table)[0] == 0.0


@pytest.mark.parametrize("n", [1, FEW, FEW + 1, 60])
def test_few_and_many_entries_are_read_alike(n: int) -> None:
    table, which, tokens = rows(7), [k * 5 % 7 for k in range(n)], [k * 11 % 37 for k in range(n)]
    assert picked(table, which, tokens) == [float(table[r][t]) for r, t in zip(which, tokens, strict=True)]


def test_a_row_by_itself_has_the_logs_it_has_in_a_stack() -> None:
    table = rows(6)
    nodes = [(0, 4), (0, 9), (3, 4), (5, 36), (3, 0)]  # siblings share a row
    row = list(table)
    stacked = torch.stack([row[k] for k, _ in nodes]).double().log_softmax(-1)
    wanted = [float(stacked[i, token]) for i, (_, token) in enumerate(nodes)]
    assert log_shares([row[k] for k, _ in nodes], [token for _, token in nodes]) == wanted


def long_rows(n: int, vocab: int, kind: str) -> torch.Tensor:
    """Rows `[n, vocab]` of many kinds: with few levels as of half precision, mostly without mass, rising, level."""
    noise = torch.randn(n, vocab, generator=torch.Generator().manual_seed(vocab)) * 4
    if kind == "levels":
        noise = noise.bfloat16().float()
    elif kind == "sparse":
        noise[:, torch.arange(vocab) % 997 != 5] = -math.inf
    elif kind == "rising":
        noise = noise.sort(-1).values
    elif kind == "level":
        noise = noise.clamp(-0.01, 0.01).sign()
    return noise


@pytest.mark.parametrize("kind", ["any", "levels", "sparse", "rising", "level"])
@pytest.mark.parametrize("vocab", [37, 8192, 49_152])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_the_highest_come_first_and_of_level_ones_the_lowest_id(vocab: int, kind: str, dtype: torch.dtype) -> None:
    scores = long_rows(4, vocab, kind).to(dtype)
    scores[0, 3], scores[0, 9] = -0.0, 0.0  # the same number
    for table in (scores, scores.softmax(-1)):
        wanted = table.sort(dim=-1, descending=True, stable=True).indices
        for k in (1, 8, 20):
            assert torch.equal(highest(table, k), wanted[:, :k])


@pytest.mark.parametrize("kind", ["any", "levels", "rising"])
def test_a_lead_in_a_long_row_is_that_of_its_two_highest(kind: str) -> None:
    table = long_rows(6, 8192, kind)
    table[0, [0, 8191]] = 50.0  # a tie for the first place, at both ends
    two = table.topk(2, -1).values
    assert leads(table) == (two[:, 0] - two[:, 1]).tolist()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_rank_counts_what_is_higher(dtype: torch.dtype) -> None:
    table = rows(5).to(dtype)  # numpy has no bfloat16: that goes through the tensors
    which, tokens = [0, 3, 3, 1], [4, 0, 36, 9]
    wanted = [1 + sum(float(x) > float(table[r][t]) for x in table[r]) for r, t in zip(which, tokens, strict=True)]
    assert ranks_of(table, which, tokens) == wanted
