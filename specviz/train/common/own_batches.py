"""Text that a target writes for its own parts, batch by batch until the time for it is spent; kept in one file.

A batch is drawn by its number alone, so a writing that was interrupted goes on with the very same text.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from specviz.errors import SpecvizError
from specviz.train.common.console import Console
from specviz.train.common.optim import Budget

Ids = NDArray[np.int32]


def grown(path: Path, budget: Budget, console: Console, write: Callable[[int], Ids]) -> Ids:
    """All windows `[n, length]` of `path`, more of them written while there is time. `write` makes batch number n."""
    batches, seconds = read(path) if path.exists() else ([], 0.0)
    with console.bar("own text", budget) as report:
        while not batches or budget.progress(seconds, len(batches)) < 1.0:
            began = time.monotonic()
            batches.append(write(len(batches)))
            seconds += (took := time.monotonic() - began)
            _save(path, batches, seconds)
            report(budget.progress(seconds, len(batches)), 0.0, batches[-1].size / took)
    return np.concatenate(batches)


def read(path: Path) -> tuple[list[Ids], float]:
    """The batches in a file and the seconds they took. Raises SpecvizError in one line for what is no such file."""
    try:
        with np.load(path) as arrays:
            return list(arrays["batches"]), float(arrays["seconds"])
    except (OSError, ValueError, KeyError, EOFError) as error:
        why = " ".join(str(error).split())[:120]
        raise SpecvizError(f"cannot read {path}: {why}; remove it, or give another folder with --work") from error


def _save(path: Path, batches: list[Ids], seconds: float) -> None:
    """Under another name first: a file that is there is whole."""
    partial = path.with_suffix(".partial.npz")
    np.savez(partial, batches=np.stack(batches), seconds=np.float64(seconds))
    os.replace(partial, path)
