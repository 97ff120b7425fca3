"""Fixtures that the folders' conftests take over by importing them."""

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True)
def global_generator_untouched() -> Iterator[None]:
    """Neither decoding nor loading may draw from torch's global generator."""
    before = torch.random.get_rng_state()
    yield
    assert torch.equal(before, torch.random.get_rng_state()), "the global generator was used"
