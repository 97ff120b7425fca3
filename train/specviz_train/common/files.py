"""Files of a work folder, each written under another name first: one that is there is whole, whenever we are killed."""

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from transformers.utils.logging import disable_progress_bar

from specviz.engine.model.drafts.corrected import WEIGHTS
from specviz.errors import SpecvizError


def keep(path: Path, facts: dict[str, Any]) -> None:
    """Write facts as JSON."""
    partial = path.with_suffix(f".{os.getpid()}.partial")  # several processes may say the same at once
    partial.write_text(json.dumps(facts), encoding="utf-8")
    os.replace(partial, path)


def kept(path: Path) -> dict[str, Any]:
    """Facts written by `keep`. Raises SpecvizError in one line when the file is not one of those."""
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise unreadable(path, error) from error
    if not isinstance(facts, dict):
        raise SpecvizError(f"{path} holds no facts of a training run; remove it, or give another folder with --work")
    return facts


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


def save_model(
    model: Any,
    tokenizer: Any,
    folder: Path,
    facts: Mapping[str, dict[str, Any]] | None = None,
    weights: Callable[[Any], dict[str, Any]] | None = None,
) -> None:
    """A model folder in place of what stands there: bfloat16 safetensors, config and tokenizer, no trace of where it
    was made. `facts`: JSON files that go with it, by name; `weights`: those to write of a model, where not all."""
    copy = type(model)(model.config).to(torch.bfloat16)
    copy.load_state_dict(model.state_dict())
    copy.config.dtype, copy.generation_config = torch.bfloat16, model.generation_config
    disable_progress_bar()  # the library draws one for every file it writes
    with _replaced(folder, facts or {}) as partial:
        copy.save_pretrained(partial, state_dict=None if weights is None else weights(copy))
        if tokenizer is not None:
            tokenizer.save_pretrained(partial)


def save_corrections(
    model: Any, corrections: dict[str, torch.Tensor], folder: Path, facts: Mapping[str, dict[str, Any]]
) -> None:
    """A folder of what corrects another model's layers (`model/drafts/corrected`), with the config of the whole."""
    with _replaced(folder, facts) as partial:
        model.config.save_pretrained(partial)
        save_file(corrections, partial / WEIGHTS, metadata={"format": "pt"})


@contextmanager
def _replaced(folder: Path, facts: Mapping[str, dict[str, Any]]) -> Iterator[Path]:
    """A folder to write into that takes the place of another once it is whole."""
    partial = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    yield partial
    for name, content in facts.items():
        keep(partial / name, content)
    for file in partial.iterdir():
        file.chmod(0o644)  # weights are written for the owner alone, which a package must not carry on
    shutil.rmtree(folder, ignore_errors=True)
    partial.rename(folder)
