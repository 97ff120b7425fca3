"""C of ours as a library of this machine, built once with the compiler that is at hand and kept on disk; `passes.c`.

Built for this very processor, so an entry is named by the source, the compiler's version and the processor. Nothing of
it is ever needed: where there is no compiler, torch's own products are used.
"""

import ctypes
import hashlib
import os
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import platformdirs
import torch

from specviz.engine.machine_facts import processor
from specviz.names import COMPILE

_SOURCES = tuple(
    Path(__file__).with_name(name)
    for name in (
        "passes.c",
        "passes_of_type.h",
        "four_bits_of_type.h",
        "heads_of_type.h",
        "programs_of_type.h",
        "team.h",
    )
)
_FLAGS = ("-O3", "-march=native", "-ffp-contract=fast", "-shared", "-fPIC", "-pthread")
_LONGEST = 120.0  # seconds a compiler may take
_NAMES = {torch.float32: "float", torch.bfloat16: "bf16"}

_long, _float, _pointer = ctypes.c_long, ctypes.c_float, ctypes.c_void_p


class KernelShape(ctypes.Structure):
    """`shape` of the source."""

    _fields_ = [
        *((name, _long) for name in ("width", "reads", "inner", "heads", "shared", "dim", "bits", "eighths")),
        *((name, _float) for name in ("eps", "scale")),
    ]


class KernelLayer(ctypes.Structure):
    """`layer` of the source: addresses of its weights."""

    _fields_ = [
        (name, _pointer)
        for name in (
            *("before", "qkv", "qkv_bias", "of_query", "of_key", "out", "out_bias"),
            *("behind", "gate_up", "gate_up_bias", "down", "down_bias"),
        )
    ]


class KernelHead(ctypes.Structure):
    """`head` of the source."""

    _fields_ = [
        *((name, _pointer) for name in ("norm", "w", "packed")),
        *((name, _long) for name in ("in", "vocab")),
        ("eps", _float),
    ]


class KernelPaths(ctypes.Structure):
    """`paths` of the source."""

    _fields_ = [
        *((name, _pointer) for name in ("lines", "counts", "tails")),
        *((name, _long) for name in ("n", "most", "start", "stride", "apart")),
    ]


class KernelTable(ctypes.Structure):
    """`table` of the source."""

    _fields_ = [(name, _long) for name in ("width", "each", "fixed")]


class KernelDeed(ctypes.Structure):
    """`deed` of the source."""

    _fields_ = [
        *((name, _long) for name in ("kind", "x", "y", "column", "map", "group", "place", "last")),
        *((name, _pointer) for name in ("w", "l", "s")),
        *((name, _long) for name in ("bits", "eighths")),
        ("eps", _float),
    ]


class KernelProgram(ctypes.Structure):
    """`program` of the source."""

    _fields_ = [
        *((name, _pointer) for name in ("tables", "deeds")),
        *((name, _long) for name in ("n_tables", "n_deeds", "dim")),
    ]


class KernelOccasion(ctypes.Structure):
    """`occasion` of the source."""

    _fields_ = [
        ("count", _long),
        *((name, _pointer) for name in ("given", "keys", "values", "cos", "sin", "positions", "p")),
    ]


@dataclass(frozen=True, slots=True)
class Functions:
    """What the library has for a type of numbers. Calls of it let other threads of Python go on."""

    product: Any  # addresses of rows, weights, results; how many rows, numbers in and out, threads
    norms: Any  # addresses of rows, weight, results; how many rows, numbers in each; epsilon
    # shape, layers, how many, paths, addresses of rows, cos, sin, keys, values, copies, what is read; how many of the
    # first rows are done once their keys are filed; where to work; threads
    through: Any
    working: Any  # shape, paths, how many layers, bytes of a number, threads: bytes to work in
    speak: Any  # head; addresses of rows, logits; how many rows; where to work, threads
    speaking: Any  # head, how many rows, bytes of a number, threads: bytes to work in
    # as `product`, the weights in four bits; whether rows are taken in eight bits; where to work, threads
    product_four: Any
    fine_bytes: Any  # how many rows, numbers in: bytes that a thread of `product_four` works in
    perform: Any  # program, occasion, the address of where to work, threads
    performing: Any  # program, occasion, threads: bytes to work in


@cache
def functions() -> dict[torch.dtype, Functions]:
    """The library by the dtype of its numbers. Raises OSError, in words, where there is none."""
    library = built("passes", _SOURCES, _FLAGS)
    shape, paths, head = map(ctypes.POINTER, (KernelShape, KernelPaths, KernelHead))
    working = typed(library["working"], [shape, paths, *[_long] * 3], ctypes.c_size_t)
    speaking = typed(library["speaking"], [head, *[_long] * 3], ctypes.c_size_t)
    fine_bytes = typed(library["fine_bytes"], [_long, _long], ctypes.c_size_t)
    program, occasion = map(ctypes.POINTER, (KernelProgram, KernelOccasion))
    return {
        dtype: Functions(
            typed(library[f"product_{name}"], [_pointer] * 3 + [_long] * 4),
            typed(library[f"norms_{name}"], [_pointer] * 3 + [_long] * 2 + [_float]),
            typed(library[f"pass_{name}"], [shape, _pointer, _long, paths, *[_pointer] * 7, _long, _pointer, _long]),
            working,
            typed(library[f"speak_{name}"], [head, _pointer, _pointer, _long, _pointer, _long]),
            speaking,
            typed(library[f"product_four_{name}"], [_pointer] * 3 + [_long] * 4 + [_pointer, _long]),
            fine_bytes,
            typed(library[f"perform_{name}"], [program, occasion, _pointer, _long]),
            typed(library[f"performing_{name}"], [program, occasion, _long], ctypes.c_size_t),
        )
        for dtype, name in _NAMES.items()
    }


def typed(function: Any, takes: list[Any], gives: Any = None) -> Any:
    """A function of a library that knows what it takes and gives."""
    function.argtypes, function.restype = takes, gives
    return function


def built(name: str, sources: Sequence[Path], flags: Sequence[str]) -> ctypes.CDLL:
    """The library of that name, made of the first of the sources where it is not there yet. Raises OSError, in words,
    where there can be none."""
    if os.environ.get(COMPILE) == "off":
        raise OSError("--compile off")
    compiler = next(filter(None, map(shutil.which, filter(None, (os.environ.get("CC"), "cc", "gcc", "clang")))), None)
    if compiler is None:
        raise OSError("no C compiler here")
    words = [compiler, _version(compiler), *flags, *processor()]
    text = b"\0".join(source.read_bytes() for source in sources)
    key = hashlib.sha256("\0".join(words).encode() + text).hexdigest()[:24]
    place = Path(platformdirs.user_cache_dir("specviz")) / "compiled" / f"{name}-{key}.so"
    if place.exists():
        with suppress(OSError):  # one that was cut short is made again
            return ctypes.CDLL(str(place))
    _build([compiler, *flags], sources[0], place)
    return ctypes.CDLL(str(place))


def _build(line: list[str], source: Path, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    new = place.with_suffix(f".{os.getpid()}")
    try:
        told = _said([*line, "-o", str(new), str(source), "-lm"])
        if not new.exists():
            raise OSError(f"{line[0]} failed: {told.strip().splitlines()[0] if told.strip() else 'no word'}")
        new.replace(place)
    finally:
        new.unlink(missing_ok=True)


@cache
def _version(compiler: str) -> str:
    return _said([compiler, "--version"]).partition("\n")[0]


def _said(line: list[str]) -> str:
    try:
        done = subprocess.run(line, capture_output=True, text=True, timeout=_LONGEST, check=False)
    except subprocess.SubprocessError as error:
        raise OSError(f"{line[0]}: {type(error).__name__}") from None
    return done.stdout + done.stderr
