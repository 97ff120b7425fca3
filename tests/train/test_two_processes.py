"""Training in several processes: the same weights everywhere, and those that one process gets from the same windows."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from specviz.errors import MissingExtra, SpecvizError
from specviz_train.common import workers
from train import two_processes

LAUNCHED = {"ACCELERATE_MIXED_PRECISION": "no", "ACCELERATE_USE_CPU": "True"}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, object]]:
    """What two processes, joined over gloo, say at the end."""
    folder = tmp_path_factory.mktemp("two")
    tests = Path(__file__).parents[1]
    shared = {
        **os.environ,
        **LAUNCHED,
        "WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join([str(tests), *sys.path]),
    }
    script = str(Path(two_processes.__file__))
    running = [
        subprocess.Popen([sys.executable, script, str(folder)], env={**shared, "RANK": rank, "LOCAL_RANK": rank})
        for rank in "01"
    ]
    try:
        assert [facts.wait(timeout=300) for facts in running] == [0, 0]
    finally:
        for facts in running:
            facts.kill()
            facts.wait()
    assert (folder / "run-0.pt").exists()
    assert not (folder / "run-1.pt").exists()  # the first alone writes checkpoints
    return [torch.load(folder / f"told-{rank}.pt", weights_only=True) for rank in range(2)]


def test_both_hold_the_same_weights(reports: list[dict[str, dict[str, torch.Tensor]]]) -> None:
    first, second = (facts["weights"] for facts in reports)
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert reports[0]["curve"] == reports[1]["curve"]


def test_one_process_that_adds_up_two_parts_gets_the_same(reports: list[dict[str, object]], tmp_path: Path) -> None:
    """Gradients are averaged over parts, wherever they are made; sums differ in their order alone."""
    alone, ledger = two_processes.trained(tmp_path, workers.Workers(), accumulate=2)
    both = reports[0]["weights"]
    assert isinstance(both, dict)
    for name, weight in alone.items():
        assert torch.allclose(weight, both[name], atol=2e-4), name
    assert ledger.tokens == reports[0]["pairs"]
    other, _ = two_processes.trained(tmp_path, workers.Workers(rank=7))  # one part, and other windows
    assert any(not torch.allclose(weight, both[name], atol=2e-3) for name, weight in other.items())


def test_they_agree_on_time_and_end(reports: list[dict[str, object]]) -> None:
    assert [facts["together"] for facts in reports] == [(2.0, True)] * 2


def test_each_writes_its_share_of_the_text(reports: list[dict[str, torch.Tensor]]) -> None:
    first, second = (facts["own"] for facts in reports)
    assert torch.equal(first, second)
    assert first.shape == (8, 20)
    assert not torch.equal(first[:4], first[4:])


def test_nothing_launched_is_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WORLD_SIZE", "RANK", "LOCAL_RANK", *LAUNCHED):
        monkeypatch.delenv(name, raising=False)
    assert workers.join("cpu") == workers.Workers()
    assert workers.asked_precision() is None
    assert not workers.launched_alone()


def test_without_accelerate_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setitem(sys.modules, "accelerate", None)
    with pytest.raises(MissingExtra, match="specviz-llm\\[engine\\]"):
        workers.join(None)


def test_what_launchers_ask_for_and_is_not_done_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(SpecvizError, match="--device cuda:1: 2 processes"):
        workers.join("cuda:1")
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "fp16")
    with pytest.raises(SpecvizError, match="--mixed_precision fp16"):
        workers.asked_precision()
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "bf16")
    assert workers.asked_precision() == "bf16"
