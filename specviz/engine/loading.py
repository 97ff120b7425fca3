"""Loading a pair: a local folder or hub id each, tokenizers compared, adapters tested before the first token.

`transformers` does the loading; safetensors only, no code from a repository. What is wrong with a folder is said in
one line before anything heavy is read.
"""

import json
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import torch

from specviz.engine.fingerprint import fingerprint
from specviz.engine.model import ModelAdapter
from specviz.engine.selftest import self_test
from specviz.errors import ModelError
from specviz.events import ModelInfo

EMBEDDED = {"target": "pair/target", "draft": "pair/draft"}
DTYPES = {"float32": torch.float32, "float64": torch.float64, "bfloat16": torch.bfloat16, "float16": torch.float16}


@dataclass(frozen=True, slots=True)
class Loaded:
    """A model that passed its self-test, with its tokenizer."""

    adapter: ModelAdapter
    tokenizer: Any
    info: ModelInfo


def embedded(role: str) -> Path:
    """The folder of the embedded target or draft model. Raises ModelError when this install has none."""
    folder = Path(str(files("specviz_assets"))) / "models" / EMBEDDED[role]
    if not (folder / "config.json").exists():
        raise ModelError(
            f"this install has no embedded {role} model; name one with --{role} FOLDER, or run specviz train pair"
        )
    return folder


def pick_device(name: str | None) -> torch.device:
    """The device of that name; the CPU by default. Raises ModelError for one that is not there."""
    wanted = name or "cpu"
    try:
        device = torch.device(wanted)
    except RuntimeError:
        raise ModelError(f"device '{wanted}' is no device name; use cpu, cuda, cuda:0 or mps") from None
    there = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if not there.get(device.type, False):
        raise ModelError(
            f"device '{wanted}' is not available here; available: {', '.join(k for k, v in there.items() if v)}"
        )
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ModelError(
            f"device '{wanted}': this machine has {torch.cuda.device_count()} CUDA device(s), counted from 0"
        )
    return device


def pick_dtype(name: str | None, device: torch.device) -> torch.dtype:
    """The dtype of that name; float32 on a CPU, bfloat16 elsewhere by default."""
    if name is None:
        return torch.float32 if device.type == "cpu" else torch.bfloat16
    if name not in DTYPES:
        raise ModelError(f"dtype '{name}' is unknown; use {', '.join(DTYPES)}")
    return DTYPES[name]


def load(source: str | None, role: str, device: str | None, dtype: str | None) -> Loaded:
    """Load a model and its tokenizer. `source`: folder, hub id, or None for the embedded one. Raises ModelError."""
    where = str(embedded(role)) if source is None else source
    _look_at_folder(where, role)
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging

    logging.disable_progress_bar()  # it would stand between the lines of our own narration
    place = pick_device(device)
    try:
        tokenizer = AutoTokenizer.from_pretrained(where)
        model = AutoModelForCausalLM.from_pretrained(where, dtype=pick_dtype(dtype, place), use_safetensors=True)
    except ModelError:
        raise
    except Exception as error:
        raise ModelError(f"--{role} {where}: cannot be loaded: {_first_line(error)}") from error
    model.to(place).requires_grad_(False)
    adapter = ModelAdapter(model, name=_name(where), vocab=_size(tokenizer))
    self_test(adapter)
    return Loaded(adapter, tokenizer, _info(adapter, where))


def _size(tokenizer: Any) -> int:
    """One more than the largest id; ids may have gaps, so their number is not enough."""
    return max(len(tokenizer), 1 + max(tokenizer.get_vocab().values(), default=-1))


def _look_at_folder(where: str, role: str) -> None:
    path = Path(where)
    local = path.exists() or where.startswith((".", "/", "~")) or where.count("/") > 1
    if not local:
        return
    if not path.is_dir():
        raise ModelError(f"--{role} {where}: no such folder; give a folder that save_pretrained wrote, or a hub id")
    if not (path / "config.json").is_file():
        held = ", ".join(sorted(p.name for p in path.iterdir())[:5]) or "nothing"
        raise ModelError(
            f"--{role} {where}: no config.json in it (it holds {held}); give a folder that save_pretrained wrote"
        )
    try:
        json.loads((path / "config.json").read_text())
    except ValueError as error:
        raise ModelError(f"--{role} {where}: config.json is not JSON: {error}") from None
    if not any(path.glob("*.safetensors")):
        pickled = any(path.glob("*.bin")) or any(path.glob("*.pt"))
        why = (
            "its weights are pickled, which is never opened here: save them with safe_serialization"
            if pickled
            else "no weights"
        )
        raise ModelError(f"--{role} {where}: no .safetensors file in it ({why})")


def _first_line(error: Exception) -> str:
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0][:300]


def _name(where: str) -> str:
    path = Path(where)
    if not path.exists():
        return where
    return f"{path.parent.name}/{path.name}" if path.name in ("target", "draft") else path.name


def _info(adapter: ModelAdapter, where: str) -> ModelInfo:
    config = adapter.config
    return ModelInfo(
        name=adapter.name, arch=type(adapter.model).__name__, n_layers=adapter.n_layers, width=config.hidden_size,
        n_params=sum(p.numel() for p in adapter.model.parameters()), vocab=adapter.vocab,
        dtype=str(adapter.dtype).removeprefix("torch."), device=str(adapter.device),
        hash=fingerprint(adapter),
    )  # fmt: skip


def compare_tokenizers(target: Any, draft: Any) -> None:
    """Raises ModelError that says what differs, when the two do not number the same tokens."""
    first, second = target.get_vocab(), draft.get_vocab()
    if first != second:
        sizes = (
            f"{len(first)} against {len(second)} tokens" if len(first) != len(second) else _difference(first, second)
        )
        raise ModelError(
            f"target and draft model have different tokenizers ({sizes}): use a draft model of the same family"
        )
    probe = "Speculative   decoding:\n\tdef f(x): return x**2  # Grüße, 世界 1234"
    ids = [t(probe, add_special_tokens=True)["input_ids"] for t in (target, draft)]
    if ids[0] != ids[1]:
        raise ModelError("target and draft model split text into different tokens though they number the same ones")


def _difference(first: dict[str, int], second: dict[str, int]) -> str:
    for token, number in sorted(first.items(), key=lambda item: item[1]):
        if second.get(token) != number:
            return f"token {token!r} is {number} in one and {second.get(token, 'missing')} in the other"
    return "different entries"


def stop_tokens(loaded: Loaded) -> frozenset[int]:
    """End-of-text ids: the generation config's, then the model's, then the tokenizer's."""
    generation = getattr(loaded.adapter.model, "generation_config", None)
    ids = getattr(generation, "eos_token_id", None)
    if ids is None:
        ids = getattr(loaded.adapter.config, "eos_token_id", None)
    if ids is None:
        ids = loaded.tokenizer.eos_token_id
    found = [ids] if isinstance(ids, int) else list(ids or [])
    return frozenset(i for i in found if 0 <= i < loaded.adapter.vocab)
