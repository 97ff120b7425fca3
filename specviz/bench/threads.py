"""How many threads to use: a short probe, because more are not always faster.

On small models two threads can cost several times one (engine.md 7). Every count decodes a few tokens with every
unwatched arm, interleaved; the count with the smallest geometric mean of best times wins, so neither side chooses
alone.
"""

import math
import time
from collections.abc import Sequence

import torch

from specviz.bench.arms import BenchArm, Tokens
from specviz.bench.machine import cores

_PASSES, _TOKENS = 3, 12


def counts() -> list[int]:
    """1, 2, 4, .. and the number of cores."""
    most, out = cores(), [1]
    while out[-1] * 2 < most:
        out.append(out[-1] * 2)
    return out if most == 1 else [*out, most]


def probe_threads(arms: Sequence[BenchArm], prompt: Tokens) -> dict[int, float]:
    """`{threads: milliseconds a token}`; torch is left with the best of them."""
    best: dict[int, list[float]] = {n: [math.inf] * len(arms) for n in counts()}
    for _ in range(_PASSES):
        for n, times in best.items():
            torch.set_num_threads(n)
            for index, arm in enumerate(arms):
                run = arm.ready(prompt, _TOKENS, 0)
                began = time.perf_counter()
                run()
                times[index] = min(times[index], time.perf_counter() - began)
    found = {n: math.exp(sum(map(math.log, t)) / len(t)) * 1e3 / _TOKENS for n, t in best.items()}
    torch.set_num_threads(min(found, key=lambda n: found[n]))
    return found
