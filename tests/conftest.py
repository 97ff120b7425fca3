"""What holds for all tests: one thread of torch, no hub, and compiled files that child processes need not compile."""

import gc
import os
import sys
from collections.abc import Iterator

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported
os.environ.setdefault("HF_HUB_OFFLINE", "1")
# Where Python was told to write none, each of some sixty processes would compile what it imports of the source anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


def pytest_collection_finish() -> None:
    """What stands by now (libraries, some thousand tests) stays: no collection of garbage need look at it again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 10, 10)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Small models on busy machines crawl with several; what a test chooses ends with it."""
    _one_thread()
    yield
    _one_thread()


def _one_thread() -> None:
    torch = sys.modules.get("torch")
    if torch is not None and torch.get_num_threads() != 1:
        torch.set_num_threads(1)
