"""A target parted over two processes decodes what a whole one does, whatever the method; what cannot be parted is told.

The fixture is the embedded target with its one KV head written down twice: the same function, in two heads.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from specviz.cli.options import lacking, usual_method
from specviz.engine.model.adapter import ModelAdapter
from specviz.engine.model.drafts.shared_ends import FILE, Ends, facts
from specviz.engine.model.files.loading import embedded, load
from specviz.engine.model.pair import _drafting
from specviz.engine.model.parted.loading import Ranks, check_heads, ranks
from specviz.engine.model.parted.message import FRAME, MessageReader, Pass
from specviz.engine.model.selftest import reference, self_test
from specviz.errors import ModelError
from specviz.local_models.shipped import usual_draft
from specviz.methods import all_methods
from specviz.self_drafts import is_self
from support.models import build

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


@torch.inference_mode()
def test_sums_that_sixteen_bits_round_in_every_process_are_no_other_model() -> None:
    """SmolLM2 over three processes is .23 away from the library's own forward over them; a wrong tree is 1.5."""
    adapter = ModelAdapter(build("llama", seed=2, dtype=torch.bfloat16))
    want = reference(build("llama", seed=2, dtype=torch.bfloat16), "tiny", adapter.vocab)
    away = torch.randn(want.tree.shape, generator=torch.Generator().manual_seed(1)).clamp(-1, 1)
    for share, parted, refused in ((0.05, False, False), (0.23, False, True), (0.23, True, False), (0.6, True, True)):
        other = replace(want, tree=want.tree + share * want.tree.std() * away)
        with pytest.raises(ModelError, match="logits of a tree differ") if refused else nullcontext():
            self_test(adapter, other, parted)
    wrong = replace(want, tree=want.tree[[0, 1, 2, 4, 3]])
    with pytest.raises(ModelError, match="logits of a tree differ"):
        self_test(adapter, wrong, True)


def test_a_draft_that_lives_on_its_target_s_weights_is_not_usual_where_they_are_parted() -> None:
    """Nobody holds them whole: where no method is named, one without a draft model is taken."""
    known = "HuggingFaceTB/SmolLM2-135M-Instruct"
    assert is_self(usual_draft(known))
    assert usual_method({"target": known}) == "draft"
    assert usual_method({"target": known, "tensor_parallel": 3}) == "ngram"
    assert usual_method({"target": known, "tensor_parallel": 3, "draft": "some/folder"}) == "draft"
    assert usual_method({"tensor_parallel": 2}) == "draft", "the embedded pair has a draft model of its own"


def test_ends_of_a_parted_target_are_not_lent(tmp_path: Path) -> None:
    target = load(None, "target", None, "float32")
    adapter = ModelAdapter(target.adapter.model)
    adapter.parted = True
    folder = tmp_path / "draft"
    folder.mkdir()
    (folder / FILE).write_text(json.dumps(facts(Ends("00", "somebody"))))
    (folder / "config.json").write_text("{}")
    save_file({"none": torch.zeros(1)}, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(ModelError, match="speaks through its target's weights, and those are parted: name a draft"):
        _drafting(replace(target, adapter=adapter), str(folder), None, None, None)
