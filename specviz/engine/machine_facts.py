"""What was found out about this machine, kept on disk from process to process, and what makes it this machine."""

import json
import os
import platform
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import msgspec
import platformdirs
import torch

from specviz.engine.processor import processor

FactT = TypeVar("FactT")
_MOST = 200  # facts of a kind that are kept, the newest


def chip(device: torch.device) -> str:
    """What computes there, with the versions and threads that it computes with, and no name of the machine."""
    if device.type == "cuda":
        own = [torch.cuda.get_device_name(device)]
    else:
        own = [platform.machine(), torch.backends.cpu.get_cpu_capability(), str(os.cpu_count()), *processor()]
    return json.dumps([own, torch.get_num_threads(), torch.__version__])


def facts(kind: str, of: type[FactT]) -> dict[str, FactT]:
    """All that is kept of a kind, by key; nothing where the file is not one of those."""
    with suppress(OSError, msgspec.MsgspecError):
        return msgspec.json.decode(_place(kind).read_bytes(), type=dict[str, of])  # type: ignore[valid-type]
    return {}


def keep_fact(kind: str, key: str, fact: FactT) -> None:
    """Write one down. A folder that cannot be written is no error: the next process finds out for itself."""
    known = {name: each for name, each in facts(kind, type(fact)).items() if name != key}
    place = _place(kind)
    with suppress(OSError):
        place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        new = place.with_suffix(f".{os.getpid()}")
        new.write_bytes(msgspec.json.encode(dict([*known.items(), (key, fact)][-_MOST:])))
        new.replace(place)


def _place(kind: str) -> Path:
    return Path(platformdirs.user_cache_dir("specviz")) / f"{kind}.json"
