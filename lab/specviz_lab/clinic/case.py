"""A case: one planted fault, or its healthy twin, as the evidence that a user of an engine would have of it.

A case is a folder. `run` is the recording that is judged; `plain` the same prompts without drafts, `files.tar.gz` the
folders of target and draft, `serve.txt` the command line, each where the fault calls for it.
"""

import importlib
import pkgutil
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Protocol

from specviz.check.findings import FAULTS
from specviz.errors import SpecvizError
from specviz.trace.bundled import assets

FILES, SERVE = "files", "serve.txt"
SEEDS = (0, 1, 2)  # recorded; a case of another seed shows what was fitted to these
_NAME = re.compile(r"(\d\d)-(ill|well)-(\d{1,6})")


class FaultModule(Protocol):
    """A module of `specviz_lab.clinic.faults`: how the run is disturbed, and how its healthy twin runs.

    `PLANT`: by what means it is planted, in a line.
    """

    FAULT: int
    PLANT: str

    def ill(self, bench: "object") -> None:
        """Make the planted case in a bench."""

    def well(self, bench: "object") -> None:
        """Make its healthy twin."""


@dataclass(frozen=True, slots=True)
class Case:
    """`fault` 1 to 16; `ill`: planted, else its healthy twin."""

    fault: int
    seed: int
    ill: bool

    @property
    def name(self) -> str:
        """Of its folder."""
        return f"{self.fault:02d}-{'ill' if self.ill else 'well'}-{self.seed}"

    @property
    def words(self) -> str:
        """For people."""
        return FAULTS[self.fault - 1] if self.ill else f"the healthy twin of: {FAULTS[self.fault - 1]}"

    @property
    def sets(self) -> bool:
        """Whether thresholds may be set on it: on half of the seeds, other ones for every other fault."""
        return (self.fault + self.seed) % 2 == 0


@cache
def fault_modules() -> dict[int, FaultModule]:
    """The plants by fault number, as their files tell it."""
    from specviz_lab.clinic import faults

    names = sorted(module.name for module in pkgutil.iter_modules(faults.__path__))
    modules: list[FaultModule] = [importlib.import_module(f"{faults.__name__}.{name}") for name in names]
    return {module.FAULT: module for module in sorted(modules, key=lambda module: module.FAULT)}


def wanted_cases(fault: int | None, seed: int | None) -> list[Case]:
    """Planted and healthy, in order. Raises SpecvizError for a fault that has no plant."""
    known = fault_modules()
    if fault is not None and fault not in known:
        raise SpecvizError(f"--fault {fault}: there is no plant of it; there are {', '.join(map(str, known))}")
    faults = [fault] if fault is not None else list(known)
    seeds = [seed] if seed is not None else list(SEEDS)
    return [Case(n, s, ill) for n in faults for s in seeds for ill in (True, False)]


def usual_folders() -> list[Path]:
    """Where the recorded cases lie: one of every fault in the package, the others in a checkout beside it."""
    package = assets("clinic")
    checkout = package.parents[2] / "benchmarks" / "clinic"
    return [folder for folder in (package, checkout) if folder.is_dir()]


def cases_in(folder: Path) -> Iterator[tuple[Case, Path]]:
    """Those that were made there, of whichever seeds, in order."""
    named = ((_NAME.fullmatch(path.name), path) for path in folder.iterdir() if path.is_dir())
    cases = [(Case(int(name[1]), int(name[3]), name[2] == "ill"), path) for name, path in named if name is not None]
    yield from sorted(cases, key=lambda entry: (entry[0].fault, entry[0].seed, not entry[0].ill))
