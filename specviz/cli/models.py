"""`specviz models`: what is embedded, and what a folder or hub id would need. Loads no weights."""

import json
from pathlib import Path
from typing import Any

import click

from specviz import model_folder
from specviz.cli import local
from specviz.cli.flags import JSON
from specviz.cli.look import convert
from specviz.cli.options import method_rows
from specviz.cli.printing import echo_json, echo_sections
from specviz.errors import ModelError
from specviz.local_models.catalogue import KNOWN
from specviz.local_models.found import embedded_pair
from specviz.local_models.gguf_header import is_gguf, read_header
from specviz.local_models.named import path_of
from specviz.mtp_layers import layout_words, own_mtp, own_mtp_layers
from specviz.self_drafts import is_self

# Families that the test suite saves, loads back and compares with the library's own generation.
TRIED = {
    "llama": "Llama",
    "qwen2": "Qwen2",
    "qwen3": "Qwen3",
    "mistral": "Mistral",
    "gemma2": "Gemma 2",
    "gemma3_text": "Gemma 3",
    "phi3": "Phi-3",
    "gpt2": "GPT-2",
    "gpt_neox": "GPT-NeoX",
    "gpt_oss": "GPT-OSS",
}
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


class ModelsGroup(click.Group):
    """The commands on models; a first word that is none of them is a MODEL to look at."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The subcommand named first (`get`, `list`, `convert`, `remove`); any other word is a model to describe."""
        if args[0] in self.commands:
            return super().resolve_command(ctx, args)
        return _look.name, _look, args


@click.group("models", cls=ModelsGroup, invoke_without_command=True, subcommand_metavar="[MODEL | COMMAND ...]")
@JSON
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """Show the embedded models, or what MODEL (a folder, GGUF file, hub id or local name) needs to be used.

    Configurations are read, weights are not loaded and nothing is downloaded, except by get.
    """
    ctx.obj = as_json
    if ctx.invoked_subcommand is None:
        report: dict[str, Any] = {"embedded": embedded(), "architectures": [*TRIED.values()]}
        if as_json:
            echo_json(report)
        else:
            echo_sections(_embedded_sections(report))


for subcommand in (local.get, local.list_command, convert.command, local.remove_command):
    command.add_command(subcommand)


@click.command("models")
@click.argument("model")
@JSON
@click.pass_context
def _look(ctx: click.Context, model: str, as_json: bool) -> None:
    """Show what MODEL needs to be used."""
    report = described(model)
    if as_json or ctx.obj:
        echo_json(report)
    else:
        needs = {"Methods": method_rows(model)} if report.get("usable") else {}
        echo_sections({report["name"]: _rows(report), **needs})


def embedded() -> dict[str, Any]:
    """The pair in the assets: what each model is, and its card. Null for what is not there."""
    pair = embedded_pair()
    card = pair / "card.json"
    return {
        "target": _model(pair / "target"),
        "draft": _model(pair / "draft"),
        "card": json.loads(card.read_text("utf-8")) if card.is_file() else None,
    }


def described(name: str) -> dict[str, Any]:
    """What a folder, file or local name holds and lacks; of a hub id, what will happen. Raises ModelError for a path
    with nothing to look at."""
    if is_self(name):
        return {"name": name, "kind": "draft model: the target itself in four bits"}
    path = path_of(name)
    if path is not None:
        at = {} if path == Path(name) else {"name": name, "folder" if path.is_dir() else "file": str(path)}
        if path.is_dir():
            return _folder(path, name) | at
        if is_gguf(path):
            return _gguf(path) | at
        raise ModelError(f"'{name}' is a file and no GGUF; give the folder that holds its config.json")
    if model_folder.is_path(name):
        near = model_folder.suggested(name) or "; a hub id has the form owner/name"
        raise ModelError(f"no model folder '{model_folder.shown(name)}'{near}")
    if name in KNOWN:
        return {"name": name, "kind": "known, not here", "fetch": f"specviz models get {name}"}
    close = model_folder.nearest_folder(name)
    return {
        "name": name,
        "kind": "hub id (no such folder here)",
        "needs": "a connection once, for config, tokenizer and safetensors weights",
        **({"nearest": f"the folder '{close}' has nearly this name"} if close else {}),
    }


def _folder(folder: Path, name: str) -> dict[str, Any]:
    held = [
        file_name for file_name in model_folder.names_in(folder) if model_folder.kind_of(folder / file_name) == "file"
    ]
    missing = [need for need, files in NEEDS.items() if not any(file in held for file in files)]
    borrows = model_folder.BORROWS in held
    if borrows and "tokenizer" in missing:
        missing.remove("tokenizer")
    kind = "draft model, beside the target whose embedding, head and tokenizer it takes" if borrows else "folder"
    return {
        "name": folder.name or name,
        "kind": kind,
        "missing": missing,
        "usable": not missing,
        **(_model(folder) or {}),
    }


def _gguf(path: Path) -> dict[str, Any]:
    header = read_header(path)
    if not header.tokens:
        kind = model_folder.shown(header.architecture)
        return {
            "name": path.stem,
            "kind": "GGUF file",
            "usable": False,
            "architecture": kind,
            "bytes": path.stat().st_size,
            "note": "no language model: it has no vocabulary; a drafter for llama.cpp, beside its target",
        }
    return {
        "name": path.stem,
        "kind": "GGUF file",
        "usable": True,
        "architecture": model_folder.shown(header.architecture),
        "n_layers": header.size("block_count"),
        "width": header.size("embedding_length"),
        "vocab": header.tokens,
        "context": header.size("context_length"),
        "chat": header.template,
        "bytes": path.stat().st_size,
        "note": "made dense when it is loaded, which takes a while and the memory of a dense model",
    }


def _model(folder: Path) -> dict[str, Any] | None:
    """Architecture and sizes from a saved model's config, parameters from the headers of its weights."""
    if model_folder.kind_of(folder / "config.json") == "nothing":
        return None
    fields = model_folder.read_config(folder)
    kind = fields.get("model_type")
    if not isinstance(kind, str):
        raise ModelError(f"{folder.name}/config.json is no model configuration: it names no model_type")
    fields = fields | (fields.get("text_config") or {})
    sizes = {name: next((fields[key] for key in keys if key in fields), None) for name, keys in _SIZES.items()}
    weights = model_folder.weight_files(folder)
    tensors = [tensor for file in weights for tensor in model_folder.tensors(file)]
    names = [tensor.name for tensor in tensors]
    n_mtp, own = own_mtp_layers(fields, names), own_mtp(names)
    how = layout_words(own) + (": --method mtp" if own is not None else "")
    mtp = {"own MTP layers": f"{n_mtp}, {how}"} if n_mtp else {}
    return {
        "architecture": TRIED.get(kind, model_folder.shown(kind)),
        "tried": kind in TRIED,
        **sizes,
        "n_params": sum(tensor.size for tensor in tensors) if weights else None,
        "dtype": tensors[0].dtype if tensors else "?" if weights else None,
        "bytes": sum(file.stat().st_size for file in weights) if weights else None,
        **mtp,
    }


def _embedded_sections(report: dict[str, Any]) -> dict[str, list[tuple[str, str]]]:
    pair = report["embedded"]
    sections = {
        f"Embedded {role}": _rows(pair[role]) if pair[role] else [("missing", "train one with: specviz train pair")]
        for role in ("target", "draft")
    }
    if pair["target"]:
        sections["Methods"] = method_rows()
    if pair["card"]:
        sections["Card"] = _card_rows(pair["card"])
    sections["Any other pair"] = [
        ("give", "--target and --draft: a folder of save_pretrained, or a hub id; both with the same tokenizer"),
        ("tried", ", ".join(report["architectures"])),
        ("others", _OTHERWISE),
        ("look", "specviz models FOLDER says what a folder holds and lacks"),
    ]
    return sections


def _rows(report: dict[str, Any]) -> list[tuple[str, str]]:
    rows = [
        (name, _value(value))
        for name, value in report.items()
        if name not in ("name", "tried", "usable") and value != []
    ]
    if report.get("tried") is False:
        rows.append(("note", f"not among the tried families; {_OTHERWISE}"))
    return rows


def _card_rows(card: dict[str, Any]) -> list[tuple[str, str]]:
    """Rows of a model card: its plain values, and what was measured on each domain."""
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
