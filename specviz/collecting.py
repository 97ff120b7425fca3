"""When Python looks for what nobody holds any more: seldom, in processes that decode or show.

A round makes a few hundred objects that are let go with it, and the usual look after every seven hundred goes through
those that are held at that moment, on cold caches: .1 ms of a round of ten, more than the verdict.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

SELDOM = (10_000, 20, 20)  # objects made, and looks at younger ones, between two looks


@contextmanager
def seldom() -> Iterator[None]:
    """Inside; nothing that is there now is looked at at all."""
    usual = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*SELDOM)
    try:
        yield
    finally:
        gc.set_threshold(*usual)
        gc.unfreeze()
