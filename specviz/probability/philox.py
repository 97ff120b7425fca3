"""Philox4x32-10 (Salmon et al. 2011) and the uniform of one key, in plain Python: what judges and shows a run needs no
numpy for it. Key = seed, counter = (pos, round, index, stream); `probability.draws` says what each stream is for.
"""

from functools import lru_cache
from typing import Any, Literal

Stream = Literal["target", "draft", "accept", "residual", "other"]
STREAMS: dict[str, int] = {"target": 0, "draft": 1, "accept": 2, "residual": 3, "other": 4}

_M0, _M1 = 0xD2511F53, 0xCD9E8D57
_W0, _W1 = 0x9E3779B9, 0xBB67AE85
WORD = 0xFFFFFFFF


def philox(counter: tuple[Any, Any, Any, Any], key: tuple[int, int]) -> tuple[Any, Any, Any, Any]:
    """Philox4x32-10 on Python ints or on uint64 arrays that hold 32-bit words."""
    x0, x1, x2, x3 = counter
    for k0, k1 in _round_keys(*key):
        p0, p1 = x0 * _M0, x2 * _M1
        x0, x1, x2, x3 = (p1 >> 32) ^ x1 ^ k0, p1 & WORD, (p0 >> 32) ^ x3 ^ k1, p0 & WORD
    return x0, x1, x2, x3


@lru_cache(maxsize=64)
def _round_keys(k0: int, k1: int) -> tuple[tuple[int, int], ...]:
    """The keys of the ten rounds: the same for all draws of a seed."""
    return tuple(((k0 + n * _W0) & WORD, (k1 + n * _W1) & WORD) for n in range(10))


def uniform(seed: int, stream: Stream, round_: int, pos: int, index: int = 0) -> float:
    """The uniform in [0, 1) of one key, with 53 bits."""
    counter = (pos & WORD, round_ & WORD, index & WORD, STREAMS[stream])
    w0, w1, _, _ = philox(counter, (seed & WORD, (seed >> 32) & WORD))
    return float(((w0 >> 5) * (1 << 26) + (w1 >> 6)) / (1 << 53))
