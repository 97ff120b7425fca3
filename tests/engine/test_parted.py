"""A target parted over two processes decodes what a whole one does, whatever the method; what cannot be parted is told.

The fixture is the embedded target with its one KV head written down twice: the same function, in two heads.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.torch import load_file, save_file

from specviz.cli.options import lacking
from specviz.engine.model.files.loading import embedded
from specviz.engine.model.parted.loading import Ranks, check_heads, ranks
from specviz.engine.model.parted.message import FRAME, MessageReader, Pass
from specviz.errors import ModelError
from specviz.methods import all_methods

PROGRAM = Path(__file__).parent / "parted_program.py"


def _two_heads(folder: Path) -> Path:
    shutil.copytree(embedded("target"), folder)
    config = json.loads((folder / "config.json").read_text())
    assert config["num_key_value_heads"] == 1
    (folder / "config.json").write_text(json.dumps(config | {"num_key_value_heads": 2}))
    weights = load_file(folder / "model.safetensors")
    for name, weight in weights.items():
        if "k_proj" in name or "v_proj" in name:
            weights[name] = weight.repeat(2, 1).contiguous()
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    return folder


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _started(rank: int, port: int, folder: Path) -> "subprocess.Popen[str]":
    group = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": 2, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **{name: str(value) for name, value in group.items()}}
    return subprocess.Popen(
        [sys.executable, str(PROGRAM), str(folder)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.timeout(600)
def test_a_parted_target_decodes_what_a_whole_one_does(tmp_path: Path) -> None:
    folder = _two_heads(tmp_path / "target")
    port = _free_port()
    both = [_started(rank, port, folder) for rank in range(2)]
    try:
        (out, err), (_, followed) = (process.communicate(timeout=560) for process in both)
    finally:
        for process in both:
            process.kill()
    assert [process.returncode for process in both] == [0, 0], err + followed
    found = json.loads(out.splitlines()[-1])
    assert set(found) == set(all_methods()) - set(lacking())
    for name, (whole, parted) in found.items():
        assert len(whole) > 1, name
        assert parted == whole, name


def test_heads_that_cannot_be_shared_out_are_told_in_one_line() -> None:
    with pytest.raises(ModelError, match=r"its 1 KV head cannot be parted over 2 processes; use one process$"):
        check_heads(None, 2)


def test_the_processes_must_be_as_many_as_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    assert ranks(2) == Ranks(1, 2)
    with pytest.raises(ModelError, match="--tensor-parallel 4: 2 processes were started"):
        ranks(4)


def test_an_order_is_read_as_it_was_written() -> None:
    mask = np.random.default_rng(3).random((37, 1000)) < 0.5
    told = Pass(5, ((0, 0), (3, 9)), (7, 8), tuple(range(37)), (None, mask))
    numbers = told.numbers()
    assert len(numbers) > FRAME
    reader = MessageReader(numbers)
    reader.take()
    read = reader.rows()
    assert reader.ended
    assert (read.cache, read.layers, read.start, read.positions) == (5, told.layers, (7, 8), told.positions)
    assert read.masks[0] is None
    assert np.array_equal(read.masks[1], mask)
