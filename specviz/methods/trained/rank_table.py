"""How often each rank of a drafter was right, as a file beside its weights: what a fixed tree is made from.

`static_tree.json` names the weights it was counted with, whatever their file is called; with others it is refused.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

from specviz.errors import ModelError
from specviz.methods.trained.fit import OPTION
from specviz.methods.trained.sizes import are_shares

Shares = tuple[tuple[float, ...], ...]
NAME, FORMAT, VERSION = "static_tree.json", "specviz-static-tree", 1
CALIBRATE = "calibrate it with specviz train static-tree"


def weights_hash(folder: Path) -> str:
    """Of the drafter's file: a table of ranks is one drafter's."""
    found = sorted(folder.glob("*.safetensors"))
    return hashlib.sha256(found[0].read_bytes()).hexdigest()[:32] if found else ""


def write_table(folder: Path, right: Shares) -> None:
    """Beside the drafter it was counted with."""
    made = {"format": FORMAT, "version": VERSION, "drafter": weights_hash(folder), "right": right}
    (folder / NAME).write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")


def read_table(folder: Path) -> Shares:
    """The table of a drafter's folder. Raises ModelError in one line for none, another drafter's, or no table."""
    path = folder / NAME
    if not path.is_file():
        raise ModelError(f"{OPTION} {folder}: no {NAME} in it, so its tree has no shape; {CALIBRATE}")
    try:
        given = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{OPTION} {folder}: {NAME} cannot be read ({error}); {CALIBRATE}") from None
    known = given if isinstance(given, dict) else {}
    right: Any = known.get("right")
    if (known.get("format"), known.get("version")) != (FORMAT, VERSION) or not are_shares(right):
        raise ModelError(
            f"{OPTION} {folder}: {NAME} holds no table of ranks, rows of shares between 0 and 1 in version {VERSION}; "
            f"{CALIBRATE}"
        )
    if known.get("drafter") != weights_hash(folder):
        raise ModelError(f"{OPTION} {folder}: {NAME} was counted with other weights; {CALIBRATE}")
    return tuple(tuple(float(share) for share in row) for row in right)
