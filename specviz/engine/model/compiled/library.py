"""`products.c` as a library of this machine, built once with the compiler that is at hand and kept on disk.

Built for this very processor, so an entry is named by the source, the compiler's version and the processor. Nothing of
it is ever needed: where there is no compiler, torch's own products are used.
"""

import ctypes
import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path

import platformdirs
import torch

from specviz.engine.machine_facts import chip
from specviz.names import COMPILE

_SOURCE = Path(__file__).with_name("products.c")
_FLAGS = ("-O3", "-march=native", "-ffp-contract=fast", "-shared", "-fPIC")
_LONGEST = 60.0  # seconds a compiler may take
_NAMES = {torch.float32: "product_float", torch.bfloat16: "product_bf16"}

Product = Callable[[int, int, int, int, int, int], None]  # addresses of rows, weights, results; n, in, out


@cache
def products() -> dict[torch.dtype, Product]:
    """The functions of the library by the dtype of their numbers. Raises OSError, in words, where there is none."""
    if os.environ.get(COMPILE, "off") == "off":
        raise OSError("--compile off")
    compiler = next(filter(None, map(shutil.which, filter(None, (os.environ.get("CC"), "cc", "gcc", "clang")))), None)
    if compiler is None:
        raise OSError("no C compiler here")
    library = ctypes.CDLL(str(_built(compiler)))  # calls of it let other threads of Python go on
    out: dict[torch.dtype, Product] = {}
    for dtype, name in _NAMES.items():
        function = library[name]
        function.argtypes = [ctypes.c_void_p] * 3 + [ctypes.c_long] * 3
        function.restype = None
        out[dtype] = function
    return out


def _built(compiler: str) -> Path:
    """The library's file, built where it is not there yet. Raises OSError."""
    words = [compiler, _version(compiler), *_FLAGS, chip(torch.device("cpu"))]
    key = hashlib.sha256("\0".join(words).encode() + _SOURCE.read_bytes()).hexdigest()[:24]
    place = Path(platformdirs.user_cache_dir("specviz")) / "compiled" / f"products-{key}.so"
    if place.exists():
        return place
    place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    new = place.with_suffix(f".{os.getpid()}")
    try:
        told = _said([compiler, *_FLAGS, "-o", str(new), str(_SOURCE)])
        if not new.exists():
            raise OSError(f"{compiler} failed: {told.strip().splitlines()[0] if told.strip() else 'no word'}")
        new.replace(place)
    finally:
        new.unlink(missing_ok=True)
    return place


def _version(compiler: str) -> str:
    return _said([compiler, "--version"]).partition("\n")[0]


def _said(line: list[str]) -> str:
    try:
        done = subprocess.run(line, capture_output=True, text=True, timeout=_LONGEST, check=False)
    except subprocess.SubprocessError as error:
        raise OSError(f"{line[0]}: {type(error).__name__}") from None
    return done.stdout + done.stderr
