"""`specviz models`: what is embedded, and what a folder or hub id would need. Loads no weights."""

import json
import struct
from importlib import resources
from importlib.resources.abc import Traversable
from math import prod
from pathlib import Path
from typing import Any

import click

from specviz.cli import method_list
from specviz.cli.layout import echo_json, echo_sections
from specviz.errors import ModelError

# Families that the test suite saves, loads back and compares with the library's own generation.
TRIED = {
    "llama": "Llama", "qwen2": "Qwen2", "qwen3": "Qwen3", "mistral": "Mistral", "gemma2": "Gemma 2",
    "gemma3_text": "Gemma 3", "phi3": "Phi-3", "gpt2": "GPT-2", "gpt_neox": "GPT-NeoX",
}  # fmt: skip
NEEDS = {
    "config.json": ("config.json",),
    "weights": ("model.safetensors", "model.safetensors.index.json"),
    "tokenizer": ("tokenizer.json", "tokenizer.model", "vocab.json"),
}
_SIZES = {
    "n_layers": ("num_hidden_layers", "n_layer"),
    "width": ("hidden_size", "n_embd"),
    "vocab": ("vocab_size",),
    "context": ("max_position_embeddings", "n_positions"),
}
_OTHERWISE = "other decoders are loaded too, and checked by a self-test at start-up"


@click.command("models")
@click.argument("model", required=False)
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def command(model: str | None, as_json: bool) -> None:
    """Show the embedded models, or what MODEL (a folder or hub id) needs to be used.

    Configurations are read, weights are not loaded and nothing is downloaded.
    """
    report: dict[str, Any] = described(model) if model else {"embedded": embedded(), "architectures": [*TRIED.values()]}
    if as_json:
        echo_json(report)
    elif model:
        found = {"Methods": method_list.rows(model)} if report["kind"] == "folder" and report["usable"] else {}
        echo_sections({report["name"]: _rows(report), **found})
    else:
        echo_sections(_embedded_sections(report))


def embedded() -> dict[str, Any]:
    """The pair in the assets: what each model is, and its card. Null for what is not there."""
    pair = resources.files("specviz_assets") / "models" / "pair"
    card = pair / "card.json"
    return {
        "target": _model(pair / "target"),
        "draft": _model(pair / "draft"),
        "card": json.loads(card.read_text("utf-8")) if card.is_file() else None,
    }


def described(name: str) -> dict[str, Any]:
    """What a folder holds and lacks; of a hub id, what will happen. Raises ModelError for a path that is no folder."""
    folder = Path(name)
    if folder.is_dir():
        missing = [need for need, files in NEEDS.items() if not any((folder / f).is_file() for f in files)]
        found = _model(folder) or {}
        return {"name": folder.name or name, "kind": "folder", "missing": missing, "usable": not missing, **found}
    if folder.exists():
        raise ModelError(f"'{name}' is a file; give the folder that holds its config.json")
    if folder.is_absolute() or name.startswith((".", "~")) or name.count("/") > 1:
        raise ModelError(f"no model folder '{name}'; a hub id has the form owner/name")
    return {
        "name": name,
        "kind": "hub id (no such folder here)",
        "needs": "a connection once, for config, tokenizer and safetensors weights",
    }


def _model(folder: Path | Traversable) -> dict[str, Any] | None:
    """Architecture and sizes from a saved model's config, parameters from the headers of its weights."""
    config = folder / "config.json"
    if not config.is_file():
        return None
    try:
        fields = json.loads(config.read_text("utf-8"))
        kind = fields["model_type"]
    except (ValueError, KeyError, TypeError) as error:
        raise ModelError(f"{folder.name}/config.json is no model configuration: {error!r}") from None
    fields |= fields.get("text_config", {})
    sizes = {name: next((fields[key] for key in keys if key in fields), None) for name, keys in _SIZES.items()}
    weights = [file for file in folder.iterdir() if file.name.endswith(".safetensors")]
    counted = [_weights(file) for file in weights]
    return {
        "architecture": TRIED.get(kind, kind),
        "tried": kind in TRIED,
        **sizes,
        "n_params": sum(n for n, _ in counted) if counted else None,
        "dtype": next((dtype for _, dtype in counted), None),
        "bytes": sum(_size(file) for file in weights) if weights else None,
    }


def _weights(file: Path | Traversable) -> tuple[int, str]:
    """Number of parameters and their type, from the header alone: its length in 8 bytes, then JSON."""
    try:
        with file.open("rb") as stream:
            header = json.loads(stream.read(struct.unpack("<Q", stream.read(8))[0]))
    except (struct.error, ValueError, MemoryError, OverflowError):
        raise ModelError(f"{file.name} is no safetensors file, or is cut short") from None
    tensors = [entry for name, entry in header.items() if name != "__metadata__"]
    return sum(prod(entry["shape"]) for entry in tensors), tensors[0]["dtype"] if tensors else "?"


def _size(file: Path | Traversable) -> int:
    return file.stat().st_size if isinstance(file, Path) else len(file.read_bytes())


def _embedded_sections(report: dict[str, Any]) -> dict[str, list[tuple[str, str]]]:
    pair = report["embedded"]
    sections = {
        f"Embedded {role}": _rows(pair[role]) if pair[role] else [("missing", "train one with: specviz train pair")]
        for role in ("target", "draft")
    }
    if pair["target"]:
        sections["Methods"] = method_list.rows()
    if pair["card"]:
        sections["Card"] = _card_rows(pair["card"])
    sections["Any other pair"] = [
        ("give", "--target and --draft: a folder of save_pretrained, or a hub id; both with the same tokenizer"),
        ("tried", ", ".join(report["architectures"])),
        ("others", _OTHERWISE),
        ("look", "specviz models FOLDER says what a folder holds and lacks"),
    ]
    return sections


def _rows(found: dict[str, Any]) -> list[tuple[str, str]]:
    rows = [
        (name, _value(value))
        for name, value in found.items()
        if name not in ("name", "tried", "usable") and value != []
    ]
    if found.get("tried") is False:
        rows.append(("note", f"not among the tried families; {_OTHERWISE}"))
    return rows


def _card_rows(card: dict[str, Any]) -> list[tuple[str, str]]:
    """What fits on lines: plain values, and what was measured on each domain."""
    rows = [(name, _value(value)) for name, value in card.items() if _is_short(value)]
    for domain, measured in card.get("domains", {}).items():
        rows.append((domain, ", ".join(f"{name} {_value(value)}" for name, value in measured.items())))
    return rows


def _is_short(value: Any) -> bool:
    return isinstance(value, str | int | float) and len(str(value)) <= 120


def _value(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return "unknown" if value is None else f"{value:,}" if isinstance(value, int) else str(value)
