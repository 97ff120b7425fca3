"""`specviz train text`: a target writes the text that its parts will learn on, once for all of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from specviz.errors import SpecvizError
from specviz.methods.trained.parts import fingerprint
from specviz_train import recipe
from specviz_train.common import own_text
from specviz_train.common.console import Console
from specviz_train.common.own_text import TREES, OwnTextConfig, OwnWindows
from specviz_train.recipe import TimedRequest

LEAST = 2 * TREES.prompt  # tokens of a window
CHAT_LENGTH = 320  # room for a question and a whole answer


@dataclass(frozen=True, slots=True)
class TextRequest(TimedRequest):
    """What the command line asks for. `out`: the file; `rows` windows of `length` tokens are written at once."""

    command_name: ClassVar[str] = "text"

    length: int = CHAT_LENGTH
    rows: int = 128

    @property
    def folder(self) -> Path:
        return self.out.parent


def train_text(request: TextRequest, console: Console) -> OwnWindows:
    """Write, or go on writing, until the time is over; all windows. Raises SpecvizError for a file of other text."""
    if request.length < LEAST:
        raise SpecvizError(f"--length {request.length}: windows of less than {LEAST} tokens teach little")
    begun = recipe.begin(request, console)
    most = getattr(begun.target.config, "max_position_embeddings", None)
    if most is not None and request.length > most:
        raise SpecvizError(f"--length {request.length}: the target holds {most} tokens")
    how = OwnTextConfig(request.rows, TREES.prompt, request.length, TREES.temperatures, TREES.top_p)
    facts = {
        "format": own_text.FORMAT,
        "target": fingerprint(begun.target),
        "target_name": begun.target.name,
        "chat": begun.chat,
        "temperatures": list(TREES.temperatures),
        "top_p": TREES.top_p,
        "length": request.length,
        "rows": request.rows,
        "seed": request.seed,
    }
    _refuse_other(request.out, facts)
    writer = begun.writer()
    windows = own_text.grown(
        request.out, request.share(1), console, lambda number: writer.batch((request.seed, number), how), facts=facts
    )
    share = windows.written.mean()
    console.say(f"{len(windows.ids):,} windows, {windows.ids.size:,} tokens, {share:.0%} of them written by the target")
    return windows


def _refuse_other(path: Path, facts: Mapping[str, Any]) -> None:
    """Raises SpecvizError where `path` holds anything that cannot be gone on with."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SpecvizError(f"--out {path}: {error}") from error
    if path.suffix != ".npz":
        raise SpecvizError(f"--out {path}: give a name that ends with .npz")
    if not path.exists():
        return
    before = own_text.facts_of(path)
    differing = [name for name, value in facts.items() if before.get(name) != value]
    if differing:
        was = ", ".join(f"{name}={before.get(name)}" for name in differing)
        raise SpecvizError(f"--out {path}: it was begun with {was}; give the same options, or another file")
