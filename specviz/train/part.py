"""What the trainers of a target's small parts begin with: a work folder of their own, and the text they learn on."""

import json
from pathlib import Path
from typing import Any

from specviz.errors import SpecvizError
from specviz.train import corpus, head_text
from specviz.train.console import Console
from specviz.train.tokens import Store


def claim(work: Path, out: Path, asked: dict[str, Any]) -> None:
    """Make the folders, or refuse a work folder begun with other settings than `asked`. Raises SpecvizError."""
    path = work / "settings.json"
    try:
        work.mkdir(parents=True, exist_ok=True)
        out.mkdir(parents=True, exist_ok=True)
        begun = json.loads(path.read_text()) if path.exists() else asked
        path.write_text(json.dumps(begun))
    except (OSError, ValueError) as error:
        raise SpecvizError(f"cannot use the work folder {work}: {error}; give another with --work") from error
    differing = [name for name, value in asked.items() if begun.get(name) != value]
    if differing:
        was = ", ".join(f"{name}={begun.get(name)}" for name in differing)
        raise SpecvizError(f"{work} holds a run begun with {was}; give the same options, or another --work folder")


def source(work: Path, wanted: corpus.Wanted, tokenizer: Any, console: Console) -> Store:
    """The text asked for, read and encoded once; found again in the work folder."""
    path = work / "text.npz"
    if not path.exists():
        console.say("reading and encoding the text")
        head_text.given(wanted, tokenizer).save(path)
    return Store.load(path)
