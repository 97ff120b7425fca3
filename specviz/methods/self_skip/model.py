"""The target with some sublayers left out: Draft&Verify's draft model, and its folders.

It shares every weight. A layer that lacks a sublayer is a twin of the library's module in which that sublayer gives
zeros, so the residual passes by whatever the architecture puts around it; a layer that lacks both is not run at all.
The twins are proved when the first of a set are made: against the library's own forward with those outputs set to zero.

As in the source, a draft begins at the target's committed keys and values and leaves none of its own behind: it writes
them into the free slots of the target's cache, and the target's pass writes over them (`Borrowed`). So nothing is
prefilled or stored twice, and a rejected draft needs no rollback.

A folder holds `skip-set.json`, which names the target's fingerprint and the sublayers left out.
"""

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import torch

from specviz.engine.model.adapter import Model, ModelAdapter
from specviz.engine.model.cache import KVCache
from specviz.engine.model.layers.hooked import unhooked
from specviz.engine.model.layers.silent import Silent
from specviz.engine.model.rows import ForwardBatch
from specviz.engine.model.selftest import furthest, passing, tolerance
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

    def document(self, folder: Path) -> dict[str, Any]:
        """The JSON object of a file, or of that in a folder. Raises ModelError."""
        file = folder / NAME if folder.is_dir() else folder
        if not file.is_file():
            raise ModelError(f"{self.option} {file}: no such file; {self.hint}")
        try:
            return read_object(file, f"{self.option} {file}: ")
        except OSError as error:
            raise ModelError(f"{self.option} {file}: not JSON: {error}") from None

    def _refuse_format(self, folder: Path, config: dict[str, Any]) -> None:
        if (config.get("format"), config.get("version")) != (self.format, VERSION):
            says = f"{config.get('format')} {config.get('version')}"
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
    verb="found",
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
    paths = (folder / NAME for folder in KIND.shipped_for(target))
    path = Path(" ".join(wanted)) if wanted else next(paths, None)
    if path is not None:
        return load(path, target).skips, None
    usual = SkipSet.usual(target.n_layers)
    return usual, f"no skip set for this target: {usual} stand in, chosen by rule; {_FIND} searches for better ones"


def load(path: Path, target: ModelAdapter) -> SkipSetConfig:
    """The set in a file or folder. Raises ModelError in one line for one that is none, or not of this target."""
    config = KIND.parsed(path, KIND.document(path))
    KIND.refuse_others(path, config, target)
    return config


ATTENTION = ("self_attn", "attn", "attention")
MLP = ("mlp", "feed_forward", "block_sparse_moe")


class Borrowed(KVCache):
    """The free slots of another cache: reads what that has committed, writes behind it, commits nothing.

    Whatever it wrote is void with the next write of its owner. It is made for one round and never follows a text.
    """

    def __init__(self, owner: KVCache) -> None:
        super().__init__(owner.n_layers, owner.capacity, owner.spare, owner.places)
        n = owner.length
        self.tokens, self.parents = list(owner.tokens[:n]), list(owner.parents[:n])
        self.filled, self.length = [n] * owner.n_layers, n
        # Where there is nothing yet, the first write makes some of its own.
        self._buffer, self._further, self._layers = owner._buffer, owner._further, owner._layers

    def follow(self, tokens: Any) -> list[int]:
        """Refused: what it holds is another cache's."""
        raise AssertionError("a borrowed cache keeps nothing")


_PROVED: "WeakKeyDictionary[ModelAdapter, set[SkipSet]]" = WeakKeyDictionary()  # five passes are not made a prompt


class SkippedModel:
    """A draft model of the target's own weights. Raises ModelError when the library's layers cannot be run so."""

    def __init__(self, target: ModelAdapter, skips: SkipSet) -> None:
        self.target, self.skips = target, skips
        beyond = max(skips.attention | skips.mlp, default=0)
        if beyond > target.n_layers:
            raise ModelError(f"skip set: layer {beyond} is not there, the target has {target.n_layers} layers")
        self.vocab, self.context, self.device = target.vocab, target.context, target.device
        self._places = kept = [k for k in range(target.n_layers) if not {k + 1} <= skips.attention & skips.mlp]
        without = ({number - 1 for number in left_out} for left_out in (skips.attention, skips.mlp))
        backend = target.backend.part([self._twin(k) for k in kept], kept, *without)
        self.n_layers = len(kept)
        self.inputs, self.forward = backend.inputs, backend.forward  # layers numbered without gaps
        self.embed, self.normed, self.logits = target.embed, target.normed, target.logits
        proved = _PROVED.setdefault(target, set())
        if skips not in proved:
            self._prove()
            proved.add(skips)

    def _twin(self, index: int) -> Any:
        layer, number = self.target.layers[index], index + 1
        without = {ATTENTION: number in self.skips.attention, MLP: number in self.skips.mlp}
        if not any(without.values()):
            return layer
        twin = unhooked(copy.copy(layer))
        twin._modules = dict(layer._modules)
        for names, left_out in without.items():
            if left_out:
                twin._modules[_name(layer, names, self.target.name)] = Silent(pair=names is ATTENTION)
        return twin

    def new_cache(self, capacity: int) -> KVCache:
        """An empty cache; one slot for every layer of the target, those left out stay empty."""
        return self.target.new_cache(capacity)

    @torch.inference_mode()
    def _prove(self) -> None:
        """Every layer on a few rows against the library's, in a forward that sets those sublayers' outputs to zero."""
        target = self.target
        ids = [(7 * k + 3) % target.vocab for k in range(6)]
        kind = type(target.layers[0]).__name__
        try:
            with silenced(target, self.skips), passing(target.layers) as states:
                target.model(torch.tensor([ids], device=target.device), use_cache=False)
            rows = ForwardBatch(self, self.new_cache(8))
            rows.add_line(ids)
            through = states()
            place, gap = furthest(rows, [through[k] for k in self._places], [through[k + 1] for k in self._places])
        except ModelError:
            raise
        except Exception as error:
            raise ModelError(f"{target.name}: layers of type {kind} cannot be run in part: {error}") from error
        if not gap < tolerance(target.dtype) / 3:
            raise ModelError(
                f"{target.name}: layers of type {kind} cannot be run in part: "
                f"what layer {self._places[place] + 1} adds differs by {gap:.2g}"
            )


def _name(layer: Any, names: tuple[str, ...], model: str) -> str:
    """The name of a sublayer in the library's layer."""
    present = next((name for name in names if name in layer._modules), None)
    if present is None:
        held = ", ".join(layer._modules)
        raise ModelError(f"{model}: no {names[0]} in a layer of type {type(layer).__name__} (it has {held})")
    return present


@contextmanager
def silenced(target: ModelAdapter, skips: SkipSet) -> Iterator[None]:
    """The library's model with some outputs set to zero, by hooks that are taken away again."""
    wanted = [(ATTENTION, k) for k in skips.attention] + [(MLP, k) for k in skips.mlp]
    hooks = []
    try:
        for names, number in wanted:
            layer = target.layers[number - 1]
            module = layer._modules[_name(layer, names, target.name)]
            hooks.append(module.register_forward_hook(_zeroed))
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _zeroed(module: Any, args: Any, out: Any) -> Any:
    if isinstance(out, tuple):
        return (torch.zeros_like(out[0]), *out[1:])
    return torch.zeros_like(out)
