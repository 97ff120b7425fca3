"""Which methods can run with a target, by the folders that lie with it. Files are looked for, nothing is loaded.

Whether a part there was made for these very weights only the loaded model tells: the catalogue of a worker says so.
"""

from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

from specviz.methods import Method, Part, all_methods


def lacking(target: str | None = None) -> dict[str, str]:
    """Of every method that cannot run with this target, the embedded one by default, the line that makes its part."""
    return {m.name: _line(m, m.part, target) for m in all_methods().values() if m.part and _lacks(m.part, target)}


def rows(target: str | None = None) -> list[tuple[str, str]]:
    """The same as lines of a section: those that run in one, then the others with what they lack."""
    missing = lacking(target)
    able = [method for method in all_methods().values() if method.name not in missing]
    need = [m.name for m in able if m.needs_draft]
    plain = ", ".join(m.name for m in able if not m.needs_draft)
    if target is None:  # a draft model is embedded too
        return [("run", ", ".join(m.name for m in able)), *missing.items()]
    return [("run", plain), ("with --draft", ", ".join(need)), *missing.items()]


def _line(method: Method, part: Part, target: str | None) -> str:
    there = part.on is not None and not _lacks(part.on, target)
    named = "" if target is not None or there else f", then give --{part.knob} {part.beside}"
    return f"not here, no {part.what}: {part.command(target, True, there)}{named}"


def _lacks(part: Part, target: str | None) -> bool:
    return not any((folder / part.beside / part.file).is_file() for folder in _folders(target))


def _folders(target: str | None) -> list[Path | Traversable]:
    """Where parts of it may lie; those of the embedded target lie beside it, whatever it was called."""
    pair = resources.files("specviz_assets") / "models" / "pair"
    own = [] if target is None else [Path(target)]
    return [*own, pair] if target is None or Path(target).resolve() == Path(str(pair / "target")).resolve() else [*own]
