"""A planted pair on disk: its greedy text, and how often the draft model is right, are known by construction."""

import os
from collections.abc import Iterator

import pytest
import torch

os.environ.setdefault("HF_HUB_OFFLINE", "1")
from engine.zoo import planted, save


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Small models on busy machines crawl otherwise; the bench's own choice ends with the test."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Folders of target and draft model; the draft model is wrong about a quarter of the tokens."""
    folder = tmp_path_factory.mktemp("pair")
    target, _ = planted(seed=1)
    draft, _ = planted(seed=2, wrong=0.25)
    return save(target, folder / "target"), save(draft, folder / "draft")
