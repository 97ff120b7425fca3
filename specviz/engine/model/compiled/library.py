"""`passes.c` as Python knows it: its structures, and its functions for each type of numbers."""

import ctypes
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from specviz.engine.model.compiled.build import Once, built

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


@Once
def functions() -> dict[torch.dtype, Functions]:
    """The library by the dtype of its numbers. Raises NoKernel."""
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
