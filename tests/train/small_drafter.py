"""A training of a small block drafter on given windows."""

from pathlib import Path
from typing import Any

import numpy as np

from specviz.engine.model.adapter import ModelAdapter
from specviz_train.common.loop import Loop
from specviz_train.common.optim import Budget
from specviz_train.common.own_text import OwnWindows
from specviz_train.trees import block_drafter
from specviz_train.trees.objective import DrafterBatches, drafter_loop

WINDOWS = OwnWindows.behind(np.random.default_rng(0).integers(0, 250, (12, 24)).astype(np.int32), 5)


def run_of(target: ModelAdapter, folder: Path, steps: int = 6, **asked: Any) -> Loop:
    """A training of a block drafter on given windows."""
    request = block_drafter.BlockDrafterRequest(None, folder, folder, 1, **asked)
    drafter = block_drafter._begin(request, target, WINDOWS)
    batches = DrafterBatches(target.model, drafter, drafter.config.taps, WINDOWS, 3, request.batch)
    loss = block_drafter._loss(request, target, batches)
    return drafter_loop(drafter.network, Budget(steps=steps), folder / "run.pt", loss, request.pace)


def quiet(progress: float, loss: float, tokens_per_s: float) -> None:
    """Nothing to tell."""
