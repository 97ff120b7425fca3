"""The numbers that vLLM's second model runner tests with: Triton's `rand(seed, position)`, Philox with ten rounds."""

from typing import Any

import numpy as np

_A, _B = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_KEY_A, _KEY_B = 0x9E3779B9, 0xBB67AE85
_LOW, _32 = np.uint64(0xFFFFFFFF), np.uint64(32)
_SCALE = np.float32(4.6566127342e-10)  # to [0, 1) from 31 bits; the engine raises 0 to it


def uniforms(seeds: "np.ndarray[Any, Any]", positions: "np.ndarray[Any, Any]") -> "np.ndarray[Any, Any]":
    """float32 [n] in (0, 1), of int64 seeds and positions [n]."""
    seed, place = seeds.astype(np.int64).view(np.uint64), positions.astype(np.int64).view(np.uint64)
    c0, c1 = place & _LOW, place >> _32
    c2 = c3 = np.zeros_like(c0)
    k0, k1 = seed & _LOW, seed >> _32
    for _ in range(10):
        low, high = c0, c2
        c0, c2 = (_B * high >> _32) ^ c1 ^ k0, (_A * low >> _32) ^ c3 ^ k1
        c1, c3 = _B * high & _LOW, _A * low & _LOW
        k0, k1 = k0 + np.uint64(_KEY_A) & _LOW, k1 + np.uint64(_KEY_B) & _LOW
    bits = c0.astype(np.uint32).view(np.int32)
    folded = np.where(bits < 0, -(bits + 1), bits).astype(np.float32)
    values: np.ndarray[Any, Any] = np.maximum(folded * _SCALE, _SCALE)
    return values
