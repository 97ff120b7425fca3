"""The models that lie on this machine, wherever: our store, the hub's cache, LM Studio's and Ollama's folders.

Each has a name that `--target` and `--draft` take. Configurations, tokenizers and headers are read, no weights; what
cannot be used is listed with the reason. Layouts: the hub's `models--owner--name/snapshots/REVISION`, LM Studio's
`models/PUBLISHER/REPOSITORY/FILE.gguf`, Ollama's `manifests/HOST/SPACE/MODEL/TAG` that name `blobs/sha256-…`.
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from specviz import model_folder
from specviz.errors import ModelError
from specviz.local_models import gguf_header
from specviz.local_models.catalogue import KNOWN, brought_draft
from specviz.local_models.store import stored
from specviz.local_models.vocabulary import vocabulary_of

OLLAMA, LM_STUDIO = "ollama:", "lmstudio:"
_MOST = 200  # models of a place
_WEIGHTS = "application/vnd.ollama.image.model"
_OURS = ("registry.ollama.ai", "library")  # what Ollama's own names leave out


@dataclass(frozen=True, slots=True)
class LocalModel:
    """A model and where it lies. `name`: as a command line takes it; `path`: a folder, or a GGUF file.

    `bytes`: of its weights; `vocabulary`: a hash of its tokens in order, None: not known; `chat`: it has a template;
    `problem`: why it cannot be used.
    """

    name: str
    place: str
    path: Path
    architecture: str = "?"
    bytes: int = 0
    tokens: int | None = None
    vocabulary: str | None = None
    chat: bool = False
    problem: str | None = None


def local_models() -> list[LocalModel]:
    """Everything found, our own first."""
    return [_described(name, place, path) for name, place, path in _everything()]


def local_path(name: str) -> Path | None:
    """Where a model of that name lies; None: there is none here."""
    if not name.startswith((OLLAMA, LM_STUDIO)):
        return stored().get(name) or brought().get(name)
    return next((path for known, _, path in _everything() if known == name), None)


def cached_path(hub_id: str) -> Path | None:
    """The newest snapshot of a hub id in the hub's cache; None: it was never fetched."""
    return dict(_first(_hub())).get(hub_id)


def embedded_pair() -> Path:
    """The folder of the embedded target and draft model, and of the parts made for them."""
    return Path(str(files("specviz_assets"))) / "models" / "pair"


def brought() -> dict[str, Path]:
    """The draft models that installed packages bring for known models, by name."""
    folders = {name: model.parts.folder() for name, model in KNOWN.items() if model.parts is not None}
    drafts = {brought_draft(name): folder / "draft" for name, folder in folders.items() if folder is not None}
    return {name: path for name, path in drafts.items() if (path / "config.json").is_file()}


def other_names() -> list[str]:
    """The names of models that are no folder and no hub id."""
    return [*(name for name, place, _ in _everything() if place != "hub cache"), *brought()]


def pairs(models: list[LocalModel]) -> list[tuple[LocalModel, LocalModel]]:
    """Target and draft model that share a vocabulary, the target the larger one."""
    able = [model for model in models if model.vocabulary and not model.problem]
    return [(a, b) for a in able for b in able if a.vocabulary == b.vocabulary and a.bytes > 1.5 * b.bytes]


def _everything() -> Iterator[tuple[str, str, Path]]:
    yield from ((name, "store", path) for name, path in stored().items())
    yield from ((name, "hub cache", path) for name, path in _first(_hub()))
    yield from ((name, "LM Studio", path) for name, path in _first(_lm_studio()))
    yield from ((name, "Ollama", path) for name, path in _first(_ollama()))


def _first(models: Iterator[tuple[str, Path]]) -> list[tuple[str, Path]]:
    """At most so many, in order; a folder that cannot be read ends them."""
    out: list[tuple[str, Path]] = []
    with suppress(OSError, ValueError):
        for model in models:
            out.append(model)
            if len(out) >= _MOST:
                break
    return out


def _hub() -> Iterator[tuple[str, Path]]:
    caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    home = Path(os.environ.get("HF_HOME") or Path(caches) / "huggingface").expanduser()
    cache = Path(os.environ.get("HF_HUB_CACHE") or home / "hub").expanduser()
    for folder in sorted(cache.glob("models--*")):
        name = folder.name.removeprefix("models--").replace("--", "/")
        newest = _revision(folder)
        if newest is not None and any(newest.glob("*.safetensors")):
            yield name, newest


def _revision(folder: Path) -> Path | None:
    """The snapshot that `main` names, or the newest one."""
    with suppress(OSError):
        named = folder / "snapshots" / (folder / "refs" / "main").read_text().strip()
        if (named / "config.json").is_file():
            return named
    there = [path for path in (folder / "snapshots").glob("*") if (path / "config.json").is_file()]
    return max(there, key=lambda path: path.stat().st_mtime, default=None)


def _lm_studio() -> Iterator[tuple[str, Path]]:
    for root in (_lm_studio_home() / "models", Path.home() / ".cache" / "lm-studio" / "models"):
        for path in sorted(root.glob("*/*/*.gguf")):
            if not path.name.startswith("mmproj"):
                yield LM_STUDIO + "/".join(path.relative_to(root).parts).removesuffix(".gguf"), path


def _lm_studio_home() -> Path:
    with suppress(OSError, UnicodeDecodeError):
        return Path((Path.home() / ".lmstudio-home-pointer").read_text().strip())
    return Path.home() / ".lmstudio"


def _ollama() -> Iterator[tuple[str, Path]]:
    named = os.environ.get("OLLAMA_MODELS")
    homes = (
        [Path(named).expanduser()]
        if named
        else [Path.home() / ".ollama/models", Path("/usr/share/ollama/.ollama/models")]
    )
    for root in homes:
        manifests = root / "manifests"
        for path in sorted(manifests.glob("*/*/*/*")):
            blob = _blob(path, root)
            if blob is not None:
                host, space, model, tag = path.relative_to(manifests).parts
                before = "" if (host, space) == _OURS else f"{space}/" if host == _OURS[0] else f"{host}/{space}/"
                yield f"{OLLAMA}{before}{model}:{tag}", blob


def _blob(manifest: Path, root: Path) -> Path | None:
    """The file of weights that a manifest names; None: it names none, or it is not there."""
    try:
        facts = json.loads(manifest.read_text(encoding="utf-8"))
        digest = next(str(layer["digest"]) for layer in facts["layers"] if layer.get("mediaType") == _WEIGHTS)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, StopIteration, RecursionError):
        return None
    kind, _, value = digest.partition(":")
    blob = root / "blobs" / f"{kind}-{value}"
    return blob if kind.isalnum() and value.isalnum() and blob.is_file() else None


def _described(name: str, place: str, path: Path) -> LocalModel:
    try:
        facts = _of_folder(path) if path.is_dir() else _of_file(path)
        return LocalModel(name, place, path, **facts)
    except (ModelError, OSError) as error:
        return LocalModel(name, place, path, problem=model_folder.line_of(error))


def _of_folder(path: Path) -> Mapping[str, Any]:
    model_folder.check(path)
    config = model_folder.read_config(path)
    tokens, vocabulary = vocabulary_of(path)
    return {
        "architecture": model_folder.shown(config.get("model_type", "?")),
        "bytes": sum(file.stat().st_size for file in model_folder.weight_files(path)),
        "tokens": tokens,
        "vocabulary": vocabulary,
        "chat": has_template(path),
    }


def _of_file(path: Path) -> Mapping[str, Any]:
    header = gguf_header.read_header(path)
    return {
        "architecture": header.architecture,
        "bytes": path.stat().st_size,
        "tokens": header.tokens,
        "vocabulary": header.vocabulary,
        "chat": header.template,
    }


def has_template(path: Path) -> bool:
    """Whether a model's folder or file brings a chat template; nothing of it is run."""
    if not path.is_dir():
        return gguf_header.read_header(path).template
    if (path / "chat_template.jinja").is_file() or (path / "chat_template.json").is_file():
        return True
    with suppress(OSError, ValueError, RecursionError):
        config = json.loads((path / "tokenizer_config.json").read_text(encoding="utf-8"))
        return isinstance(config, dict) and bool(config.get("chat_template"))
    return False
