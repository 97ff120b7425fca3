"""Making cases: each in a folder of its own, the same ones from the same seed but for the times they took."""

import shutil
import tarfile
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from specviz_lab.clinic.case import FILES, Case, fault_modules
from specviz_lab.clinic.plant import Bench


def make(cases: Sequence[Case], folder: Path, tell: Callable[[str], None]) -> None:
    """Make cases anew. A folder of a case that was there is replaced when the new one is whole."""
    for case in cases:
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="clinic-") as scratch:
            case_folder = Path(scratch) / case.name
            case_folder.mkdir()
            make_case(case, case_folder, Path(scratch))
            into = folder / case.name
            shutil.rmtree(into, ignore_errors=True)
            into.parent.mkdir(parents=True, exist_ok=True)
            shutil.copytree(case_folder, into)
        size = sum(path.stat().st_size for path in into.iterdir())
        tell(f"{case.name}  {time.monotonic() - began:4.1f} s  {size / 1000:4.0f} kB  {case.words}")


def make_case(case: Case, into: Path, scratch: Path) -> None:
    """One case."""
    module = fault_modules()[case.fault]
    bench = Bench(case.fault, case.seed, into, scratch, torch.Generator().manual_seed(1000 * case.fault + case.seed))
    (module.ill if case.ill else module.well)(bench)
    files = scratch / FILES
    if files.is_dir():
        with tarfile.open(into / f"{FILES}.tar.gz", "w:gz") as archive:
            for path in sorted(files.rglob("*")):
                archive.add(path, path.relative_to(files), recursive=False, filter=_nobody)


def _nobody(info: tarfile.TarInfo) -> tarfile.TarInfo:
    """Without owner and date, which say nothing."""
    info.uid = info.gid = info.mtime = 0
    info.uname = info.gname = ""
    return info
