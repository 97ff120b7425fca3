"""Which dtype a model is loaded in: the one that was asked for, or the default of its device and its weights.

On a CPU a model stored in 16 bits is loaded in bfloat16: half the bytes, which is what a decoding step waits for. Small
ones are not (their products take less than the call, which bfloat16 makes longer), nor are weights stored in 32 bits,
which it would round. Where this machine turns out to be faster in float32 (`dtype_speed`), `load_pair` takes that.
"""

from collections import Counter
from pathlib import Path

import torch

from specviz import model_folder
from specviz.engine.model.files import hub
from specviz.errors import ModelError

DTYPES = {"float32": torch.float32, "float64": torch.float64, "bfloat16": torch.bfloat16, "float16": torch.float16}
SMALL_PARAMS = 20_000_000


def pick_dtype(name: str | None, device: torch.device, where: str | None = None) -> torch.dtype:
    """The dtype of that name, or the default. `where`: the folder or hub id of the weights, if there are any."""
    if name is not None:
        if name not in DTYPES:
            raise ModelError(f"dtype '{name}' is unknown; use {', '.join(DTYPES)}")
        return DTYPES[name]
    if device.type != "cpu":
        return torch.bfloat16
    half = where is not None and _is_large_and_half(stored(where))
    return torch.bfloat16 if half else torch.float32


def stored(where: str) -> Counter[str]:
    """Weights by the dtype that their files name (`BF16`), about as many; empty where nothing can be known."""
    if Path(where).is_file():  # a GGUF: its blocks hold fewer bits than bfloat16 keeps
        return Counter({"F16": 2 * Path(where).stat().st_size})
    folder = Path(where) if Path(where).is_dir() else hub.snapshot(where)
    files = model_folder.weight_files(folder) if folder is not None else []
    if not files:
        return hub.stored(where)
    held: Counter[str] = Counter()
    for file in files:
        for tensor in model_folder.tensors(file):
            held[tensor.dtype] += tensor.size
    return held


def _is_large_and_half(held: Counter[str]) -> bool:
    """Whether most weights are of 16 bits, and there are many."""
    return held.total() >= SMALL_PARAMS and held["BF16"] + held["F16"] > held.total() / 2
