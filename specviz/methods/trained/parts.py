"""Folders of trained drafters: one safetensors file, and a `config.json` naming target, layers and vocabulary map.

What block drafters, EAGLE-3 and Medusa share. A drafter of another target, other layers or another map is refused in
one line: it would only cost time, unseen. Weights are kept in bfloat16 and read once per target.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, asdict, dataclass, fields
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar
from weakref import WeakKeyDictionary

import msgspec
import torch
from safetensors.torch import save_file
from torch import nn

from specviz.engine.model.adapter import ModelAdapter
from specviz.errors import ModelError
from specviz.methods import Part
from specviz.methods.common.missing import missing_part
from specviz.methods.trained.fit import OPTION, MadeFor, checked_vocabulary, refuse_other_target
from specviz.methods.trained.part_files import (
    fingerprint,
    read_config,
    read_tensors,
    refuse_format,
    refuse_odd,
    shipped,
)
from specviz.methods.trained.sizes import fault, shown
from specviz.methods.trained.vocabulary import Vocabulary

VERSION = 1


class DrafterConfig(Protocol):
    """What every `config.json` says."""

    @property
    def vocab(self) -> int: ...
    @property
    def draft_vocab(self) -> int: ...
    @property
    def made_for(self) -> MadeFor: ...


C = TypeVar("C", bound=DrafterConfig)
N = TypeVar("N", bound=nn.Module)


@dataclass(frozen=True)  # no slots: `Trained[C, N](..)` sets an attribute, which frozen slots answer with a TypeError
class Trained(Generic[C, N]):
    """A drafter on its target's device, in its dtype."""

    config: C
    network: N
    vocabulary: Vocabulary


@dataclass(frozen=True)
class Kind(Generic[C, N]):
    """One kind of drafter. `build` makes a network with empty weights.

    `published` reads a folder of somebody else's layout, one whose config names no format of ours.
    """

    format: str
    what: str  # "block drafter"
    command: str  # that trains one
    beside: str  # the folder's name when it lies with its target
    config: type[C]
    build: Callable[[C], N]
    published: "Callable[[Path, dict[str, Any], ModelAdapter], tuple[C, dict[str, torch.Tensor]]] | None" = None
    weights: str = "drafter.safetensors"

    @property
    def advice(self) -> str:
        """What to do without one."""
        return f"train one with {self.command}"

    def tell(self, trained: Trained[C, N], more: str) -> str:
        """What stands in a run's header: what it is, how large, and whose it is."""
        size = sum(int(each.numel()) for each in trained.network.parameters())
        return f"{self.what}, {size:,} weights, {more}; made for {trained.config.made_for.name}"

    def write(self, folder: Path, trained: Trained[C, N]) -> None:
        """Weights and config."""
        state = trained.network.state_dict()
        tensors = {name: each.detach().to(torch.bfloat16).cpu().contiguous() for name, each in state.items()}
        if trained.vocabulary.d2t is not None:
            tensors["d2t"] = trained.vocabulary.d2t.cpu()
        folder.mkdir(parents=True, exist_ok=True)
        save_file(tensors, folder / self.weights)
        (folder / self.weights).chmod(0o644)  # written for the owner alone, which a package must not carry on
        known: Any = trained.config
        text = json.dumps({"format": self.format, "version": VERSION, **asdict(known)}, indent=1)
        (folder / "config.json").write_text(text + "\n", encoding="utf-8")

    def load(self, folder: Path, adapter: ModelAdapter) -> Trained[C, N]:
        """The drafter in a folder. Raises ModelError in one line."""
        known = _loaded.setdefault(adapter, {})
        key = (self.format, str(folder.resolve()))
        if key not in known:
            known[key] = self.read(folder, adapter)
        found: Trained[C, N] = known[key]
        return found

    def read(self, folder: Path, adapter: ModelAdapter) -> Trained[C, N]:
        """The same, read anew."""
        given = read_config(folder, OPTION, self.advice)
        if self.published is not None and "format" not in given:
            config, tensors = self.published(folder, given, adapter)
            refuse_other_target(folder, config.made_for, adapter, self.advice, owned=False)
        else:
            config = self._config(folder, given)
            refuse_other_target(folder, config.made_for, adapter, self.advice)
            tensors = read_tensors(folder, OPTION, adapter.device)
        vocabulary = checked_vocabulary(folder, config.vocab, config.draft_vocab, tensors.pop("d2t", None))
        refuse_odd(folder, OPTION, tensors)
        network = self._built(folder, config, tensors, adapter)
        return Trained(config, network, vocabulary)

    def _config(self, folder: Path, given: dict[str, Any]) -> C:
        refuse_format(folder, OPTION, given, (self.format, VERSION), self.what)
        known: Any = fields(self.config)  # type: ignore[arg-type]
        needed = [each.name for each in known if each.default is MISSING]
        wrong = fault({each.name: given[each.name] for each in known if each.name in given}, needed)
        if wrong is not None:
            raise ModelError(f"{OPTION} {folder}: config.json {wrong}; mend it, or {self.advice}")
        try:
            return msgspec.convert({each.name: given[each.name] for each in known if each.name in given}, self.config)
        except msgspec.ValidationError as error:
            raise ModelError(f"{OPTION} {folder}: config.json: {error}; mend it, or {self.advice}") from None

    def _built(self, folder: Path, config: C, tensors: dict[str, torch.Tensor], adapter: ModelAdapter) -> N:
        """The network with its weights. Shapes are compared first, while nothing takes memory: a config may say much.

        Raises ModelError for weights of other sizes.
        """
        with torch.device("meta"):
            network = self.build(config).to(adapter.dtype)
        wrong = _differing(network, tensors)
        if wrong is not None:
            raise ModelError(
                f"{OPTION} {folder}: the weights are not what config.json says: {wrong}; mend it, or {self.advice}"
            )
        network.to_empty(device=adapter.device).load_state_dict(tensors)
        return network.requires_grad_(False).eval()

    def pick(self, adapter: ModelAdapter, wanted: str | None) -> Trained[C, N]:
        """The drafter to use: a folder's, or None for the one that lies with the target. Raises ModelError."""
        return self.load(self.folder(adapter, wanted), adapter)

    def folder(self, adapter: ModelAdapter, wanted: str | None) -> Path:
        """Where that drafter lies. Raises ModelError when nothing was named and nothing lies with the target."""
        if wanted is not None:
            return self._named(wanted)
        for folder in shipped(adapter, self.beside, self.beside):
            if read_config(folder, OPTION, self.advice).get("target") == fingerprint(adapter):
                return folder
        lacks = missing_part(Part(self.what, self.command, self.beside), adapter)
        train = lacks.command if lacks else self.command
        raise ModelError(f"no {self.what} for the target {adapter.name}: name a folder with {OPTION}, or run {train}")

    def _named(self, wanted: str) -> Path:
        try:
            Path(wanted).resolve().is_dir()
        except (OSError, ValueError) as error:  # too long, or with a zero byte in it
            raise ModelError(f"{OPTION} {shown(wanted)}: no such folder ({error}); {self.advice}") from None
        return Path(wanted)


def _differing(network: nn.Module, tensors: Mapping[str, torch.Tensor]) -> str | None:
    """The first tensor that is not of the network's shape, by name; None: all are."""
    wanted = {name: list(each.shape) for name, each in network.state_dict().items()}
    held = {name: list(each.shape) for name, each in tensors.items()}
    for name in sorted(wanted.keys() | held.keys()):
        if name not in held:
            return f"tensor {shown(name)} is missing"
        if name not in wanted:
            return f"tensor {shown(name)} has no place"
        if wanted[name] != held[name]:
            return f"tensor {shown(name)} is {held[name]}, not {wanted[name]}"
    return None


_loaded: "WeakKeyDictionary[ModelAdapter, dict[tuple[str, str], Any]]" = WeakKeyDictionary()
