"""One thread and no global randomness for everything that runs torch."""

import os

import pytest
import torch

os.environ.setdefault("HF_HUB_OFFLINE", "1")


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> None:
    """Small models on busy machines crawl otherwise."""
    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def global_generator_untouched() -> "pytest.FixtureRequest":  # type: ignore[misc]
    """Decoding must never draw from torch's global generator."""
    before = torch.random.get_rng_state()
    yield  # type: ignore[misc]
    assert torch.equal(before, torch.random.get_rng_state()), "the global generator was used"
