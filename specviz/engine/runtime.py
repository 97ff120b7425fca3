"""What a process decodes with beside its models: torch's threads, and memory that a round frees kept for the next one.

A few rows of logits take a megabyte. Freed, glibc gives such memory back to the system, and the next round takes it
again page by page, each a trap and a page of zeros: some .3 ms of a round of 8 ms on SmolLM2. What is larger than
`LARGE`, as the weights are, still comes and goes as it did. Who has set anything of this by the environment keeps it.
"""

import ctypes
import os
from dataclasses import dataclass, field
from functools import cache

import torch

from specviz import lean

LARGE = 32 << 20  # bytes; the most that glibc lets be kept
KEPT = 256 << 20  # bytes at the end of what was freed that are not given back

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of glibc's malloc.h
_SET_BY = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES")


@dataclass(frozen=True, slots=True)
class Runtime:
    """`threads`: of torch, that the backends of a pair were chosen with; loading leaves the process those it had."""

    threads: int = field(default_factory=torch.get_num_threads)

    def begin(self) -> None:
        """Set this process to it, where it is one of our own (`lean.begin_process`); anybody else's stays as it is."""
        if lean.own_process:
            keep_freed_memory()
            torch.set_num_threads(self.threads)


@cache
def keep_freed_memory() -> bool:
    """Once a process; whether the C library could be told."""
    if any(name in os.environ for name in _SET_BY):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # another C library
        return False
    return bool(mallopt(_MMAP_THRESHOLD, LARGE) and mallopt(_TRIM_THRESHOLD, KEPT))
