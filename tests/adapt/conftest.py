"""One thread and no global randomness, as for all that runs torch."""

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> None:
    """Small models on busy machines crawl otherwise."""
    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def global_generator_untouched() -> Iterator[None]:
    """Nothing here may draw from torch's global generator."""
    before = torch.random.get_rng_state()
    yield
    assert torch.equal(before, torch.random.get_rng_state()), "the global generator was used"
