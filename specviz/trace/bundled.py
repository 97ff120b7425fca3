"""Traces by name: those in a folder, and those that come with the package, in the order in which they are offered."""

from functools import cache
from importlib import resources
from pathlib import Path

from specviz.trace.files import PACKED, PLAIN

# Sampled; its first rounds show both ends: all kept and a bonus, then a rejection and a resample.
FIRST = "explain-draft"
SUFFIXES = (PACKED, PLAIN, ".jsonl.gz", ".jsonl")


def trace_name(path: Path | str) -> str:
    """The display name of a trace: its file name without folder and ending."""
    name = Path(path).name
    return next((name.removesuffix(suffix) for suffix in SUFFIXES if name.endswith(suffix)), name)


def traces_in(folder: Path) -> list[Path]:
    """Traces by name, those that draft nothing last; none for a folder that is not there or cannot be read."""
    try:
        paths = [path for path in folder.iterdir() if path.name.endswith((PACKED, PLAIN))]
    except OSError:
        return []
    return sorted(paths, key=lambda path: (trace_name(path).endswith("-ar"), path.name))


def assets(folder: str) -> Path:
    """A folder of what comes with the package."""
    return Path(str(resources.files("specviz_assets"))) / folder


@cache
def bundled_traces() -> dict[str, Path]:
    """The traces that come with the package, the one that is looked at first before all others."""
    by_name = {trace_name(path): path for path in traces_in(assets("traces"))}
    return {name: by_name[name] for name in sorted(by_name, key=lambda name: name != FIRST)}
