"""What holds for all tests: one thread of torch, no hub, compiled files that child processes need not compile, workers
and order of the suite, and no deadline on a busy machine."""

import gc
import os
import sys
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported
os.environ.setdefault("HF_HUB_OFFLINE", "1")
# Where Python was told to write none, each of some sixty processes would compile what it imports of the source anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# How long an example takes says how busy the machine is. All else is as it was, where CI has a profile of its own too.
settings.register_profile("suite", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")


@pytest.hookimpl(optionalhook=True)  # unknown where xdist is not installed
def pytest_xdist_auto_num_workers() -> int | None:
    """One more than there are cores: while one waits for a browser, a terminal or a process, another one computes."""
    return None if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ else _cores() + 1


def _cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A worker begins with what decodes with a large model: were it met at the end, each of them would load it."""
    items.sort(key=lambda item: item.get_closest_marker("real") is None)


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
