"""Our laws equal the library's logits processors, alone and together."""

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from transformers import generation as hf

from specviz.engine.decode.sampling import NUCLEUS, Warper
from specviz.probability.rows import CertainRows

CASES = [
    dict(zip(("temperature", "top_k", "top_p", "min_p", "repetition_penalty", "banned"), values, strict=True))
    for values in itertools.product(
        (0.7, 1.0, 1.9), (0, 1, 7), (0.05, 0.6, 1.0), (0.0, 0.2), (1.0, 1.4), ((), (0, 3, 8, 41))
    )
]


def library(case: dict[str, Any], logits: torch.Tensor, prefix: list[int]) -> torch.Tensor:
    """The law `generate` would sample from with the same settings."""
    steps = [
        hf.RepetitionPenaltyLogitsProcessor(case["repetition_penalty"]) if case["repetition_penalty"] != 1 else None,
        hf.SuppressTokensLogitsProcessor(case["banned"]) if case["banned"] else None,
        hf.TemperatureLogitsWarper(case["temperature"]) if case["temperature"] != 1 else None,
        hf.TopKLogitsWarper(int(case["top_k"])) if case["top_k"] else None,
        hf.TopPLogitsWarper(case["top_p"]) if case["top_p"] < 1 else None,
        hf.MinPLogitsWarper(case["min_p"]) if case["min_p"] else None,
    ]
    scores = logits[None]
    for step in steps:
        scores = scores if step is None else step(torch.tensor([prefix]), scores)
    return scores.softmax(-1)[0]


@pytest.mark.parametrize("vocab", [50, NUCLEUS + 700])
def test_laws_equal_the_librarys(vocab: int) -> None:
    """All combinations, several rows at once, each with its own prefix."""
    generator = torch.Generator().manual_seed(5)
    logits = torch.randn(3, vocab, generator=generator, dtype=torch.float64) * 2
    prefixes = [[1, 2, 3, 2], [4], [7, 8, 9, 10, 11]]
    for case in CASES:
        got = Warper(**case).laws(logits, prefixes)  # type: ignore[arg-type]
        for row, prefix in enumerate(prefixes):
            want = library(case, logits[row], prefix)
            assert torch.equal(got[row] > 0, want > 0), case
            assert float((got[row] - want).abs().max()) < 1e-12, case


def test_flat_rows_need_the_whole_vocabulary() -> None:
    """A nucleus wider than the first look is still exact."""
    logits = torch.zeros(2, 4 * NUCLEUS, dtype=torch.float64)
    logits[:, ::2] = 1e-3
    law = Warper(temperature=1.0, top_p=0.9).laws(logits)
    assert int((law > 0).sum(-1).min()) > 3 * NUCLEUS
    assert torch.allclose(law.sum(-1), torch.ones(2, dtype=torch.float64))


def test_temperature_zero_is_certain_and_takes_the_lowest_id_on_ties() -> None:
    """Greedy rows are never built; penalties still count."""
    logits = torch.tensor([[0.0, 3.0, 3.0], [5.0, 1.0, 4.9]])
    assert Warper().laws(logits) == CertainRows((1, 0), 3)
    assert Warper(repetition_penalty=2.0).laws(logits, [[1], [0]]) == CertainRows((2, 2), 3)
    assert Warper(banned=(0, 1)).laws(logits) == CertainRows((2, 2), 3)


def test_float32_rows_sum_to_one() -> None:
    """Laws are formed in float32 or wider."""
    logits = torch.randn(4, 4096, generator=torch.Generator().manual_seed(1)) * 8
    law = Warper(temperature=0.3, top_k=40).laws(logits)
    assert law.dtype == torch.float32
    np.testing.assert_allclose(law.sum(-1).numpy(), 1, atol=1e-6)
