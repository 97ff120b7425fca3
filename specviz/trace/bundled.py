"""Traces by name: those in a folder, and those that come with the package, in the order in which they are offered."""

import tomllib
from dataclasses import dataclass
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


@cache
def all_bundled() -> dict[str, Path]:
    """Every recording that comes along, by its name: those listed, then those of lessons and papers' pages alone."""
    return {**bundled_traces(), **{trace_name(path): path for path in traces_in(assets("lessons"))}}


@dataclass(frozen=True, slots=True)
class RecordingAbout:
    """What a recording that comes with the package is there for.

    `look`: what to look for, at the round `at` where it is one; `why`: of one slower than plain decoding, by what.
    """

    title: str
    look: str
    at: str = ""
    why: str = ""

    @property
    def words(self) -> str:
        """`look for r3: the first guess that dies`; why it loses behind it."""
        where = f"look for {self.at}: {self.look}" if self.at else f"look for: {self.look}"
        return f"{where}. Slower than plain decoding here: {self.why}" if self.why else where


@cache
def bundled_abouts() -> dict[Path, RecordingAbout]:
    """What is told of those that come with the package, by their file."""
    by_name = tomllib.loads((assets("traces") / "about.toml").read_text(encoding="utf-8"))
    return {path: RecordingAbout(**by_name[name]) for name, path in bundled_traces().items() if name in by_name}
