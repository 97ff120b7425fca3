"""Folders of exit heads: `heads.safetensors` and a `config.json` naming the target's fingerprint, layers and kind.

Nothing pickled is ever opened, and heads of another target are refused: they would only cost time, unseen. A folder of
a published tuned lens is taken too, once its weights are safetensors.
"""

import hashlib
import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import msgspec
import torch

from specviz.drafters.exit_head import KINDS, Tensor
from specviz.engine.model import ModelAdapter
from specviz.errors import ModelError

FORMAT, VERSION = "specviz-exit-heads", 1
_SAMPLE = 256  # entries of every parameter that the fingerprint looks at
_SMALLEST = 2.0**-14  # below it float16 loses digits, so the fingerprint takes such entries as zero
_PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
_CONVERT = (
    "python -c \"import torch, safetensors.torch as s; s.save_file(torch.load('{name}', weights_only=True), "
    "'{stem}.safetensors')\""
)


@dataclass(frozen=True, slots=True)
class Config:
    """`config.json` of a folder of heads. `target`: its fingerprint; `shortlist`: K, 0 for the whole vocabulary.

    `advised`: the layers to test with the default threshold, chosen by replay; empty when nobody chose.
    """

    target: str
    target_name: str
    n_layers: int
    width: int
    vocab: int
    kind: str
    layers: tuple[int, ...]
    rank: int = 0
    shortlist: int = 0
    labels: str = "soft"
    advised: tuple[int, ...] = ()

    def write(self, folder: Path) -> None:
        """Beside the weights."""
        text = json.dumps({"format": FORMAT, "version": VERSION, **asdict(self)}, indent=1)
        (folder / "config.json").write_text(text + "\n", encoding="utf-8")


_NAMES = tuple(each.name for each in fields(Config))
_fingerprints: "WeakKeyDictionary[ModelAdapter, str]" = WeakKeyDictionary()


@torch.inference_mode()
def fingerprint(adapter: ModelAdapter) -> str:
    """Tells models apart, and one model not from itself in another dtype: names, shapes, some entries of all weights.

    Entries are rounded to bfloat16, so a checkpoint has the same fingerprint loaded in float32, float64 or bfloat16.
    """
    if adapter not in _fingerprints:
        digest = hashlib.sha256()
        for name, parameter in sorted(adapter.model.named_parameters()):
            flat = parameter.detach().flatten()
            some = flat[:: max(1, len(flat) // _SAMPLE)].float().cpu()
            some = torch.where(some.abs() < _SMALLEST, 0.0, some).bfloat16().view(torch.int16)
            digest.update(f"{name}{tuple(parameter.shape)}".encode())
            digest.update(some.numpy().tobytes())
        _fingerprints[adapter] = digest.hexdigest()[:32]
    return _fingerprints[adapter]


def opened(folder: Path, adapter: ModelAdapter) -> tuple[Config, dict[str, Tensor]]:
    """What a folder holds, once it is known to be heads of this target. Raises ModelError in one line."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    given = read_config(folder)
    config = _tuned_lens(folder, given, adapter) if "lens_type" in given else _config(folder, given)
    _refuse_other_target(folder, config, adapter)
    path = _weights(folder)
    try:
        tensors = load_file(path, device=str(adapter.device))
    except (SafetensorError, OSError) as error:
        raise ModelError(f"--heads {folder}: {path.name} cannot be read: {' '.join(str(error).split())}") from error
    return config, _with_biases(tensors, config) if config.kind == "tuned" else tensors


def read_config(folder: Path) -> dict[str, Any]:
    """`config.json` of a folder. Raises ModelError in one line."""
    if not folder.is_dir():
        raise ModelError(f"--heads {folder}: no such folder; give one that specviz train exit-heads wrote, or lens")
    path = folder / "config.json"
    if not path.is_file():
        held = ", ".join(sorted(p.name for p in folder.iterdir())[:5]) or "nothing"
        raise ModelError(f"--heads {folder}: no config.json in it (it holds {held})")
    try:
        given = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ModelError(f"--heads {folder}: config.json is not JSON: {error}") from None
    if not isinstance(given, dict):
        raise ModelError(f"--heads {folder}: config.json is no JSON object")
    return given


def _config(folder: Path, given: dict[str, Any]) -> Config:
    if given.get("format") != FORMAT:
        raise ModelError(f"--heads {folder}: these are no exit heads (config.json says {_kind_of(given)})")
    if given.get("version") != VERSION:
        raise ModelError(
            f"--heads {folder}: written in version {given.get('version')} of the format, this specviz reads {VERSION}"
        )
    try:
        config = msgspec.convert({name: given[name] for name in _NAMES if name in given}, Config)
    except msgspec.ValidationError as error:
        raise ModelError(f"--heads {folder}: config.json: {error}") from None
    if config.kind not in KINDS or not config.target:
        wrong = "names no target" if config.kind in KINDS else f"has kind '{config.kind}', known are {', '.join(KINDS)}"
        raise ModelError(f"--heads {folder}: config.json {wrong}")
    return config


def _kind_of(given: dict[str, Any]) -> str:
    return f"model_type {given['model_type']}" if "model_type" in given else f"format {given.get('format')}"


def _refuse_other_target(folder: Path, config: Config, adapter: ModelAdapter) -> None:
    width = adapter.head.weight.shape[1]
    if (config.n_layers, config.width) != (adapter.n_layers, width):
        raise ModelError(
            f"--heads {folder}: made for {config.target_name} with {config.n_layers} layers of width {config.width}, "
            f"the target {adapter.name} has {adapter.n_layers} of width {width}"
        )
    outside = [layer for layer in (*config.layers, *config.advised) if not 1 <= layer < adapter.n_layers]
    if outside or not config.layers:
        raise ModelError(
            f"--heads {folder}: config.json names {f'layer {outside[0]}' if outside else 'no layers'}, the "
            f"target has layers 1 to {adapter.n_layers - 1} below its last"
        )
    if config.target and config.target != fingerprint(adapter):
        raise ModelError(
            f"--heads {folder}: made for {config.target_name} (weights {config.target[:8]}), the target {adapter.name} "
            f"has weights {fingerprint(adapter)[:8]}; train heads for it with specviz train exit-heads"
        )


def _weights(folder: Path) -> Path:
    found = sorted(folder.glob("*.safetensors"))
    if found:
        return found[0]
    pickled = sorted(path for path in folder.iterdir() if path.suffix in _PICKLED)
    if pickled:
        line = _CONVERT.format(name=pickled[0].name, stem=pickled[0].stem)
        raise ModelError(
            f"--heads {folder}: {pickled[0].name} is pickled, which is never opened here; in it run: {line}"
        )
    raise ModelError(f"--heads {folder}: no .safetensors file in it")


def _tuned_lens(folder: Path, given: dict[str, Any], adapter: ModelAdapter) -> Config:
    """A published tuned lens: translator l corrects the state after l layers. It names its base, not its weights."""
    if given["lens_type"] != "linear_tuned_lens":
        raise ModelError(f"--heads {folder}: lens_type '{given['lens_type']}' is unknown; known: linear_tuned_lens")
    n_layers, width = given.get("num_hidden_layers"), given.get("d_model")
    if not isinstance(n_layers, int) or not isinstance(width, int):
        raise ModelError(f"--heads {folder}: config.json of a tuned lens needs num_hidden_layers and d_model")
    return Config(
        target="", target_name=str(given.get("base_model_name_or_path")), n_layers=n_layers, width=width,
        vocab=adapter.vocab, kind="tuned", layers=tuple(range(1, n_layers)),
    )  # fmt: skip


def _with_biases(tensors: dict[str, Tensor], config: Config) -> dict[str, Tensor]:
    """A translator's names are `l.weight` and `l.bias`, as ours are; one without a bias gets zeros."""
    zero = torch.zeros(config.width)
    biases = {f"{layer}.bias": zero for layer in config.layers if f"{layer}.bias" not in tensors}
    return tensors | biases
