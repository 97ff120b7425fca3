"""Trained parts on disk: a folder with a JSON file that names the models it was made for, and mostly one of weights.

Block drafters, EAGLE-3, Medusa, adapters, exit heads, H-RAD and skip sets are a `PartKind` each. Nothing pickled is
ever opened, and a part of another model is refused: it would only cost time, unseen. Every refusal is a ModelError in
one line that begins with the command-line option such a folder is named with.

Matrices may lie in eight bits a weight, whole numbers from -127 to 127 with a scale a row beside them: half the bytes
on disk. Read, they are weights of sixteen bits like all others; no part is computed in eight.
"""

import json
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import msgspec
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from specviz.engine.model.adapter import ModelAdapter
from specviz.engine.model.files.kinship import made_for
from specviz.engine.model.files.loading import fingerprint
from specviz.errors import ModelError
from specviz.methods import Part
from specviz.methods.common.missing import shipped

Tensors = dict[str, torch.Tensor]
VERSION = 1
_PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".pkl")


class PartConfig(Protocol):
    """What every kind's JSON file names: the fingerprint of the target it was made for, and what that is called."""

    @property
    def target(self) -> str: ...
    @property
    def target_name(self) -> str: ...


C = TypeVar("C", bound=PartConfig)
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)  # no slots: generics set an attribute, which frozen slots answer with a TypeError
class PartKind(Generic[C]):
    """One kind of trained part: `part` in words, `format` and fields (`config`) of its JSON file, its `weights` file.

    `hint`: what to give in place of a folder that is not there; `advice`: what to do with a part of another model.
    `sound`: why a config cannot be, in words that follow the file's name; `fits`: why it cannot be of this target,
    asked before the fingerprints are compared unless `by_weights`. `embedded`: pattern of its folders beside the
    embedded pair, where it is another than in a target's own; `loose`: it may lie there without a folder of its own.
    """

    part: Part
    format: str
    config: type[C]
    weights: str = ""
    hint: str = ""
    advice: str = ""
    verb: str = "made"
    mend: str = ""  # after what is wrong with the file
    sound: Callable[[C], str | None] = lambda config: None
    fits: Callable[[C, ModelAdapter], str | None] = lambda config, target: None
    by_weights: bool = False
    embedded: str = ""
    loose: bool = False

    @property
    def option(self) -> str:
        """The command-line option that names such a folder."""
        return "--" + self.part.knob.replace("_", "-")

    @property
    def beside(self) -> str:
        """Name or pattern of its folders in a target's own."""
        return self.part.beside

    def shipped_for(self, target: ModelAdapter, draft: ModelAdapter | None = None) -> Iterator[Path]:
        """Folders beside the models, not named by hand, whose config names these models."""
        for folder in shipped(target, self.embedded or self.beside, self.beside, self.part.file, self.loose):
            config = self.document(folder)
            if not made_for(config.get("target"), target):
                continue
            if draft is None or made_for(config.get("draft"), draft):
                yield folder

    def opened(self, folder: Path, target: ModelAdapter, draft: ModelAdapter | None = None) -> tuple[C, Tensors]:
        """Config and weights of a folder that was made for these models."""
        config = self.parsed(folder, self.document(folder))
        self.refuse_others(folder, config, target, draft)
        return config, self.tensors(folder, target.device)

    def once(self, folder: Path, target: ModelAdapter, read: Callable[[], T]) -> T:
        """What `read` makes of a folder for this target, made again only when its files change."""
        changed = sorted((file.name, file.stat().st_mtime_ns) for file in folder.glob("*") if file.is_file())
        key = (self.format, str(folder.resolve()), str(changed))
        if key not in target.parts:
            target.parts[key] = read()
        part: T = target.parts[key]
        return part

    def document(self, folder: Path) -> dict[str, Any]:
        """The JSON file as it stands."""
        return read_config(folder, self.option, self.hint)

    def parsed(self, folder: Path, document: dict[str, Any]) -> C:
        """The config that file holds, checked for itself alone."""
        self._refuse_format(folder, document)
        where = f"{self.option} {folder}: {self.part.file}"
        known: Any = fields(self.config)  # type: ignore[arg-type]
        held = {size.name: document[size.name] for size in known if size.name in document}
        wrong = self._fault(held)
        if wrong is not None:
            raise ModelError(f"{where} {wrong}{self.mend}")
        try:
            config = msgspec.convert(held, self.config)
        except msgspec.ValidationError as error:
            raise ModelError(f"{where}: {error}{self.mend}") from None
        wrong = self.sound(config)
        if wrong is not None:
            raise ModelError(f"{where}{wrong}")
        return config

    def _fault(self, held: Mapping[str, Any]) -> str | None:
        """What is wrong with the fields before they are taken for a config."""
        return None

    def _refuse_format(self, folder: Path, config: dict[str, Any]) -> None:
        if config.get("format") != self.format:
            says = f"model_type {config['model_type']}" if "model_type" in config else f"format {config.get('format')}"
            raise ModelError(
                f"{self.option} {folder}: these are no {self.part.what} (config.json says {_one_line(says)})"
            )
        if config.get("version") != VERSION:
            raise ModelError(
                f"{self.option} {folder}: written in version {_one_line(config.get('version'))} of the format, "
                f"this specviz reads {VERSION}"
            )

    def refuse_others(
        self, folder: Path, config: C, target: ModelAdapter, draft: ModelAdapter | None = None, owned: bool = True
    ) -> None:
        """Raises ModelError for a part of other models. `owned`: it names their weights, which are compared."""
        unfit = self.fits(config, target)
        if unfit is not None and not self.by_weights:
            raise ModelError(f"{self.option} {folder}: {unfit}")
        models = [("target", "target", target)] + ([] if draft is None else [("draft", "draft model", draft)])
        for name, role, adapter in models if owned else ():
            theirs, ours = str(getattr(config, name)), fingerprint(adapter)
            if not made_for(theirs, adapter):
                raise ModelError(
                    f"{self.option} {folder}: {self.verb} for {getattr(config, f'{name}_name')} (weights "
                    f"{theirs[:8]}), the {role} {adapter.name} has weights {ours[:8]}; {self.advice}"
                )
        if unfit is not None:
            raise ModelError(f"{self.option} {folder}: {unfit}")

    def tensors(self, folder: Path, device: torch.device, whole: str = "") -> Tensors:
        """The folder's weights, floating point and finite all but the one named `whole`."""
        tensors = read_tensors(folder, self.option, device)
        refuse_odd(folder, self.option, {name: tensor for name, tensor in tensors.items() if name != whole})
        return tensors

    def save(self, folder: Path, config: C, tensors: Mapping[str, torch.Tensor] | None = None) -> None:
        """Write the JSON file, and weights `[..]` by name where any are given, as they are; the folder is made."""
        folder.mkdir(parents=True, exist_ok=True)
        if tensors is not None:
            path = folder / self.weights
            save_file({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, path)
            path.chmod(0o644)  # weights are written for the owner alone, which a package must not carry on
        known: Any = config
        text = json.dumps({"format": self.format, "version": VERSION, **asdict(known)}, indent=1)
        (folder / self.part.file).write_text(text + "\n", encoding="utf-8")


def width_of(target: ModelAdapter) -> int:
    """Width of the target's hidden states."""
    return int(target.head.weight.shape[1])


def other_sizes(config: Any, target: ModelAdapter) -> str | None:
    """Why a part that names `n_layers` and `width` cannot be of this target; None: it has just those."""
    width = width_of(target)
    if (config.n_layers, config.width) == (target.n_layers, width):
        return None
    return (
        f"made for {config.target_name} with {config.n_layers} layers of width {config.width}, "
        f"the target {target.name} has {target.n_layers} of width {width}"
    )


def in_bfloat16(tensors: Mapping[str, torch.Tensor]) -> Tensors:
    """Weights `[..]` by name as they are stored: floating point as bfloat16, whole numbers unchanged."""
    return {
        name: tensor.to(torch.bfloat16) if tensor.is_floating_point() else tensor for name, tensor in tensors.items()
    }


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
        return read_object(path, f"{option} {folder}: config.json is ")
    except OSError as error:
        raise ModelError(f"{option} {folder}: config.json cannot be read: {error.strerror or error}") from None


def read_object(path: Path, refusal: str) -> dict[str, Any]:
    """The JSON object in a file. Raises ModelError that begins with `refusal`, or OSError."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{refusal}not JSON: {error}") from None
    if not isinstance(document, dict):
        raise ModelError(f"{refusal}no JSON object")
    return document


def _one_line(value: object) -> str:
    """Somebody else's text, for a line of ours."""
    return " ".join(str(value).split())[:80]


def read_tensors(folder: Path, option: str, device: torch.device) -> Tensors:
    """The tensors of a folder's safetensors file. Raises ModelError for none, an unreadable or a pickled one."""
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        pickled = sorted(path for path in folder.iterdir() if path.suffix in _PICKLED)
        if pickled:
            raise ModelError(
                f"{option} {folder}: {pickled[0].name} is pickled, which is never opened here; "
                f"run specviz models convert {shlex.quote(str(pickled[0]))}"
            )
        raise ModelError(f"{option} {folder}: no .safetensors file in it")
    try:
        tensors: Tensors = load_file(files[0], device=str(device))
    except (SafetensorError, OSError) as error:
        why = " ".join(str(error).split())
        raise ModelError(f"{option} {folder}: {files[0].name} cannot be read: {why}") from error
    return tensors


def refuse_odd(folder: Path, option: str, tensors: Mapping[str, torch.Tensor]) -> None:
    """Raises ModelError unless all tensors `[..]` are floating point and finite.

    A head whose scores are NaN would never be sure, and nobody would see why.
    """
    for name, tensor in tensors.items():
        if not tensor.is_floating_point():
            kind = str(tensor.dtype).removeprefix("torch.")
            raise ModelError(f"{option} {folder}: tensor {name!r} is of type {kind}; weights are floating point")
        if not bool(tensor.float().isfinite().all()):
            raise ModelError(
                f"{option} {folder}: tensor {name!r} holds NaN or infinite numbers; train or convert it again"
            )


def misshapen(folder: Path, option: str, error: Exception) -> ModelError:
    """The refusal of weights that a library will not put into the network that the config describes."""
    why = " ".join(str(error).split())[:200] or type(error).__name__
    return ModelError(f"{option} {folder}: the weights are not what config.json says: {why}")


SCALE = ".row_scale"  # behind the name of the matrix that it belongs to
_MOST = 127


def packed(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Matrices `[rows, columns]` of floating point as int8 and bfloat16 scales `[rows]`; all others as they are."""
    out: dict[str, torch.Tensor] = {}
    for name, tensor in tensors.items():
        if tensor.dim() != 2 or not tensor.is_floating_point():
            out[name] = tensor
            continue
        wide = tensor.float()
        scale = (wide.abs().amax(1) / _MOST).clamp(min=torch.finfo(torch.float32).tiny).to(torch.bfloat16)
        out[name] = (wide / scale.float()[:, None]).round().clamp(-_MOST, _MOST).to(torch.int8)
        out[name + SCALE] = scale
    return out


def unpacked(tensors: Mapping[str, torch.Tensor], where: str) -> dict[str, torch.Tensor]:
    """The inverse, matrices in bfloat16. `where`: what a ModelError for scales that fit nothing begins with."""
    out = {name: tensor for name, tensor in tensors.items() if not name.endswith(SCALE)}
    for name in tensors.keys() - out.keys():
        of, scale = name.removesuffix(SCALE), tensors[name]
        whole = out.get(of)
        if whole is None or whole.dtype != torch.int8 or whole.dim() != 2 or scale.shape != whole.shape[:1]:
            shape = "nothing" if whole is None else f"{list(whole.shape)} of {str(whole.dtype).removeprefix('torch.')}"
            raise ModelError(f"{where}: tensor {name!r} is {list(scale.shape)} for {of!r}, which is {shape}")
        out[of] = (whole.float() * scale.float()[:, None]).to(torch.bfloat16)
    return out
