"""`passes.c` as Python knows it: its structures, and its functions for each type of numbers."""

import ctypes
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from specviz.engine.model.compiled.build import Once, built

_HERE = Path(__file__).parent
VECTORS = _HERE / "vec.h"  # that all sources include
_SOURCES = (
    *(_HERE / name for name in ("passes.c", "thread_pool.h")),
    *(_HERE / f"{name}_of_type.h" for name in ("layers", "int4", "logits", "graph")),
    VECTORS,
)
_FLAGS = ("-O3", "-march=native", "-ffp-contract=fast", "-shared", "-fPIC", "-pthread")
_NAMES = {torch.float32: "float", torch.bfloat16: "bf16"}

_long, _float, _pointer = ctypes.c_long, ctypes.c_float, ctypes.c_void_p


class KernelConfig(ctypes.Structure):
    """`config` of the source."""

    _fields_ = [
        *((name, _long) for name in ("hidden", "qkv_in", "ffn", "n_heads", "n_kv_heads", "head_dim", "bits", "int8")),
        *((name, _float) for name in ("eps", "scale")),
        ("lora_rank", _long),
    ]


class KernelLora(ctypes.Structure):
    """`lora` of the source."""

    _fields_ = [("a", _pointer), ("b", _pointer), ("rank", _long)]


class KernelLayer(ctypes.Structure):
    """`layer_weights` of the source: their addresses."""

    _fields_ = [
        *((name, _pointer) for name in ("attn_norm", "qkv", "qkv_bias", "q_norm", "k_norm")),
        *((name, _pointer) for name in ("attn_out", "attn_out_bias")),
        *((name, _pointer) for name in ("ffn_norm", "gate_up", "gate_up_bias", "down", "down_bias")),
        *((name, KernelLora) for name in ("qkv_lora", "attn_out_lora", "gate_up_lora", "down_lora")),
    ]


class KernelHead(ctypes.Structure):
    """`lm_head` of the source."""

    _fields_ = [
        *((name, _pointer) for name in ("norm", "w", "packed")),
        *((name, _long) for name in ("in", "vocab")),
        ("eps", _float),
    ]


class KernelAttnIndex(ctypes.Structure):
    """`attn_index` of the source."""

    _fields_ = [
        *((name, _pointer) for name in ("prefix", "n_extra", "extra")),
        *((name, _long) for name in ("n", "max_extra", "start", "head_stride", "layer_stride")),
    ]


class KernelBuffer(ctypes.Structure):
    """`buffer` of the source."""

    _fields_ = [(name, _long) for name in ("width", "per_row", "fixed")]


class KernelOp(ctypes.Structure):
    """`op` of the source."""

    _fields_ = [
        *((name, _long) for name in ("kind", "x", "y", "column", "map", "group", "cache", "last")),
        *((name, _pointer) for name in ("w", "l", "c")),
        *((name, _long) for name in ("bits", "int8")),
        ("eps", _float),
    ]


class KernelGraph(ctypes.Structure):
    """`graph` of the source."""

    _fields_ = [
        *((name, _pointer) for name in ("buffers", "ops")),
        *((name, _long) for name in ("n_buffers", "n_ops", "head_dim")),
    ]


class KernelGraphArgs(ctypes.Structure):
    """`graph_args` of the source."""

    _fields_ = [
        ("n_rows", _long),
        *((name, _pointer) for name in ("external", "keys", "values", "cos", "sin", "positions", "index")),
    ]


@dataclass(frozen=True, slots=True)
class Functions:
    """What the library has for a type of numbers. Calls of it let other threads of Python go on."""

    matmul: Any  # addresses of rows, weights, results; how many rows, numbers in and out, threads
    rmsnorm: Any  # addresses of rows, weight, results; how many rows, numbers in each; epsilon
    # config, layers, how many, attention index, addresses of rows, cos, sin, keys, values, copies, `qkv_in`; how many
    # of the first rows are wanted for their keys and values alone; where to work; threads
    forward: Any
    forward_bytes: Any  # config, attention index, how many layers, bytes of a number, threads: bytes to work in
    logits: Any  # head; addresses of rows, logits; how many rows; where to work, threads
    logits_bytes: Any  # head, how many rows, bytes of a number, threads: bytes to work in
    # as `matmul`, the weights in four bits; whether rows are quantized to eight bits; where to work, threads
    matmul_int4: Any
    quantized_bytes: Any  # how many rows, numbers in: bytes that a thread of `matmul_int4` works in
    run_graph: Any  # graph, arguments, the address of where to work, threads
    graph_bytes: Any  # graph, arguments, threads: bytes to work in


@Once
def functions() -> dict[torch.dtype, Functions]:
    """The library by the dtype of its numbers. Raises NoKernel."""
    library = built("passes", _SOURCES, _FLAGS)
    forward = [_pointer] * 7 + [_long, _pointer, _long]
    config, index, head = map(ctypes.POINTER, (KernelConfig, KernelAttnIndex, KernelHead))
    forward_bytes = typed(library["forward_bytes"], [config, index, *[_long] * 3], ctypes.c_size_t)
    logits_bytes = typed(library["logits_bytes"], [head, *[_long] * 3], ctypes.c_size_t)
    quantized_bytes = typed(library["quantized_bytes"], [_long, _long], ctypes.c_size_t)
    graph, args = map(ctypes.POINTER, (KernelGraph, KernelGraphArgs))
    return {
        dtype: Functions(
            typed(library[f"matmul_{name}"], [_pointer] * 3 + [_long] * 4),
            typed(library[f"rmsnorm_rows_{name}"], [_pointer] * 3 + [_long] * 2 + [_float]),
            typed(library[f"forward_{name}"], [config, _pointer, _long, index, *forward]),
            forward_bytes,
            typed(library[f"logits_{name}"], [head, _pointer, _pointer, _long, _pointer, _long]),
            logits_bytes,
            typed(library[f"matmul_int4_{name}"], [_pointer] * 3 + [_long] * 4 + [_pointer, _long]),
            quantized_bytes,
            typed(library[f"run_graph_{name}"], [graph, args, _pointer, _long]),
            typed(library[f"graph_bytes_{name}"], [graph, args, _long], ctypes.c_size_t),
        )
        for dtype, name in _NAMES.items()
    }


def typed(function: Any, takes: list[Any], gives: Any = None) -> Any:
    """A function of a library that knows what it takes and gives."""
    function.argtypes, function.restype = takes, gives
    return function
