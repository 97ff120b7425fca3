"""Folders and GGUF files of models that public cases are about: names, shapes and fields alone, every weight zero.

`models.json` describes each: `config`, `tensors` (name to shape, of bfloat16; `d2t` of int64), `layers` (that many with
one tensor each), `tokens` (how many, and `renamed` ones of them), `files` (others as text), or `gguf` (its fields);
`like` another one, of which only the difference is told.
"""

import json
import struct
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

MODELS = "models.json"
_LAYER = "model.layers.{}.self_attn.q_proj.weight"


def build(described: Mapping[str, Any], name: str, into: Path) -> Path:
    """The folder or file of one of the described models, made in an empty folder."""
    model = _whole(described, name)
    if "gguf" in model:
        return _gguf(model, into / f"{name}.gguf")
    folder = into / name
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(model["config"]), encoding="utf-8")
    layers = {_LAYER.format(k): [64, 64] for k in range(model.get("layers", 0))}
    if shapes := {**layers, **model.get("tensors", {})}:
        _safetensors(folder / "model.safetensors", shapes)
    if tokens := _tokens(model):
        vocabulary = {"model": {"type": "BPE", "vocab": {token: k for k, token in enumerate(tokens)}, "merges": []}}
        (folder / "tokenizer.json").write_text(json.dumps(vocabulary), encoding="utf-8")
        (folder / "tokenizer_config.json").write_text("{}", encoding="utf-8")
    for file, text in model.get("files", {}).items():
        (folder / file).write_text(text, encoding="utf-8")
    return folder


def _whole(described: Mapping[str, Any], name: str) -> dict[str, Any]:
    """With what it takes from the one it is like; a field of null is left out."""
    model = described[name]
    if "like" not in model:
        return dict(model)
    base = _whole(described, model["like"])
    for key, value in model.items():
        merged = {**base[key], **value} if isinstance(value, dict) and isinstance(base.get(key), dict) else value
        base[key] = {k: v for k, v in merged.items() if v is not None} if isinstance(merged, dict) else merged
    return base


def _tokens(model: Mapping[str, Any]) -> list[str]:
    tokens = [f"w{k}" for k in range(model.get("tokens", 0))]
    for place, token in model.get("renamed", {}).items():
        tokens[int(place)] = token
    return tokens


def _safetensors(path: Path, shapes: Mapping[str, list[int]]) -> None:
    entries: dict[str, Any] = {}
    n_bytes = 0
    for name, shape in shapes.items():
        kind, size = ("I64", 8) if name == "d2t" else ("BF16", 2)
        entries[name] = {
            "dtype": kind,
            "shape": shape,
            "data_offsets": [n_bytes, n_bytes := n_bytes + size * prod(shape)],
        }
    head = json.dumps(entries).encode()
    data = bytearray(n_bytes)
    if "d2t" in entries:  # offsets to every other id of the target
        begin, end = entries["d2t"]["data_offsets"]
        data[begin:end] = struct.pack(f"<{(end - begin) // 8}q", *range((end - begin) // 8))
    path.write_bytes(struct.pack("<Q", len(head)) + head + data)


def _gguf(model: Mapping[str, Any], path: Path) -> Path:
    """Version 3: fields, then tensors of float32 that are all zero."""
    fields = {**model["gguf"], **({"tokenizer.ggml.tokens": _tokens(model)} if model.get("tokens") else {})}
    shapes = {f"blk.{k}.attn_q.weight": [8, 8] for k in range(model.get("layers", 0))} | model.get("tensors", {})
    out = b"GGUF" + struct.pack("<IQQ", 3, len(shapes), len(fields))
    for name, value in fields.items():
        out += _text(name) + _field(value)
    offset = 0
    for name, shape in shapes.items():
        out += _text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, 0, offset)
        offset += -(-4 * prod(shape) // 32) * 32
    path.write_bytes(out + bytes(-len(out) % 32 + offset))
    return path


def _text(value: str) -> bytes:
    raw = value.encode()
    return struct.pack("<Q", len(raw)) + raw


def _field(value: Any) -> bytes:
    """With its kind before it: 4 uint32, 8 text, 9 a list."""
    if isinstance(value, int):
        return struct.pack("<II", 4, value)
    if isinstance(value, str):
        return struct.pack("<I", 8) + _text(value)
    kinds = {int: 4, str: 8}
    items = b"".join(_field(item)[4:] for item in value)
    return struct.pack("<IIQ", 9, kinds[type(value[0])], len(value)) + items
