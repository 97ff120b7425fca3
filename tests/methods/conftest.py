"""Random parts of every method for one target from disk, and whole runs with them."""

from typing import Any

import pytest
import torch

from methods.eagle3.test_eagle import made as eagle_made
from methods.specblock.recorded import Run
from methods.specblock.stage import trained
from specviz.commands import Start
from specviz.engine.run.local import LocalRun, Pair, load_pair
from specviz.events import Event, decode, encode
from specviz.methods.eagle3 import drafter as eagle_files
from specviz.methods.specblock import network as block_files
from specviz.methods.trained.vocabulary import Vocabulary
from support.fixtures import global_generator_untouched
from support.models import build, save

__all__ = ["global_generator_untouched", "loaded", "run"]


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Pair, dict[str, list[str]]]:
    """A target from disk, and a folder of random weights for every method."""
    root = tmp_path_factory.mktemp("target")
    pair = load_pair(save(build("llama", seed=1), root), needs_draft=False, dtype="float64", threads=1)
    adapter = pair.target.adapter
    block_files.KIND.write(root / "blocks", trained(adapter))
    few = Vocabulary.most_frequent(torch.randperm(260, generator=torch.Generator().manual_seed(3)), 120)
    block_files.KIND.write(root / "few", trained(adapter, vocabulary=few, draft_vocab=120))
    eagle_files.KIND.write(root / "eagle", eagle_made(adapter))
    return pair, {"few": [str(root / "few")], "specblock": [str(root / "blocks")], "eagle3": [str(root / "eagle")]}


@pytest.fixture
def run(loaded: tuple[Pair, dict[str, list[str]]]) -> Run:
    """A whole run, through lines and back."""
    pair, folders = loaded

    def decoded(method: str, level: Any = "full", **knobs: Any) -> tuple[LocalRun, list[Event]]:
        method, drafter = ("specblock", "few") if method == "few" else (method, method)
        own = {"max_new_tokens": 24, **({"drafter": folders[drafter]} if drafter in folders else {}), **knobs}
        lines: list[bytes] = []
        start = Start(prompt="ab ab ab", method=method, knobs=own, level=level)
        own_run = LocalRun(pair, start, lambda event: lines.append(encode(event)))
        for _ in own_run.rounds():
            pass
        events = [decode(line) for line in lines]
        assert None not in events
        return own_run, [event for event in events if event is not None]

    return decoded
