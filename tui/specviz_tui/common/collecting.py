"""When Python looks for what nobody holds any more. A look over all objects of a recording takes a tenth of a second,
and every step of the screen would meet one now and then: what was read is set aside (`set_aside`)."""

import gc

from specviz.collecting import SELDOM

_usual: tuple[int, int, int] | None = None


def set_aside(tidy: bool) -> None:
    """All objects there are now are looked at no more. `tidy`: after a last look, where something big was let go."""
    global _usual
    if _usual is None:
        _usual = gc.get_threshold()
        gc.set_threshold(*SELDOM)
    gc.unfreeze()
    if tidy:
        gc.collect()
    gc.freeze()


def as_usual() -> None:
    """They are looked at again, as often as before."""
    global _usual
    if _usual is not None:
        gc.unfreeze()
        gc.set_threshold(*_usual)
        _usual = None
