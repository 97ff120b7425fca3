"""Run Python's garbage collector seldom, in processes that decode or draw.

A round allocates a few hundred objects and frees them by reference count. The default collection after every seven
hundred allocations scans the objects alive at that moment with cold caches: .1 ms of a round of 10 ms, more than the
verdict takes.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

SELDOM = (10_000, 20, 20)  # objects made, and looks at younger ones, between two looks


@contextmanager
def seldom() -> Iterator[None]:
    """A context in which the garbage collector runs seldom and skips all objects that already exist."""
    usual = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*SELDOM)
    try:
        yield
    finally:
        gc.set_threshold(*usual)
        gc.unfreeze()
