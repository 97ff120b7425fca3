"""One of two models as its files say it: configuration, tokens by id, template, names and shapes of tensors."""

import json
import struct
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from specviz import model_folder
from specviz.errors import ModelError
from specviz.local_models.found import cached_path
from specviz.local_models.gguf_header import is_gguf, read_header, read_vocabulary
from specviz.local_models.named import path_of
from specviz.local_models.vocabulary import numbered_tokens
from specviz.model_folder import INDEX, Tensor

_INTEGERS = {"I64": "q", "I32": "i", "I16": "h"}
_LAYER_IDS = ("target_layer_ids", "target_layers", "layer_ids")
_MOST_MAP = 1 << 21  # entries of a map from draft ids to target ids
# Fields that only a part which reads its target's states has; a causal LM of its own has none of them.
_HEAD_FIELDS = (
    "draft_vocab_size",
    "eagle_config",
    "eagle_aux_hidden_state_layer_ids",
    "dflash_config",
    "medusa_num_heads",
    "taps",
)
_HEAD_TENSORS = ("fc.weight", "d2t")


@dataclass(frozen=True)
class ModelSide:
    """A target or a draft. `tensors`: by name, None where nothing can be read of them; `index`: tensor -> file."""

    name: str
    folder: Path
    config: Mapping[str, Any]
    tensors: Mapping[str, Tensor] = field(default_factory=dict)
    files: Mapping[str, Path] = field(default_factory=dict)
    index: Mapping[str, str] = field(default_factory=dict)
    n_bytes: int = 0
    gguf: Path | None = None  # the file, where it is one

    def same_as(self, other: "ModelSide") -> bool:
        """Whether both are one folder or file."""
        return (self.gguf or self.folder).resolve() == (other.gguf or other.folder).resolve()

    @cached_property
    def tokens(self) -> dict[int, str]:
        """Token by id; nothing: no tokenizer that can be read without its library."""
        return numbered_tokens(self.folder) if self.gguf is None else dict(enumerate(read_vocabulary(self.gguf)))

    @cached_property
    def tokenizer_config(self) -> dict[str, Any]:
        """Nothing where there is none."""
        return _object(self.folder / "tokenizer_config.json") if self.gguf is None else {}

    @cached_property
    def template(self) -> str | None:
        """The chat template's text; nothing of it is run."""
        if self.gguf is not None:
            return read_header(self.gguf).fields.get("tokenizer.chat_template")
        with suppress(OSError, ValueError):
            return (self.folder / "chat_template.jinja").read_text(encoding="utf-8")
        template = self.tokenizer_config.get("chat_template") or _object(self.folder / "chat_template.json").get(
            "chat_template"
        )
        if isinstance(template, list):
            named = {
                named_template.get("name"): named_template.get("template")
                for named_template in template
                if isinstance(named_template, dict)
            }
            template = named.get("default", template)
        return (
            None
            if template is None
            else template
            if isinstance(template, str)
            else json.dumps(template, sort_keys=True)
        )

    def get(self, *names: str) -> Any:
        """The first of these fields that the configuration has, in its part for text or in the part of a wrapper."""
        wrapped = ("text_config", "transformer_layer_config", "eagle_config", "dflash_config")
        parts = [self.config, *(part for name in wrapped if isinstance(part := self.config.get(name), dict))]
        return next((part[name] for part in parts for name in names if part.get(name) is not None), None)

    def count(self, *names: str) -> int | None:
        """The same where it is a whole number."""
        value = self.get(*names)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    @property
    def layers(self) -> int | None:
        return self.count("num_hidden_layers", "n_layer", "num_layers")

    @property
    def width(self) -> int | None:
        return self.count("hidden_size", "n_embd")

    @property
    def is_head(self) -> bool:
        """Whether it reads its target's states and is no language model of its own."""
        return (
            any(self.config.get(name) is not None for name in _HEAD_FIELDS)
            or "speculators_config" in self.config
            or any(name.endswith(_HEAD_TENSORS) for name in self.tensors if "mtp." not in name)  # not a target's own
        )

    def tensor(self, ending: str) -> Tensor | None:
        """The tensor whose name is this, or ends in it behind a dot."""
        matching = (tensor for name, tensor in self.tensors.items() if name == ending or name.endswith("." + ending))
        return next(matching, None)

    def integers(self, tensor: Tensor) -> Sequence[int] | None:
        """The values of a small tensor of whole numbers; None: it holds others. Raises ModelError."""
        kind = _INTEGERS.get(tensor.dtype)
        if kind is None or tensor.size > _MOST_MAP:
            return None
        path = self.files[tensor.name]
        try:
            with path.open("rb") as file:
                (length,) = struct.unpack("<Q", file.read(8))
                begin, end = json.loads(file.read(length))[tensor.name]["data_offsets"]
                file.seek(8 + length + begin)
                return struct.unpack(f"<{tensor.size}{kind}", file.read(end - begin))
        except (OSError, ValueError, KeyError, TypeError, struct.error):
            raise ModelError(f"{path.name}: tensor '{model_folder.shown(tensor.name)}' cannot be read") from None


def read_side(name: str) -> ModelSide:
    """The model of a name, folder, GGUF file or hub id in the cache. Raises ModelError."""
    folder = _folder(name)
    if folder.is_file():
        return _of_gguf(name, folder)
    names = model_folder.names_in(folder)
    if "config.json" not in names:
        held = ", ".join(names[:5]) or "nothing"
        raise ModelError(f"'{model_folder.shown(name)}' has no config.json (it holds {held}); give a model's folder")
    config = model_folder.read_config(folder)
    tensors: dict[str, Tensor] = {}
    files: dict[str, Path] = {}
    n_bytes = 0
    for path in model_folder.weight_files(folder):
        n_bytes += path.stat().st_size
        for tensor in model_folder.tensors(path):
            tensors[tensor.name], files[tensor.name] = tensor, path
    return ModelSide(name, folder, config, tensors, files, _index(folder), n_bytes)


def _folder(name: str) -> Path:
    path = path_of(name)
    if path is not None and (path.is_dir() or is_gguf(path)):
        return path
    if path is not None:
        raise ModelError(f"'{model_folder.shown(name)}' is a file and no GGUF; give the model's folder")
    cached = None if model_folder.is_path(name) else cached_path(name)
    if cached is None:
        near = model_folder.suggested(name) or "; 'specviz models list' shows those that are here"
        raise ModelError(f"no model '{model_folder.shown(name)}'{near}")
    return cached


def _of_gguf(name: str, path: Path) -> ModelSide:
    """A GGUF file by its header, under the names of a configuration."""
    header = read_header(path)
    fields, prefix = header.fields, f"{header.architecture}."
    own = {key.removeprefix(prefix): value for key, value in fields.items() if key.startswith(prefix)}
    vocab = header.tokens or own.get("vocab_size")
    config: dict[str, Any] = {
        "architectures": [header.architecture],
        "num_hidden_layers": own.get("block_count"),
        "hidden_size": own.get("embedding_length"),
        "vocab_size": vocab,
        "max_position_embeddings": own.get("context_length"),
        "rope_theta": own.get("rope.freq_base"),
        "eos_token_id": fields.get("tokenizer.ggml.eos_token_id"),
        "num_nextn_predict_layers": own.get("nextn_predict_layers"),
    }
    block = {key.rpartition(".")[2]: value for key, value in own.items() if key.startswith("dflash.")}
    if block or "dflash" in header.architecture:
        layers = next((value for key, value in own.items() if key.endswith(_LAYER_IDS)), None)
        config |= {"dflash_config": {"block_size": None, **block}, "target_layer_ids": layers}
    present = {key: value for key, value in config.items() if value is not None}
    return ModelSide(name, path.parent, present, n_bytes=path.stat().st_size, gguf=path)


def _index(folder: Path) -> dict[str, str]:
    where = _object(folder / INDEX).get("weight_map")
    return {str(k): str(v) for k, v in where.items()} if isinstance(where, dict) else {}


def _object(path: Path) -> dict[str, Any]:
    with suppress(OSError, ValueError, RecursionError):
        content = json.loads(path.read_text(encoding="utf-8"))
        return content if isinstance(content, dict) else {}
    return {}


def whole_numbers(value: Any) -> Sequence[int] | None:
    """The value where it is a list of whole numbers."""
    is_list = isinstance(value, list) and all(isinstance(number, int) for number in value)
    return value if is_list else None
