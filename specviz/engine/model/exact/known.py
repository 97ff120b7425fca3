"""What the trial of exact rows found before, kept on disk: it costs a third of what loading a real model takes.

An entry is for all that decides which kernels run: processor and flags, versions, threads, settings of the libraries
of products, the model's kind, shapes and dtype, and the very source of what was tried. Of anything else nothing is
known, and the trial is made.
"""

import hashlib
import json
import os
import platform
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec
import platformdirs
import torch

from specviz.engine.model.exact.plan import PassWidths

_MOST = 200  # entries that are kept, the newest
_SETTINGS = ("MKL_", "DNNL_", "ONEDNN_", "ATEN_", "OMP_", "KMP_", "TORCH_")  # how names of variables begin
_SOURCES = ("adapter.py", "attention.py", "cache.py", "direct_layer.py", "norms.py", "rows.py")  # beside this folder's


class Found(msgspec.Struct):
    """`widths`: None where rows are not exact; `said`: what is to be said of them."""

    widths: PassWidths | None
    said: str


def key_of(facts: Any) -> str:
    """The name of an entry. `facts`: of the model, anything that is the same text in every process."""
    return hashlib.sha256(json.dumps([repr(facts), _machine()]).encode()).hexdigest()


def find(key: str) -> Found | None:
    """The entry of that name."""
    return _all().get(key)


def keep(key: str, found: Found) -> None:
    """Write an entry down. A folder that cannot be written is no error: the next process tries for itself."""
    entries = {**_all(), key: found}
    place = _place()
    with suppress(OSError):
        place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        new = place.with_suffix(f".{os.getpid()}")
        new.write_bytes(msgspec.json.encode(dict(list(entries.items())[-_MOST:])))
        new.replace(place)


def _all() -> dict[str, Found]:
    with suppress(OSError, msgspec.MsgspecError):
        return msgspec.json.decode(_place().read_bytes(), type=dict[str, Found])
    return {}


def _place() -> Path:
    return Path(platformdirs.user_cache_dir("specviz")) / "exact.json"


@cache
def _source() -> str:
    here = Path(__file__).parent
    files = [*sorted(here.glob("*.py")), *(here.parent / name for name in _SOURCES)]
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()


def _machine() -> list[Any]:
    settings = sorted(f"{name}={value}" for name, value in os.environ.items() if name.startswith(_SETTINGS))
    chip = [platform.machine(), torch.backends.cpu.get_cpu_capability(), os.cpu_count(), _processor()]
    if torch.cuda.is_available():
        chip.append(torch.cuda.get_device_name())
    return [chip, torch.__version__, version("transformers"), torch.get_num_threads(), settings, _source()]


@cache
def _processor() -> list[str]:
    """Its name and flags, where the system says them."""
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        return sorted({line for line in lines if line.startswith(("model name", "flags", "Features", "stepping"))})
    return [platform.processor()]
