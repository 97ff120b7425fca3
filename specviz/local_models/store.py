"""Our own folder of models: one folder a model, put there whole by `specviz models get`.

It lies in the user's data folder; the environment variable `SPECVIZ_MODELS` names another place. What is being fetched
lies in `.partial` beside the models and is renamed when it is whole, so that a model is there or is not.
"""

import json
import os
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

import platformdirs

from specviz import model_folder
from specviz.errors import ModelError, suggestion

VARIABLE = "SPECVIZ_MODELS"
ORIGIN, GGUF = "origin.json", "model.gguf"
_PARTIAL = ".partial"


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a stored model came from. `model`: its name in the catalogue; `sha256`: of what was fetched."""

    model: str
    source: str
    sha256: str
    licence: str
    date: str

    def write(self, folder: Path) -> None:
        """Keep it in the model's folder."""
        (folder / ORIGIN).write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")


def store() -> Path:
    """The folder that holds the models; it need not exist."""
    named = os.environ.get(VARIABLE)
    return Path(named).expanduser() if named else Path(platformdirs.user_data_dir("specviz")) / "models"


def partial(name: str) -> Path:
    """Where a model is put together before it is moved into place."""
    return store() / _PARTIAL / name


def stored() -> dict[str, Path]:
    """The models in the store by name, sorted."""
    try:
        folders = [path for path in store().iterdir() if (path / "config.json").is_file()]
    except OSError:
        return {}
    return {path.name: path for path in sorted(folders) if path.name != _PARTIAL}


def stored_folder(name: str) -> Path | None:
    """The folder of a stored model; None: there is none of that name."""
    return stored().get(name)


def stored_name(folder: Path | str) -> str | None:
    """The name under which a folder lies in the store; None: it lies elsewhere."""
    path = Path(folder)
    try:
        return path.name if path.parent.resolve() == store().resolve() and path.name in stored() else None
    except (OSError, ValueError):
        return None


def origin(folder: Path) -> Origin | None:
    """What `origin.json` of a folder says; None: there is none that can be read."""
    try:
        facts = json.loads((folder / ORIGIN).read_text(encoding="utf-8"))
        return Origin(**{name: str(facts[name]) for name in Origin.__slots__})
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def remove(name: str) -> int:
    """Delete a stored model, and what is left of fetching it; the bytes that this frees. Raises ModelError."""
    folder, rest = stored_folder(name), partial(name)
    gone = [path for path in (folder, rest) if path is not None and path.is_dir()]
    if not gone or not _is_name(name):
        known = stored()
        near = suggestion(name, known) if known else "; none is stored"
        raise ModelError(f"no stored model '{model_folder.shown(name)}'{near}")
    freed = sum(size_of(path) for path in gone)
    for path in gone:
        shutil.rmtree(path)
    return freed


def size_of(folder: Path) -> int:
    """Bytes of the files in a folder and below."""
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file())


def _is_name(name: str) -> bool:
    return Path(name).name == name and not name.startswith(".")
