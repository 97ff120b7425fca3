"""Skip sets in files: `skip-set.json`, which names the target's fingerprint and the sublayers left out."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec

from specviz.engine.model.adapter import Model, ModelAdapter
from specviz.errors import ModelError
from specviz.methods.self_skip.spec import SkipSet
from specviz.methods.trained.parts import fingerprint

FORMAT, VERSION, NAME = "specviz-skip-set", 1, "skip-set.json"
_FIND = "specviz train skip-set"


@dataclass(frozen=True, slots=True)
class Config:
    """`skip-set.json`. `target`: its fingerprint; layers from 1; `measured`: what the search found, for people."""

    target: str
    target_name: str
    n_layers: int
    attention: tuple[int, ...]
    mlp: tuple[int, ...]
    measured: dict[str, Any] = field(default_factory=dict)

    @property
    def skips(self) -> SkipSet:
        """The sublayers."""
        return SkipSet(frozenset(self.attention), frozenset(self.mlp))

    def write(self, folder: Path) -> None:
        """As `skip-set.json` in a folder."""
        text = json.dumps({"format": FORMAT, "version": VERSION, **asdict(self)}, indent=1)
        (folder / NAME).write_text(text + "\n", encoding="utf-8")


_NAMES = tuple(Config.__dataclass_fields__)


def pick(target: Model, wanted: Sequence[str]) -> tuple[SkipSet, str | None]:
    """The set to use, and what to say about it: named one by one, a file or folder, or that shipped for the target.

    Raises ModelError or KnobError in one line.
    """
    named = SkipSet.parse(wanted)
    if named is not None:
        return named, None
    if not isinstance(target, ModelAdapter):
        return SkipSet.usual(target.n_layers), None
    if wanted:
        return load(Path(" ".join(wanted)), target).skips, None
    for path in _shipped(target):
        if path.is_file() and _read(path).get("target") == fingerprint(target):
            return load(path, target).skips, None
    usual = SkipSet.usual(target.n_layers)
    return usual, f"no skip set for this target: {usual} stand in, chosen by rule; {_FIND} searches for better ones"


def _shipped(target: ModelAdapter) -> list[Path]:
    """Where a set may lie that nobody named: beside the embedded pair, inside the target's own folder."""
    found = [Path(str(files("specviz_assets"))) / "models" / "pair" / "skip-set" / NAME]
    own = str(getattr(target.model, "name_or_path", "") or "")
    return found + ([Path(own) / NAME, Path(own) / "skip-set" / NAME] if own else [])


def load(path: Path, target: ModelAdapter) -> Config:
    """The set in a file or folder. Raises ModelError in one line for one that is none, or not of this target."""
    file = path / NAME if path.is_dir() else path
    given = _read(file)
    if given.get("format") != FORMAT or given.get("version") != VERSION:
        kind = f"{given.get('format')} {given.get('version')}"
        raise ModelError(f"--skip-set {path}: this is no skip set of version {VERSION} (it says {kind})")
    try:
        config = msgspec.convert({name: value for name, value in given.items() if name in _NAMES}, Config)
    except msgspec.ValidationError as error:
        raise ModelError(f"--skip-set {path}: {NAME}: {error}") from None
    if config.target != fingerprint(target):
        raise ModelError(
            f"--skip-set {path}: found for {config.target_name} (weights {config.target[:8]}), the target "
            f"{target.name} has weights {fingerprint(target)[:8]}; search one for it with {_FIND}"
        )
    outside = [layer for layer in (*config.attention, *config.mlp) if not 1 <= layer <= target.n_layers]
    if outside:
        raise ModelError(f"--skip-set {path}: names layer {outside[0]}, the target has layers 1 to {target.n_layers}")
    return config


def _read(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise ModelError(
            f"--skip-set {path}: no such file; give sublayers such as a7 m8, or a folder that {_FIND} wrote"
        )
    try:
        given = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"--skip-set {path}: not JSON: {error}") from None
    if not isinstance(given, dict):
        raise ModelError(f"--skip-set {path}: no JSON object")
    return given
