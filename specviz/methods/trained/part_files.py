"""Folders of trained parts: safetensors and a `config.json` that names the models they were trained for.

What exit heads, H-RAD and adapters share: telling models apart, reading a folder, refusing it in one line. Nothing
pickled is ever opened. `option` is the command-line option a folder was named with; every refusal begins with it.
"""

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from specviz.engine.model.adapter import ModelAdapter
from specviz.engine.model.fingerprint import fingerprint as fingerprint
from specviz.errors import ModelError
from specviz.methods.common.missing import shipped as shipped

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
