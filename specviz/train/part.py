"""What the trainers of a target's small parts begin with: a work folder of their own, and the text they learn on."""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from specviz.engine.model import loading
from specviz.engine.model.adapter import ModelAdapter
from specviz.errors import SpecvizError
from specviz.methods.trained.part_files import fingerprint
from specviz.train.common import corpus, head_text
from specviz.train.common.console import Console
from specviz.train.common.tokens import Store
from specviz.train.recipe import Request


def keep(path: Path, facts: dict[str, Any]) -> None:
    """Write facts as JSON; under another name first, so that a file that is there is whole."""
    partial = path.with_suffix(f".{os.getpid()}.partial")  # several processes may say the same at once
    partial.write_text(json.dumps(facts), encoding="utf-8")
    os.replace(partial, path)


def kept(path: Path) -> dict[str, Any]:
    """Facts written by `keep`. Raises SpecvizError in one line when the file is not one of those."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        why = " ".join(str(error).split())[:120]
        raise SpecvizError(f"cannot read {path}: {why}; remove it, or give another folder with --work") from error
    if not isinstance(found, dict):
        raise SpecvizError(f"{path} holds no facts of a training run; remove it, or give another folder with --work")
    return found


def claim(work: Path, out: Path, asked: dict[str, Any], usual: Mapping[str, Any] | None = None) -> None:
    """Make the folders, or refuse a work folder begun with other settings than `asked`. Raises SpecvizError.

    `usual`: what a run was begun with that does not say, because the option came later.
    """
    path = work / "settings.json"
    try:
        work.mkdir(parents=True, exist_ok=True)
        out.mkdir(parents=True, exist_ok=True)
        begun = kept(path) if path.exists() else asked
        keep(path, begun)
    except OSError as error:
        raise SpecvizError(f"cannot use the work folder {work}: {error}; give another with --work") from error
    before = {**(usual or {}), **begun}
    differing = [name for name, value in asked.items() if before.get(name) != value]
    if differing:
        was = ", ".join(f"{name}={before.get(name)}" for name in differing)
        raise SpecvizError(f"{work} holds a run begun with {was}; give the same options, or another --work folder")


def source(request: Request, tokenizer: Any, console: Console) -> Store:
    """The text asked for, read and encoded once; found again in the work folder."""
    path = request.work / "text.npz"
    if not path.exists():
        console.say("reading and encoding the text")
        wanted = corpus.Wanted(request.packages, request.texts, head_text.N_SUM_PAGES, request.seed)
        head_text.given(wanted, tokenizer).save(path)
    return Store.load(path)


@dataclass(frozen=True, slots=True)
class Begun:
    """A frozen target, and the text on which a part of it learns."""

    target: ModelAdapter
    source: Store


def begin(
    request: Request, console: Console, settings: Callable[[ModelAdapter], dict[str, Any]] = lambda target: {}
) -> Begun:
    """Load the target, claim the folders, read the text.

    `settings`: those that only the target can tell; it may refuse what does not fit.
    """
    if request.threads:
        torch.set_num_threads(request.threads)
    loaded = loading.load(request.target, "target", request.device, None)
    target = loaded.adapter
    asked = {"target": fingerprint(target), **request.settings, **settings(target)}
    claim(request.work, request.out, asked, request.usual)
    return Begun(target, source(request, loaded.tokenizer, console))
