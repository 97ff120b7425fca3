"""Folders of trained drafters: one safetensors file, and a `config.json` naming target, layers and vocabulary map.

What block drafters, EAGLE-3 and Medusa share. A drafter of another target, other layers or another map is refused in
one line: it would only cost time, unseen. Weights are kept in bfloat16 and read once per target.

Folders of trained parts: safetensors and a `config.json` that names the models they were trained for.

What exit heads, H-RAD and adapters share: telling models apart, reading a folder, refusing it in one line. Nothing
pickled is ever opened. `option` is the command-line option a folder was named with; every refusal begins with it.

Whether a trained part fits the target at hand: layers, width, vocabulary, weights. One line when it does not.
"""

import json
import shlex
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
from specviz.engine.model.loading import fingerprint as fingerprint
from specviz.errors import ModelError
from specviz.methods import Part
from specviz.methods.common.missing import missing_part
from specviz.methods.common.missing import shipped as shipped
from specviz.methods.trained.sizes import fault, shown
from specviz.methods.trained.vocabulary import Vocabulary

_PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".pkl")


def read_config(folder: Path, option: str, hint: str) -> dict[str, Any]:
    """`config.json` of a folder. `hint`: what to give instead of a folder that is not there. Raises ModelError."""
    if not folder.is_dir():
        wrong = "a file, not a folder" if folder.exists() else "no such folder"
        raise ModelError(f"{option} {folder}: {wrong}; {hint}")
    path = folder / "config.json"
    if not path.is_file():
        held = ", ".join(sorted(p.name for p in folder.iterdir())[:5]) or "nothing"
        raise ModelError(f"{option} {folder}: no config.json in it (it holds {held})")
    try:
        given = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{option} {folder}: config.json is not JSON: {error}") from None
    except OSError as error:
        raise ModelError(f"{option} {folder}: config.json cannot be read: {error.strerror or error}") from None
    if not isinstance(given, dict):
        raise ModelError(f"{option} {folder}: config.json is no JSON object")
    return given


def refuse_format(folder: Path, option: str, given: dict[str, Any], wanted: tuple[str, int], what: str) -> None:
    """Raises ModelError unless `config.json` is of format and version `wanted`; `what`: what it should hold."""
    name, version = wanted
    if given.get("format") != name:
        raise ModelError(f"{option} {folder}: these are no {what} (config.json says {_kind_of(given)})")
    if given.get("version") != version:
        raise ModelError(
            f"{option} {folder}: written in version {_line(given.get('version'))} of the format, "
            f"this specviz reads {version}"
        )


def _kind_of(given: dict[str, Any]) -> str:
    said = f"model_type {given['model_type']}" if "model_type" in given else f"format {given.get('format')}"
    return _line(said)


def _line(value: object) -> str:
    """Somebody else's text, for a line of ours."""
    return " ".join(str(value).split())[:80]


def refuse_other_model(
    folder: Path, option: str, role: str, made_for: tuple[str, str], adapter: ModelAdapter, advice: str
) -> None:
    """Raises ModelError unless `made_for` (name, fingerprint) is this model. `role`: target or draft model."""
    name, print_ = made_for
    if print_ != fingerprint(adapter):
        raise ModelError(
            f"{option} {folder}: made for {name} (weights {print_[:8]}), the {role} {adapter.name} "
            f"has weights {fingerprint(adapter)[:8]}; {advice}"
        )


def read_tensors(folder: Path, option: str, device: torch.device) -> dict[str, torch.Tensor]:
    """The tensors of a folder's safetensors file. Raises ModelError for none, an unreadable or a pickled one."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    path = _weights(folder, option)
    try:
        tensors: dict[str, torch.Tensor] = load_file(path, device=str(device))
    except (SafetensorError, OSError) as error:
        raise ModelError(f"{option} {folder}: {path.name} cannot be read: {' '.join(str(error).split())}") from error
    return tensors


def refuse_odd(folder: Path, option: str, tensors: Mapping[str, torch.Tensor]) -> None:
    """Raises ModelError unless all are floating point and finite: a head that says NaN is never sure, unseen."""
    for name, tensor in tensors.items():
        if not tensor.is_floating_point():
            kind = str(tensor.dtype).removeprefix("torch.")
            raise ModelError(f"{option} {folder}: tensor {name!r} is of type {kind}; weights are floating point")
        if not bool(tensor.float().isfinite().all()):
            raise ModelError(
                f"{option} {folder}: tensor {name!r} holds NaN or infinite numbers; train or convert it again"
            )


def _weights(folder: Path, option: str) -> Path:
    found = sorted(folder.glob("*.safetensors"))
    if found:
        return found[0]
    pickled = sorted(path for path in folder.iterdir() if path.suffix in _PICKLED)
    if pickled:
        raise ModelError(
            f"{option} {folder}: {pickled[0].name} is pickled, which is never opened here; "
            f"run specviz convert {shlex.quote(str(pickled[0]))}"
        )
    raise ModelError(f"{option} {folder}: no .safetensors file in it")


OPTION = "--drafter"
_WHOLE = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


@dataclass(frozen=True, slots=True)
class MadeFor:
    """The target a folder names."""

    target: str
    name: str
    n_layers: int
    width: int
    vocab: int
    taps: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TapConfig:
    """What `config.json` of a drafter that reads layers of its target says of it. `taps`: those layers.

    `draft_vocab` below `vocab` comes with a `d2t` map.
    """

    target: str
    target_name: str
    target_layers: int
    target_width: int
    taps: tuple[int, ...]
    vocab: int
    draft_vocab: int

    @property
    def made_for(self) -> MadeFor:
        """The target."""
        return MadeFor(
            self.target, self.target_name, self.target_layers, self.target_width, self.vocab, self.taps
        )  # fmt: skip


def refuse_other_target(folder: Path, made: MadeFor, adapter: ModelAdapter, advice: str, owned: bool = True) -> None:
    """Raises ModelError unless it is this one. `owned`: the folder also says which weights, and they are compared."""
    theirs = (made.n_layers, made.width, made.vocab)
    ours = (adapter.n_layers, int(adapter.head.weight.shape[1]), adapter.vocab)
    if theirs != ours:
        raise ModelError(
            f"{OPTION} {folder}: made for {made.name} with {theirs[0]} layers of width {theirs[1]} and "
            f"{theirs[2]} tokens, the target {adapter.name} has {ours[0]} of width {ours[1]} and {ours[2]}"
        )
    outside = [tap for tap in made.taps if not 0 <= tap <= adapter.n_layers]
    if outside or not made.taps:
        named = f"layer {outside[0]}" if outside else "no layers"
        raise ModelError(f"{OPTION} {folder}: config.json reads {named}; the target has layers 1 to {adapter.n_layers}")
    if owned:
        refuse_other_model(folder, OPTION, "target", (made.name, made.target), adapter, advice)


def checked_vocabulary(folder: Path, vocab: int, draft_vocab: int, d2t: torch.Tensor | None) -> Vocabulary:
    """The map of a folder. Raises ModelError for one that is not what `config.json` says."""
    if d2t is not None and (d2t.dim() != 1 or d2t.dtype not in _WHOLE):
        kind = str(d2t.dtype).removeprefix("torch.")
        raise ModelError(
            f"{OPTION} {folder}: its map d2t is {list(d2t.shape)} of type {kind}; "
            "a map is one row of whole numbers, what is added to each draft id"
        )
    made = Vocabulary(vocab, None if d2t is None else d2t.long())
    ids = made.ids
    wrong = made.n_draft != draft_vocab or (
        ids is not None and bool(((ids < 0) | (ids >= vocab)).any() | (ids.diff() <= 0).any())
    )
    if wrong:
        held = "no map" if d2t is None else f"a map of {len(d2t)} tokens"
        raise ModelError(
            f"{OPTION} {folder}: config.json says {draft_vocab} of {vocab} tokens, and there is {held}; "
            "a map must name that many, ascending"
        )
    return made


def taps(n_layers: int) -> tuple[int, int, int]:
    """Which entries of the hidden-state list a drafter reads: early, middle, late (specblock.md 3.2).

    Entry l is what layer l of 1.. put out. Raises ModelError for a target of fewer than three layers.
    """
    if n_layers < 3:
        raise ModelError(f"such a drafter reads three layers of its target, which has {n_layers}")
    usual = (2, n_layers // 2, n_layers - 3)
    return usual if usual[0] < usual[1] < usual[2] else (1, max(2, n_layers // 2), n_layers)


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
