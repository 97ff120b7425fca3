"""Sets of knob values by name, kept beside the program's own state: one small file for all methods."""

from pathlib import Path
from typing import Any

import msgspec
import platformdirs

from specviz.errors import SpecvizError

Presets = dict[str, dict[str, Any]]  # knob values by the name of the set
MOST_BYTES = 1 << 20  # of a file that is read: sets made by hand, or not ours


def preset_file() -> Path:
    """Where they are kept."""
    return Path(platformdirs.user_state_dir("specviz")) / "presets.json"


def kept_presets(method: str) -> Presets:
    """The sets of a method; none where there are none, or where the file is no such table."""
    return _all().get(method, {})


def keep_preset(method: str, name: str, values: dict[str, Any]) -> None:
    """Keep a set, in place of one of the same name. Raises SpecvizError where it cannot be written."""
    every = _all()
    every.setdefault(method, {})[name] = values
    path = preset_file()
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.write_bytes(msgspec.json.format(msgspec.json.encode(every), indent=2))
    except OSError as error:
        raise SpecvizError(f"the set is not kept: cannot write {path}: {error.strerror or error}") from error


def _all() -> dict[str, Presets]:
    try:
        with preset_file().open("rb") as file:
            return msgspec.json.decode(file.read(MOST_BYTES), type=dict[str, Presets])
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return {}
