"""Model folders as files: what one holds, said without torch and without reading a weight.

Whatever a name or a file can be wrong about (no permission, a name too long, a pipe in place of a file, headers and
configs of the wrong shape or nested without end) ends in a ModelError of one line. Nothing here waits for a file that
is none, and nothing is run.
"""

import json
import os
import re
import stat
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, Literal

from specviz.errors import ModelError, nearest

Kind = Literal["folder", "file", "nothing"]

MOST_HEADER = 100_000_000  # bytes: the format's own limit
MOST_CONFIG = 16_000_000  # bytes; the largest real ones have some 100 kB
LAYERS = ("num_hidden_layers", "n_layer", "num_layers")
_WIDTHS = ("hidden_size", "n_embd", "intermediate_size", "num_attention_heads", "n_head", "num_key_value_heads")
_SIZES = (*_WIDTHS, "head_dim", "vocab_size")
# Of a config, at least 1 where they are named.
WHOLE_NUMBERS = (*LAYERS, *_SIZES, "max_position_embeddings", "n_positions")
_PACKED = 16  # weights in a whole number, where a file stores several of them in one
# Of the decoder of text; layers of an encoder beside it have their own numbers.
_LAYER = re.compile(
    r"(?:(?:model|language_model|transformer|gpt_neox|backbone|decoder)\.)*(?:layers|h|blocks)\.(\d+)\."
)
_LOOKED_AT = 400  # entries of a folder, in a search for the nearest name


@dataclass(frozen=True, slots=True)
class Tensor:
    """One entry of a safetensors header. `dtype` as the format names it: F32, BF16, I8, BOOL .."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Its number of entries."""
        return prod(self.shape)


def shown(name: object) -> str:
    """Somebody else's text, short enough for a line of ours."""
    text = " ".join(str(name).split())
    return text if len(text) <= 120 else f"{text[:100]}… ({len(text)} characters)"


def line(text: str, most: int = 300) -> str:
    """A report of the library's, whatever lines it has, as one."""
    text = " ".join(text.split())
    return text if len(text) <= most else f"{text[: most - 2]} …"


def line_of(error: Exception) -> str:
    """What an error says, as one line; its kind where it says nothing."""
    return line(str(error).strip() or type(error).__name__)


def kind_of(name: str | Path) -> Kind:
    """Whether a path is a folder, a file, or nothing. Raises ModelError where the system refuses to look it up."""
    try:
        mode = os.stat(name).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return "nothing"
    except OSError as error:
        raise ModelError(f"'{shown(name)}' cannot be looked at: {error.strerror or error}") from None
    except ValueError:
        raise ModelError(f"'{shown(name)}' is no name: it holds a zero byte") from None
    return "folder" if stat.S_ISDIR(mode) else "file"


def is_path(name: str) -> bool:
    """Whether it can only be a place here, and no hub id, whatever stands there."""
    return Path(name).is_absolute() or name.startswith((".", "~")) or name.count("/") > 1 or name.endswith("/")


def layer_of(tensor: str) -> int | None:
    """The layer, from 0, that a tensor of this name belongs to; None: to none."""
    match = _LAYER.match(tensor)
    return None if match is None else int(match[1])


def names_in(folder: Path) -> list[str]:
    """The names in a folder, sorted. Raises ModelError for a folder that cannot be read, and for a pipe or device in
    it: a reader would wait for it."""
    try:
        with os.scandir(folder) as scanned:
            entries = sorted(scanned, key=lambda entry: entry.name)
        odd = [entry.name for entry in entries if _is_odd(entry)]
    except OSError as error:
        raise ModelError(f"folder '{shown(folder)}' cannot be read: {error.strerror or error}") from None
    if odd:
        raise ModelError(f"'{shown(odd[0])}' in '{shown(folder)}' is a pipe, socket or device, not a file: remove it")
    return [entry.name for entry in entries]


def _is_odd(entry: "os.DirEntry[str]") -> bool:
    try:
        mode = entry.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return False  # a dangling link: code that needs the file reports it
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def weight_files(folder: Path) -> list[Path]:
    """Its safetensors files. Raises ModelError when one is a folder."""
    weight_paths = [folder / name for name in names_in(folder) if name.endswith(".safetensors")]
    for path in weight_paths:
        if kind_of(path) != "file":
            what = "a folder" if kind_of(path) == "folder" else "a link to nothing"
            raise ModelError(f"'{shown(path.name)}' in '{shown(folder)}' is {what}, not a safetensors file")
    return weight_paths


def tensors(path: Path) -> list[Tensor]:
    """The entries of a safetensors header: its length in 8 bytes, then JSON. Raises ModelError."""
    try:
        with path.open("rb") as stream:
            (length,) = struct.unpack("<Q", stream.read(8))
            if length > MOST_HEADER:
                raise ValueError
            header = json.loads(stream.read(length))
    except (struct.error, ValueError, MemoryError, OverflowError):
        raise ModelError(f"{shown(path.name)} is no safetensors file, or is cut short") from None
    except RecursionError:
        raise ModelError(f"{shown(path.name)} is no safetensors file: its header is nested without end") from None
    except OSError as error:
        raise ModelError(f"{shown(path.name)} cannot be read: {error.strerror or error}") from None
    if not isinstance(header, dict):
        raise ModelError(f"{shown(path.name)} is no safetensors file: its header is {_kind(header)}, not an object")
    return [_tensor(path, name, entry) for name, entry in header.items() if name != "__metadata__"]


def _tensor(path: Path, name: str, entry: Any) -> Tensor:
    def wrong(what: str) -> ModelError:
        return ModelError(f"{shown(path.name)} is no safetensors file: tensor '{shown(name)}' {what}")

    if not isinstance(entry, dict):
        raise wrong(f"is {_kind(entry)}, not an object")
    shape, dtype = entry.get("shape"), entry.get("dtype")
    if not isinstance(shape, list) or not all(_is_whole(size, 0) for size in shape):
        raise wrong(f"has {'the shape ' + shown(repr(shape)) if 'shape' in entry else 'no shape'}")
    if not isinstance(dtype, str):
        raise wrong("has no dtype")
    return Tensor(name, dtype, tuple(shape))


def read_config(folder: Path) -> dict[str, Any]:
    """`config.json` of a model folder: an object whose counts are counts. Raises ModelError."""
    path = folder / "config.json"
    where = f"{shown(folder.name)}/config.json"
    config = read_object(path, "is no model configuration: ")
    text = config.get("text_config")
    if text is not None and not isinstance(text, dict):
        raise ModelError(f"{where} is no model configuration: its text_config is {_kind(text)}, not an object")
    for fields in (config, text or {}):
        _check_counts(fields, where)
    return config


def read_object(path: Path, what: str = "cannot be used: ", most: int = MOST_CONFIG) -> dict[str, Any]:
    """A JSON object of a model's folder, not nested too deeply for the library. Raises ModelError, which says `what`
    it is not."""
    where = f"{shown(path.parent.name)}/{path.name}"
    try:
        if path.stat().st_size > most:
            raise ModelError(f"{where} {what}it has {path.stat().st_size:,} bytes")
        content = json.loads(path.read_text(encoding="utf-8"))
    except RecursionError:
        raise ModelError(f"{where} {what}it is nested without end") from None
    except ValueError as error:
        raise ModelError(f"{where} {what}{path.name} is not JSON: {shown(error)}") from None
    except OSError as error:
        raise ModelError(f"{where} cannot be read: {error.strerror or error}") from None
    if not isinstance(content, dict):
        raise ModelError(f"{where} {what}it is {_kind(content)}, not an object")
    _check_depth(content, f"{where} {what}")
    return content


def _check_depth(value: Any, where: str, most: int = 64) -> None:
    """The library walks and copies a config by recursion; ours is a loop."""
    level = [value]
    for _ in range(most):
        level = [child for parent in level for child in _children(parent)]
        if not level:
            return
    raise ModelError(f"{where}it is nested more than {most} deep")


def _children(value: Any) -> Iterator[Any]:
    return iter(value.values() if isinstance(value, dict) else value if isinstance(value, list) else ())


def _check_counts(fields: dict[str, Any], where: str) -> None:
    for name in WHOLE_NUMBERS:
        value = fields.get(name)
        # Some families have a list of them, one a layer.
        counts = value if isinstance(value, list) else [] if value is None else [value]
        for number in counts:
            if not _is_whole(number, 1):
                raise ModelError(f"{where}: {name} is {shown(repr(number))}; give a whole number of at least 1")


def _is_whole(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value < 1 << 48


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a string", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")


ADAPTER = "adapter_config.json"
BORROWS = "drafts_for.json"  # in a draft model's folder: its embedding and head are its target's
GENERATION = "generation_config.json"
WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
_NO_TEXT = re.compile(r"Classification|QuestionAnswering|MultipleChoice|RewardModel")


def check(path: Path) -> None:
    """Raises ModelError unless the folder holds a causal LM whose weights may be opened; no weight is read."""
    names = names_in(path)
    if "config.json" not in names:
        held = ", ".join(names[:5]) or "nothing"
        what = "; it is an adapter alone: merge it into its model first" if ADAPTER in names else ""
        files = [name for name in names if name.endswith(".gguf")]
        if files:
            what = f"; give the GGUF file itself: {shown(path / files[0])}"
        raise ModelError(
            f"no config.json in it (it holds {held}){what or '; give a folder that save_pretrained wrote'}"
        )
    config = read_config(path)
    if not isinstance(config.get("model_type"), str):
        raise ModelError(f"{path.name}/config.json is no model configuration: it names no model_type")
    if ADAPTER in names:
        raise ModelError(
            f"it holds an adapter ({ADAPTER}) beside a model, and only one of them can be meant: merge the adapter "
            "and save the model, or move the adapter's files away"
        )
    classes = config.get("architectures")
    odd = (
        [architecture for architecture in classes if _NO_TEXT.search(str(architecture))]
        if isinstance(classes, list)
        else []
    )
    if odd:
        raise ModelError(f"it holds a {shown(odd[0])}, which has no language head: give a causal LM")
    weights = weight_files(path)
    if not weights:
        pickled = any(name.endswith((".bin", ".pt")) for name in names)
        why = (
            "its weights are pickled, which is never opened here: save them with safe_serialization"
            if pickled
            else "no weights"
        )
        raise ModelError(f"no .safetensors file in it ({why})")
    stored = [tensor for file in weights for tensor in tensors(file)]
    for tensor in stored:
        if tensor.dtype == "C64" and tensor.name.endswith(("weight", "bias")):
            raise ModelError(f"tensor '{shown(tensor.name)}' is stored as C64: weights are real numbers")
    _refuse_larger(config, stored, BORROWS in names)
    _check_index(path, names)
    if GENERATION in names:
        ends = read_object(path / GENERATION).get("eos_token_id")
        if not all(_is_whole(end, -1) for end in (ends if isinstance(ends, list) else [] if ends is None else [ends])):
            raise ModelError(f"{GENERATION}: eos_token_id is {shown(repr(ends))}; give a token's id, or a list of ids")


def _refuse_larger(config: dict[str, Any], held: list[Tensor], borrows: bool) -> None:
    """Raises ModelError for a config that asks for far more than the weights are: building it takes all memory.

    Every layer has a tensor, and every width is a side of one. `borrows`: embedding and head lie elsewhere.
    """
    parts = [config, *(part for name, part in config.items() if name.endswith("_config") and isinstance(part, dict))]
    for part in parts:
        for name in LAYERS:
            if (size := _largest(part.get(name))) > len(held):
                raise ModelError(
                    f"config.json: {name} is {size:,}, and the weight files hold {len(held):,} tensors in all: "
                    "mend it, or save the model again"
                )
    packed = _PACKED if any(not tensor.dtype.startswith(("F", "BF")) for tensor in held) else 1
    widest = max((side for tensor in held for side in tensor.shape), default=0)
    for part in () if borrows else (config, config.get("text_config") or {}):
        for name in _SIZES:
            if (size := _largest(part.get(name))) > packed * widest:
                raise ModelError(
                    f"config.json: {name} is {size:,}, and the largest side of a tensor in the weight files is "
                    f"{widest:,}: mend it, or save the model again"
                )


def _largest(value: Any) -> int:
    return max(
        (number for number in (value if isinstance(value, list) else [value]) if _is_whole(number, 1)), default=0
    )


def _check_index(folder: Path, names: list[str]) -> None:
    """Raises ModelError for an index of another shape than the format's, where it is what names the weight files."""
    if INDEX in names and WEIGHTS not in names:
        where = read_object(folder / INDEX, most=MOST_HEADER).get("weight_map")
        if not isinstance(where, dict) or not all(isinstance(file, str) for file in where.values()):
            raise ModelError(f"{INDEX} has no weight_map that names a file for each tensor: save the model again")


def nearest_folder(name: str) -> str | None:
    """The model folder whose path is closest to one that is not there; None when nothing is close.

    Looked for beside it, and in folders named nearly like its own.
    """
    path = Path(name)
    parents = [path.parent, *(p for p in _folders(path.parent.parent) if p != path.parent)]
    known = [str(folder) for parent in parents[:20] for folder in _folders(parent) if _is_model(folder)]
    close = nearest(str(path), (folder for folder in known if folder != str(path)))
    return close if close is not None and _is_close(str(path), close) else None


def _is_close(word: str, other: str) -> bool:
    from difflib import SequenceMatcher

    return SequenceMatcher(None, word.lower(), other.lower()).ratio() >= 0.7


def _folders(parent: Path) -> list[Path]:
    folders: list[Path] = []
    try:
        with os.scandir(parent) as entries:
            for number, entry in enumerate(entries):
                if number >= _LOOKED_AT:
                    break
                if entry.is_dir():
                    folders.append(parent / entry.name)
    except (OSError, ValueError):
        pass
    return sorted(folders)


def _is_model(folder: Path) -> bool:
    try:
        return (folder / "config.json").is_file()
    except OSError:
        return False


def suggested(name: str) -> str:
    """`"; did you mean 'pair/target'?"` of a name that is not there, or nothing."""
    close = nearest_folder(name)
    return f"; did you mean '{close}'?" if close else ""
