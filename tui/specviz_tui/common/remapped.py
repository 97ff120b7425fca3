"""Keys of one's own: `keys.toml` in the user's configuration folder says for an action by its id which keys do it.

    "step.next" = "n"
    "quit" = "ctrl+q"
    "rejection.next" = "r,right_curly_bracket"

Bindings, footer and help follow. What cannot be meant is told in a line: the file, the id, the nearest right one.
"""

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import platformdirs
from textual.keys import Keys, format_key, key_to_character

from specviz.errors import SpecvizError, suggestion
from specviz_tui.common.key_tables import key_tables
from specviz_tui.common.keymap import Key

_MODIFIERS = ("ctrl", "shift", "alt", "super")
_NAMED = {str(key.value) for key in Keys}


def keys_file() -> Path:
    """Where it is looked for."""
    return Path(platformdirs.user_config_dir("specviz")) / "keys.toml"


def own_keys(path: Path | None = None) -> dict[str, str]:
    """Keys by the id of their action; nothing where there is no such file. Raises SpecvizError."""
    path = path or keys_file()
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise SpecvizError(f"cannot read {path}: {error}") from None
    try:
        keys = dict(_flat(tomllib.loads(text)))
    except tomllib.TOMLDecodeError as error:
        raise SpecvizError(f'{path}: {error}; write lines as in "step.next" = "n"') from None
    checked = {name: _checked(path, name, value) for name, value in keys.items()}
    _refuse_clashes(path, checked)
    return checked


def _flat(table: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """`step.next = "n"` without quotes is a table in TOML; it means the same."""
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{before}{name}.")
        else:
            yield before + name, value


def _checked(path: Path, name: str, value: Any) -> str:
    ids = {key.id: None for table in key_tables() for key in table}
    if name not in ids:
        raise SpecvizError(f"{path}: no action '{name}'{suggestion(name, ids)} (docs/screens/terminal.md lists them)")
    if not isinstance(value, str) or not value.strip():
        raise SpecvizError(f'{path}: {name} takes keys as a text, as in "n" or "ctrl+n,f5"; not {value!r}')
    keys = [part.strip() for part in value.split(",")]
    for key in keys:
        *modifiers, last = key.split("+") if len(key) > 1 else [key]
        named = len(last) == 1 or last in _NAMED or key_to_character(last) is not None
        if not named or any(word not in _MODIFIERS for word in modifiers):
            near = suggestion(last, dict.fromkeys(sorted(_NAMED)))
            raise SpecvizError(f"{path}: {name}: no key '{key}'{near}; a character, or a name as in ctrl+n, f5, comma")
    return ",".join(keys)


def _refuse_clashes(path: Path, own: Mapping[str, str]) -> None:
    """Two actions that hold at the same time cannot have one key."""
    for table in key_tables():
        taken: dict[str, str] = {}
        for key in remapped(table, own):
            for name in map(_printed, key.keys.split(",")):
                if name in taken and {key.id, taken[name]} & set(own):
                    raise SpecvizError(
                        f"{path}: '{name}' is both {taken[name]} and {key.id}; give one of them another key"
                    )
                taken[name] = key.id


def remapped(table: Iterable[Key], own: Mapping[str, str]) -> tuple[Key, ...]:
    """The keys as they are with these; footer and help print them."""
    return tuple(replace(key, keys=own[key.id], caps=caps(own[key.id])) if key.id in own else key for key in table)


def caps(keys: str) -> str:
    """`n f5` for `n,f5`."""
    return " ".join(_printed(name) for name in keys.split(","))


def _printed(name: str) -> str:
    return name if len(name) == 1 else format_key(name).replace("ctrl+", "^")
