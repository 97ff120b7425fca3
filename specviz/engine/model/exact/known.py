"""What was found out about a machine before, kept on disk: the trial of exact rows takes a third of what loading a real
model does.

An entry is for all that decides which kernels run: the machine, settings of the libraries of products, the model's
kind, shapes and dtype, and the very source of what was tried. Of anything else nothing is known: the trial is made.
"""

import hashlib
import json
import os
import platform
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec
import platformdirs
import torch

from specviz.engine.model.exact.plan import BatchWidths
from specviz.engine.processor import processor

KeptT = TypeVar("KeptT")
_MOST = 200  # entries that are kept, the newest
_SETTINGS = ("MKL_", "DNNL_", "ONEDNN_", "ATEN_", "OMP_", "KMP_", "TORCH_", "CC")  # how names of variables begin
_SOURCES = (
    "adapter.py",
    "backend.py",
    "cache.py",
    "rows.py",
    "layers/attention.py",
    "layers/direct_layer.py",
    "layers/norms.py",
    "layers/hooked.py",
)


def key_of(device: torch.device, model: Any) -> str:
    """The name of an entry. `model`: its facts, anything that is the same text in every process."""
    settings = sorted(f"{name}={value}" for name, value in os.environ.items() if name.startswith(_SETTINGS))
    words = [repr(model), _chip(device), version("transformers"), settings, _source()]
    return hashlib.sha256(json.dumps(words).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Kept(Generic[KeptT]):
    """Entries of one kind by their names, in a file of the user's cache."""

    file: str
    kind: type[KeptT]

    def find(self, key: str) -> KeptT | None:
        """That entry."""
        return self._entries().get(key)

    def keep(self, key: str, entry: KeptT) -> None:
        """Write an entry down. A folder that cannot be written is no error: the next process finds out for itself."""
        known = {name: earlier for name, earlier in self._entries().items() if name != key}
        place = self._place()
        with suppress(OSError):
            place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            new = place.with_suffix(f".{os.getpid()}")
            new.write_bytes(msgspec.json.encode(dict([*known.items(), (key, entry)][-_MOST:])))
            new.replace(place)

    def _entries(self) -> dict[str, KeptT]:
        """All that are kept; none where the file is not one of those."""
        with suppress(OSError, msgspec.MsgspecError):
            return msgspec.json.decode(self._place().read_bytes(), type=dict[str, self.kind])  # type: ignore[name-defined]
        return {}

    def _place(self) -> Path:
        return Path(platformdirs.user_cache_dir("specviz")) / self.file


WIDTHS = Kept("exact.json", BatchWidths)


def _chip(device: torch.device) -> str:
    """What computes there, with the versions and threads that it computes with, and no name of the machine."""
    if device.type == "cuda":
        own = [torch.cuda.get_device_name(device)]
    else:
        own = [platform.machine(), torch.backends.cpu.get_cpu_capability(), str(os.cpu_count()), *processor()]
    return json.dumps([own, torch.get_num_threads(), torch.__version__])


@cache
def _source() -> str:
    here = Path(__file__).parent
    ours = (*here.glob("*.py"), *(here.parent / "compiled").glob("*.[chp]*"))
    files = [*sorted(file for file in ours if file.is_file()), *(here.parent / name for name in _SOURCES)]
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()
