"""What the trial of exact rows found before, kept on disk: it costs a third of what loading a real model takes.

An entry is for all that decides which kernels run: the machine, settings of the libraries of products, the model's
kind, shapes and dtype, and the very source of what was tried. Of anything else nothing is known: the trial is made.
"""

import hashlib
import json
import os
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from specviz.engine.machine_facts import chip, facts, keep_fact
from specviz.engine.model.exact.plan import PassWidths

_KIND = "exact"
_SETTINGS = ("MKL_", "DNNL_", "ONEDNN_", "ATEN_", "OMP_", "KMP_", "TORCH_", "CC")  # how names of variables begin
_SOURCES = (
    "adapter.py",
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
    words = [repr(model), chip(device), version("transformers"), settings, _source()]
    return hashlib.sha256(json.dumps(words).encode()).hexdigest()


def find(key: str) -> PassWidths | None:
    """The widths of that entry."""
    return facts(_KIND, PassWidths).get(key)


def keep(key: str, widths: PassWidths) -> None:
    """Write an entry down."""
    keep_fact(_KIND, key, widths)


@cache
def _source() -> str:
    here = Path(__file__).parent
    ours = (*here.glob("*.py"), *(here.parent / "compiled").glob("*.[chp]*"))
    files = [*sorted(each for each in ours if each.is_file()), *(here.parent / name for name in _SOURCES)]
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()
