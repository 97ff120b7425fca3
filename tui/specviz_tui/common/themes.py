"""The theme somebody chose last, kept beside the program's own state; `specviz tui --theme` is for one visit."""

from pathlib import Path

import platformdirs

from specviz.errors import SpecvizError


def _file() -> Path:
    return Path(platformdirs.user_state_dir("specviz")) / "theme"


def kept_theme() -> str:
    """Its name; "" where none was chosen, or the file is not readable."""
    try:
        return _file().read_text("utf-8")[:64].strip()
    except (OSError, UnicodeDecodeError):
        return ""


def keep_theme(name: str) -> None:
    """Raises SpecvizError where it cannot be written."""
    path = _file()
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.write_text(f"{name}\n", "utf-8")
    except OSError as error:
        raise SpecvizError(f"the theme is not kept: cannot write {path}: {error.strerror or error}") from error
