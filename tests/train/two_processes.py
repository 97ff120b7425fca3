"""One of the processes of `test_two_processes`: what `accelerate launch` and torchrun start, with a small job.

`python two_processes.py FOLDER`; RANK, WORLD_SIZE and the meeting place come through the environment.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

from specviz.engine.model.adapter import ModelAdapter
from specviz_train.common import own_text, workers
from specviz_train.common.console import Console
from specviz_train.common.loop import TrainingLedger
from specviz_train.common.optim import Budget
from specviz_train.common.own_text import OwnTextConfig, OwnWindows
from specviz_train.common.training_text import Documents, TokenStore
from specviz_train.trees import block_drafter
from specviz_train.trees.objective import DrafterBatches, drafter_loop
from support.models import build

STEPS = 3


def quiet(progress: float, loss: float, tokens_per_s: float) -> None:
    """Nothing to tell."""


def trained(folder: Path, crew: workers.Workers, **pace: Any) -> tuple[dict[str, torch.Tensor], TrainingLedger]:
    """A few steps on given windows; the weights."""
    target = ModelAdapter(build("llama", seed=5, num_hidden_layers=5).requires_grad_(False))
    windows = OwnWindows.behind(np.random.default_rng(0).integers(0, 250, (12, 24)).astype(np.int32), 5)
    request = block_drafter.BlockDrafterRequest(None, folder, folder, 1, precision="fp32", warm_up=1, **pace)
    drafter = block_drafter._begin(request, target, windows)
    batches = DrafterBatches(target.model, drafter, drafter.config.taps, windows, 3, request.batch)
    loss = block_drafter._loss(request, target, batches)
    run = drafter_loop(drafter.network, Budget(steps=STEPS), folder / f"run-{crew.rank}.pt", loss, request.pace, crew)
    ledger = run.finish(quiet)
    return drafter.network.state_dict(), ledger


def text(folder: Path, crew: workers.Workers) -> OwnWindows:
    """A batch of the target's own words from every process."""
    target = ModelAdapter(build("llama", seed=5, num_hidden_layers=5).requires_grad_(False))
    text = {"code": np.random.default_rng(1).integers(0, 250, 900).astype(np.int32)}
    own_text.TREES = OwnTextConfig(4, 8, 257, own_text.TREES.temperatures, own_text.TREES.top_p)
    console = Console(quiet=True)
    writer = own_text.TextWriter(target.model, Documents(TokenStore(text, {})))
    return own_text.written_for_trees(writer, folder, Budget(steps=1), 7, console, crew, length=20)


if __name__ == "__main__":
    here = Path(sys.argv[1])
    torch.set_num_threads(1)
    crew = workers.join(None)
    weights, ledger = trained(here, crew)
    seconds, ended = crew.together(1.0 + crew.rank, crew.rank == 1)
    own = text(here, crew)
    crew.leave()
    facts = {"weights": weights, "pairs": ledger.tokens, "curve": ledger.curve, "together": (seconds, ended)}
    torch.save({**facts, "own": torch.from_numpy(own.ids)}, here / f"told-{crew.rank}.pt")
