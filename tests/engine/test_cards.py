"""What a CUDA device is for, on one; and what `make gpu` says and picks where there is none."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from engine.test_exact import as_promised, exact
from engine.test_graphs import fed, on_trees
from specviz.engine.model.graphs.passes import GraphBackend, graph_backend
from specviz.names import GRAPHS
from specviz.probability.host import READS, fetch
from support.cards import on_cuda

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("device", [on_cuda("cuda")])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_recorded_row_is_as_an_ordinary_one(dtype: torch.dtype, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By CUDA's own graphs: in lines of any width, and in trees."""
    monkeypatch.setenv(GRAPHS, "on")
    adapter = exact(dtype=dtype, device=device)
    line, trees = fed(adapter, [1] * 40)[0], on_trees(adapter, 9, 72)
    backend = graph_backend(adapter)
    assert isinstance(backend, GraphBackend), backend
    adapter = adapter.with_backend(backend)
    for widths in ([1] * 40, [7, 8, 5, 20]):
        assert as_promised(adapter, fed(adapter, widths)[0], line)
    assert as_promised(adapter, on_trees(adapter, 9, 72), trees)


@pytest.mark.parametrize("device", [on_cuda("cuda")])
def test_many_numbers_are_read_with_one_wait(device: str) -> None:
    first, second = torch.arange(5, device=device), torch.ones(2, 3, device=device, dtype=torch.bfloat16)
    before = READS.n_waits
    assert fetch(first, second) == [[0, 1, 2, 3, 4], [[1.0] * 3] * 2]
    assert READS.n_waits == before + 1


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a device")
def test_without_a_device_one_line_says_so() -> None:
    done = subprocess.run(
        [ROOT / "tools" / "gpu.sh"],
        env={**os.environ, "PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "no CUDA device here: nothing of CUDA was run\n"), done.stderr
