"""What a round frees is kept for the next one, where the C library would give it back to the system (glibc).

A few rows of logits take a megabyte. Freed, glibc returns such memory, and the next round takes it again page by page,
each a trap and a page of zeros: some .3 ms of a round of 8 ms on SmolLM2. What is larger than `LARGE`, as the weights
are, still comes and goes as it did. Who has set anything of this by the environment keeps it.
"""

import ctypes
import os
from functools import cache

LARGE = 32 << 20  # bytes; the most that glibc lets be kept
KEPT = 256 << 20  # bytes at the end of what was freed that are not given back

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of glibc's malloc.h
_SET_BY = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES")


@cache
def keep_freed_memory() -> bool:
    """Once a process; whether the C library could be told."""
    if any(name in os.environ for name in _SET_BY):
        return False
    try:
        told = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # another C library
        return False
    return bool(told(_MMAP_THRESHOLD, LARGE) and told(_TRIM_THRESHOLD, KEPT))
