"""A training of a small block drafter on given windows."""

from pathlib import Path
from typing import Any

import numpy as np

from specviz.engine.model.adapter import ModelAdapter
from specviz.train.common.optim import Budget
from specviz.train.trees import block_drafter
from specviz.train.trees.block_text import Windows
from specviz.train.trees.loop import DrafterRun, Lesson

WINDOWS = Windows(np.random.default_rng(0).integers(0, 250, (12, 24)).astype(np.int32), 5)


def run_of(target: ModelAdapter, folder: Path, steps: int = 6, **asked: Any) -> DrafterRun:
    """A training of a block drafter on given windows."""
    request = block_drafter.Request(None, folder, folder, 1, **asked)
    made = block_drafter._begin(request, target, WINDOWS)
    lesson = Lesson(target.model, made, made.config.taps, WINDOWS, 3, request.batch)
    take = block_drafter._steps(request, target, lesson)
    return DrafterRun(made.network, Budget(steps=steps), folder / "run.pt", take, request.pace)


def quiet(progress: float, loss: float, tokens_per_s: float) -> None:
    """Nothing to tell."""
