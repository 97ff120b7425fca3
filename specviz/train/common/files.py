"""Files of a work folder, each written under another name first: one that is there is whole, whenever we are killed."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import torch

from specviz.errors import SpecvizError


def keep(path: Path, facts: dict[str, Any]) -> None:
    """Write facts as JSON."""
    partial = path.with_suffix(f".{os.getpid()}.partial")  # several processes may say the same at once
    partial.write_text(json.dumps(facts), encoding="utf-8")
    os.replace(partial, path)


def kept(path: Path) -> dict[str, Any]:
    """Facts written by `keep`. Raises SpecvizError in one line when the file is not one of those."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise unreadable(path, error) from error
    if not isinstance(found, dict):
        raise SpecvizError(f"{path} holds no facts of a training run; remove it, or give another folder with --work")
    return found


def unreadable(path: Path, error: Exception) -> SpecvizError:
    """What is said of a file that cannot be read."""
    why = " ".join(str(error).split())[:120]
    return SpecvizError(f"cannot read {path}: {why}; remove it, or give another folder with --work")


def save_arrays(path: Path, **arrays: Any) -> None:
    """Write arrays by name (`.npz`)."""
    partial = path.with_suffix(".partial.npz")
    np.savez(partial, **arrays)
    os.replace(partial, path)


def save_checkpoint(state: dict[str, Any], path: Path) -> None:
    """Write a checkpoint of torch."""
    partial = path.with_suffix(".partial")
    torch.save(state, partial)
    os.replace(partial, path)
