"""What is read one by one, or subtracted outside the tensors, is what whole-tensor operations give, bit for bit."""

import pytest
import torch

from specviz.engine.record.device_stats import FEW, leads, log_shares, picked


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
    stacked = torch.stack([row[k] for k, _ in nodes]).log_softmax(-1)
    wanted = [float(stacked[i, token]) for i, (_, token) in enumerate(nodes)]
    assert log_shares([row[k] for k, _ in nodes], [token for _, token in nodes]) == wanted
