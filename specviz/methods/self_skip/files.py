"""Skip sets in files: `skip-set.json`, which names the target's fingerprint and the sublayers left out."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from specviz.engine.model.adapter import Model, ModelAdapter
from specviz.errors import ModelError
from specviz.methods import Part
from specviz.methods.self_skip.spec import SkipSet
from specviz.methods.trained.part_kind import VERSION, PartKind, read_object

NAME = "skip-set.json"
_FIND = "specviz train skip-set"


@dataclass(frozen=True, slots=True)
class SkipSetConfig:
    """`skip-set.json`. `target`: its fingerprint; layers from 1; `measured`: what the search found, for people."""

    target: str
    target_name: str
    n_layers: int
    attention: tuple[int, ...]
    mlp: tuple[int, ...]
    measured: dict[str, Any] = field(default_factory=dict)

    @property
    def skips(self) -> SkipSet:
        return SkipSet(frozenset(self.attention), frozenset(self.mlp))

    def write(self, folder: Path) -> None:
        KIND.save(folder, self)


@dataclass(frozen=True, kw_only=True)
class SkipSetKind(PartKind[SkipSetConfig]):
    """Skip sets: one JSON file, named by itself or by its folder."""

    def given(self, folder: Path) -> dict[str, Any]:
        """The JSON object of a file, or of that in a folder. Raises ModelError."""
        file = folder / NAME if folder.is_dir() else folder
        if not file.is_file():
            raise ModelError(f"{self.option} {file}: no such file; {self.hint}")
        try:
            return read_object(file, f"{self.option} {file}: ")
        except OSError as error:
            raise ModelError(f"{self.option} {file}: not JSON: {error}") from None

    def _refuse_format(self, folder: Path, given: dict[str, Any]) -> None:
        if (given.get("format"), given.get("version")) != (self.format, VERSION):
            says = f"{given.get('format')} {given.get('version')}"
            raise ModelError(f"{self.option} {folder}: this is no skip set of version {VERSION} (it says {says})")


def _unfit(config: SkipSetConfig, target: ModelAdapter) -> str | None:
    outside = [layer for layer in (*config.attention, *config.mlp) if not 1 <= layer <= target.n_layers]
    return f"names layer {outside[0]}, the target has layers 1 to {target.n_layers}" if outside else None


KIND = SkipSetKind(
    part=Part("skip set", _FIND, "skip-set", NAME, knob="skip_set"),
    format="specviz-skip-set",
    config=SkipSetConfig,
    hint=f"give sublayers such as a7 m8, or a folder that {_FIND} wrote",
    advice=f"search one for it with {_FIND}",
    made="found",
    fits=_unfit,
    by_weights=True,
    loose=True,
)


def pick(target: Model, wanted: Sequence[str]) -> tuple[SkipSet, str | None]:
    """The set to use, and what to say about it: named one by one, a file or folder, or that shipped for the target.

    Raises ModelError or KnobError in one line.
    """
    named = SkipSet.parse(wanted)
    if named is not None:
        return named, None
    if not isinstance(target, ModelAdapter):
        return SkipSet.usual(target.n_layers), None
    found = (folder / NAME for folder in KIND.shipped_for(target))
    path = Path(" ".join(wanted)) if wanted else next(found, None)
    if path is not None:
        return load(path, target).skips, None
    usual = SkipSet.usual(target.n_layers)
    return usual, f"no skip set for this target: {usual} stand in, chosen by rule; {_FIND} searches for better ones"


def load(path: Path, target: ModelAdapter) -> SkipSetConfig:
    """The set in a file or folder. Raises ModelError in one line for one that is none, or not of this target."""
    config = KIND.parsed(path, KIND.given(path))
    KIND.refuse_others(path, config, target)
    return config
