"""A row's best token is the same whether the runner-up is asked for too, also among level ones."""

import pytest
import torch

from specviz.methods.common.top_k import numbers

BEST, OTHER, MARGIN = 2, 3, 4  # columns


@pytest.mark.parametrize("seed", range(20))
def test_level_tokens_are_ranked_alike_at_every_level_of_recording(seed: int) -> None:
    rng = torch.Generator().manual_seed(seed)
    logits = torch.randint(0, 4, (6, 300), generator=rng).bfloat16().float()  # dozens are level at the top
    alone, both = numbers(logits, 0.7, False), numbers(logits, 0.7, True)
    assert torch.equal(alone, both[:, :OTHER])
    best, other = (both[:, column].tolist() for column in (BEST, OTHER))
    for row, first, second in zip(logits.tolist(), best, other, strict=True):  # the lowest ids, as the target chooses
        assert [first, second] == [token for token, logit in enumerate(row) if logit == max(row)][:2]
    other = both[:, OTHER].long()
    assert torch.equal(logits.gather(1, other[:, None])[:, 0], logits.topk(2, -1).values[:, 1])
    assert (both[:, MARGIN] == 0).all()


def test_one_token_is_its_own_runner_up() -> None:
    (row,) = numbers(torch.zeros(1, 1), 1.0, True).tolist()
    assert row == [1, 1, 0, 0, 0, 0]
