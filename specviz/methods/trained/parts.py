"""Trained drafters that read layers of their target: block drafters, EAGLE-3 and Medusa, a `DrafterKind` each.

A folder names target, layers and vocabulary map; a drafter of another target, other layers or another map is refused.
Weights are kept in bfloat16 and read once per target. Folders of a published layout are taken where a kind reads them.
"""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any, Generic, Protocol, Self, TypeVar

import torch
from torch import nn

from specviz.engine.model.adapter import ModelAdapter
from specviz.engine.model.files.loading import fingerprint as fingerprint
from specviz.errors import ModelError
from specviz.methods import Part
from specviz.methods.common.missing import missing_part, own_folder, unread
from specviz.methods.trained.layers import LayerShape, compile_network, reads_four_bits
from specviz.methods.trained.part_kind import (
    PartKind,
    Tensors,
    in_bfloat16,
    packed,
    read_tensors,
    refuse_odd,
    unpacked,
    width_of,
)
from specviz.methods.trained.part_kind import read_config as read_config
from specviz.methods.trained.programs import compile_programs
from specviz.methods.trained.sizes import fault, shown
from specviz.methods.trained.vocabulary import Vocabulary

OPTION = "--drafter"
_WHOLE = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


class DrafterConfig(Protocol):
    """What every drafter's `config.json` says. `taps`: the target's layers that it reads, 0 the embedding.

    `draft_vocab` below `vocab` comes with a `d2t` map.
    """

    @property
    def target(self) -> str: ...
    @property
    def target_name(self) -> str: ...
    @property
    def target_layers(self) -> int: ...
    @property
    def target_width(self) -> int: ...
    @property
    def taps(self) -> tuple[int, ...]: ...
    @property
    def vocab(self) -> int: ...
    @property
    def draft_vocab(self) -> int: ...


@dataclass(frozen=True, slots=True)
class TapConfig:
    """The fields that `config.json` of a drafter with layers of its own choice begins with."""

    target: str
    target_name: str
    target_layers: int
    target_width: int
    taps: tuple[int, ...]
    vocab: int
    draft_vocab: int


@dataclass(frozen=True, slots=True)
class LayerConfig(TapConfig):
    """And the sizes of its layers, which are as wide as the target."""

    heads: int
    kv_heads: int
    head_dim: int
    ff: int
    rope_theta: float
    eps: float = 1e-6

    @property
    def layer(self) -> LayerShape:
        """One layer."""
        return LayerShape(
            self.target_width, self.heads, self.kv_heads, self.head_dim, self.ff, self.rope_theta, self.eps
        )

    @classmethod
    def describing(
        cls, adapter: ModelAdapter, target: str, taps: tuple[int, ...], draft_vocab: int, layer: LayerShape, **more: Any
    ) -> Self:
        """Of a drafter with such layers beside a target; `target`: its fingerprint, `more`: a kind's own fields."""
        return cls(
            target=target,
            target_name=adapter.name,
            target_layers=adapter.n_layers,
            target_width=layer.width,
            taps=taps,
            vocab=adapter.vocab,
            draft_vocab=draft_vocab,
            heads=layer.heads,
            kv_heads=layer.kv_heads,
            head_dim=layer.head_dim,
            ff=layer.ff,
            rope_theta=layer.rope_theta,
            eps=layer.eps,
            **more,
        )


D = TypeVar("D", bound=DrafterConfig)
N = TypeVar("N", bound=nn.Module)


@dataclass(frozen=True)  # no slots, see PartKind
class Trained(Generic[D, N]):
    """A drafter on its target's device, in its dtype."""

    config: D
    network: N
    vocabulary: Vocabulary


@dataclass(frozen=True, kw_only=True)
class DrafterKind(PartKind[D], Generic[D, N]):
    """`build` makes a network with empty weights; `published` reads a folder whose config names no format of ours, and
    `native` does so where the network is of another kind than `build` makes.

    `join` gives a network what it shares with its target: those are no weights of its own. `small`: whether matrices of
    such a drafter are stored in eight bits.
    """

    build: Callable[[D], N]
    join: Callable[[N, ModelAdapter, Vocabulary], None] | None = None
    published: Callable[[Path, dict[str, Any], ModelAdapter], tuple[D, Tensors]] | None = None
    native: Callable[[Path, dict[str, Any], ModelAdapter], Trained[D, N]] | None = None
    weights: str = "drafter.safetensors"
    small: Callable[[D], bool] = lambda config: False

    def tell(self, trained: Trained[D, N], more: str) -> str:
        """The drafter's entry in the run header: kind, size and target."""
        size = sum(int(weight.numel()) for weight in trained.network.parameters())
        read = ", read in four bits" if reads_four_bits(trained.network) else ""
        return f"{self.part.what}, {size:,} weights{read}, {more}; made for {trained.config.target_name}"

    def write(self, folder: Path, trained: Trained[D, N]) -> None:
        """Weights in bfloat16 or smaller, the vocabulary's map where there is one, and config."""
        d2t = trained.vocabulary.d2t
        state = trained.network.state_dict()
        state = (packed(state) if self.small(trained.config) else state) | ({} if d2t is None else {"d2t": d2t})
        self.save(folder, trained.config, in_bfloat16(state))

    def pick(self, adapter: ModelAdapter, wanted: str | None) -> Trained[D, N]:
        """The drafter to use: a folder's, or None for the one that lies with the target. Raises ModelError."""
        return self.load(self.folder(adapter, wanted), adapter)

    def folder(self, adapter: ModelAdapter, wanted: str | None) -> Path:
        """The drafter's folder. Raises ModelError when none was named and none is beside the target."""
        if wanted is not None:
            try:
                Path(wanted).resolve().is_dir()
            except (OSError, ValueError) as error:  # too long, or with a zero byte in it
                raise ModelError(f"{OPTION} {shown(wanted)}: no such folder ({error}); {self.advice}") from None
            return Path(wanted)
        shipped = next(self.shipped_for(adapter), None) or own_folder(self.part, adapter)
        if shipped is None:
            lacks = missing_part(self.part, adapter)
            command = lacks.command if lacks else self.part.trainer
            what = f"no {self.part.what} for the target {adapter.name}{unread(self.part, adapter)}"
            raise ModelError(f"{what}: name a folder with {OPTION}, or: {command}")
        return shipped

    def load(self, folder: Path, adapter: ModelAdapter) -> Trained[D, N]:
        """The drafter in a folder, read once per target. Raises ModelError in one line."""
        return self.once(folder, adapter, lambda: self.read(folder, adapter))

    def read(self, folder: Path, adapter: ModelAdapter) -> Trained[D, N]:
        """The drafter in a folder, from disk. Shapes are compared before memory is taken."""
        document = self.document(folder)
        if self.native is not None and "format" not in document and self.part.own(folder):
            return self.native(folder, document, adapter)
        if self.published is not None and "format" not in document:
            config, tensors = self.published(folder, document, adapter)
            self.refuse_others(folder, config, adapter, owned=False)
        else:
            config = self.parsed(folder, document)
            self.refuse_others(folder, config, adapter)
            tensors = read_tensors(folder, OPTION, adapter.device)
        vocabulary = checked_vocabulary(folder, config, tensors.pop("d2t", None))
        tensors = unpacked(tensors, f"{OPTION} {folder}")
        refuse_odd(folder, OPTION, tensors)
        with torch.device("meta"):
            network = self.build(config).to(adapter.dtype)
        wrong = differing(network, tensors)
        if wrong is not None:
            raise ModelError(
                f"{OPTION} {folder}: the weights are not what config.json says: {wrong}; mend it, or {self.advice}"
            )
        network.to_empty(device=adapter.device).load_state_dict(tensors)
        if self.join is not None:
            self.join(network, adapter, vocabulary)
        network.requires_grad_(False).eval()
        compile_network(network)
        compile_programs(network)
        return Trained(config, network, vocabulary)

    def _fault(self, tensors: Mapping[str, Any]) -> str | None:
        known: Any = fields(self.config)  # type: ignore[arg-type]
        return fault(tensors, [name.name for name in known if name.default is MISSING])


def drafter_kind(
    part: Part,
    format: str,
    config: type[D],
    build: Callable[[D], N],
    published: Callable[[Path, dict[str, Any], ModelAdapter], tuple[D, Tensors]] | None = None,
) -> DrafterKind[D, N]:
    """A kind whose advice, wherever something is wrong, is to train one."""
    advice = f"train one with {part.trainer}"
    return DrafterKind(
        part=part,
        format=format,
        config=config,
        build=build,
        published=published,
        hint=advice,
        advice=advice,
        mend=f"; mend it, or {advice}",
        fits=unfit,
    )


def unfit(config: DrafterConfig, adapter: ModelAdapter) -> str | None:
    """Why a drafter cannot be of this target, by sizes and layers."""
    theirs = (config.target_layers, config.target_width, config.vocab)
    ours = (adapter.n_layers, width_of(adapter), adapter.vocab)
    if theirs != ours:
        return (
            f"made for {config.target_name} with {theirs[0]} layers of width {theirs[1]} and "
            f"{theirs[2]} tokens, the target {adapter.name} has {ours[0]} of width {ours[1]} and {ours[2]}"
        )
    outside = [tap for tap in config.taps if not 0 <= tap <= adapter.n_layers]
    if outside or not config.taps:
        named = f"layer {outside[0]}" if outside else "no layers"
        return f"config.json reads {named}; the target has layers 1 to {adapter.n_layers}"
    return None


def checked_vocabulary(folder: Path, config: DrafterConfig, d2t: torch.Tensor | None) -> Vocabulary:
    """The map `d2t` `[draft_vocab]` of a folder. Raises ModelError for one that is not what `config.json` says."""
    if d2t is not None and (d2t.dim() != 1 or d2t.dtype not in _WHOLE):
        kind = str(d2t.dtype).removeprefix("torch.")
        raise ModelError(
            f"{OPTION} {folder}: its map d2t is {list(d2t.shape)} of type {kind}; "
            "a map is one row of whole numbers, what is added to each draft id"
        )
    vocabulary = Vocabulary(config.vocab, None if d2t is None else d2t.long())
    ids = vocabulary.ids
    wrong = vocabulary.n_draft != config.draft_vocab or (
        ids is not None and bool(((ids < 0) | (ids >= config.vocab)).any() | (ids.diff() <= 0).any())
    )
    if wrong:
        has = "no map" if d2t is None else f"a map of {len(d2t)} tokens"
        raise ModelError(
            f"{OPTION} {folder}: config.json says {config.draft_vocab} of {config.vocab} tokens, and there is {has}; "
            "a map must name that many, ascending"
        )
    return vocabulary


def differing(network: nn.Module, tensors: Mapping[str, torch.Tensor]) -> str | None:
    """The first tensor that is not of the network's shape, by name; None: all are."""
    wanted = {name: list(tensor.shape) for name, tensor in network.state_dict().items()}
    shapes = {name: list(tensor.shape) for name, tensor in tensors.items()}
    for name in sorted(wanted.keys() | shapes.keys()):
        if name not in shapes:
            return f"tensor {shown(name)} is missing"
        if name not in wanted:
            return f"tensor {shown(name)} has no place"
        if wanted[name] != shapes[name]:
            return f"tensor {shown(name)} is {shapes[name]}, not {wanted[name]}"
    return None


def taps(n_layers: int) -> tuple[int, int, int]:
    """Which entries of the hidden-state list a drafter reads: early, middle, late.

    Entry l is what layer l of 1.. put out. Raises ModelError for a target of fewer than three layers.
    """
    if n_layers < 3:
        raise ModelError(f"such a drafter reads three layers of its target, which has {n_layers}")
    usual = (2, n_layers // 2, n_layers - 3)
    return usual if usual[0] < usual[1] < usual[2] else (1, max(2, n_layers // 2), n_layers)
