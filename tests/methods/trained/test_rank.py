"""The rank head's inputs and labels."""

import math

import pytest
import torch

from specviz.methods.trained.ranks import N_SUMMARY, RankHead, bucket, buckets, ranks, summary


def test_borders() -> None:
    """Ranks 1 | 2 to 4 | 5 to 10 | beyond."""
    edges = {1: 0, 2: 1, 4: 1, 5: 2, 10: 2, 11: 3, 4000: 3}
    assert {rank: bucket(rank) for rank in edges} == edges
    assert buckets(torch.tensor(list(edges))).tolist() == list(edges.values())


def test_ranks_count_from_one() -> None:
    logits = torch.tensor([[0.0, 3.0, 1.0, 3.0], [5.0, 4.0, 3.0, 2.0]])
    assert ranks(logits, torch.tensor([2, 3])).tolist() == [3, 4]
    assert ranks(logits, torch.tensor([3, 0])).tolist() == [1, 1]  # equals share the better rank


def test_summary_by_hand() -> None:
    """Twenty best of thirty: log-probabilities among them, gaps, share and entropy; the other ten do not matter."""
    logits = torch.linspace(3.0, -3.0, 30, dtype=torch.float64)
    top = [float(x) for x in logits[:20]]
    norm = math.log(sum(math.exp(x) for x in top))
    logs = [x - norm for x in top]
    entropy = -sum(x * math.exp(x) for x in logs)
    want = [*logs[:10], top[0] - top[1], top[0] - top[2], top[0] - top[4], math.exp(logs[0]), entropy]
    shuffled = logits[torch.randperm(30, generator=torch.Generator().manual_seed(0))]
    assert summary(shuffled).tolist() == pytest.approx(want, abs=1e-12)
    shuffled[shuffled < logits[19]] = -50
    assert summary(shuffled).tolist() == pytest.approx(want, abs=1e-12)


def test_summary_is_float32_or_wider_and_finite_for_a_tiny_vocabulary() -> None:
    facts = summary(torch.zeros(2, 7, dtype=torch.bfloat16))
    assert facts.dtype == torch.float32
    assert facts.shape == (2, N_SUMMARY)
    assert facts.isfinite().all()
    assert facts[0, 13] == pytest.approx(1 / 7)
    assert facts[0, 14] == pytest.approx(math.log(7))


def test_the_head_is_two_maps_without_biases() -> None:
    head = RankHead(9, 6)
    assert sorted((name, tuple(p.shape)) for name, p in head.named_parameters()) == [
        ("down.weight", (6, 9)),
        ("up.weight", (4, 6)),
    ]
