"""What a trace of another engine warns of, where it was made, and that a server is waited for."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from specviz.cli.printing import narrate
from specviz.text import running

if TYPE_CHECKING:
    from specviz.trace import Writer


def warned(trace: "Writer") -> None:
    """The first warning of every kind, a line each on standard error; the trace holds all of them."""
    for message in trace.warned.values():
        narrate(f"specviz: {running(message)}")


@contextmanager
def waited_for(what: str) -> Iterator[threading.Timer]:
    """A line where it takes longer than a second, until the timer is cancelled or the block ends."""
    timer = threading.Timer(1.0, narrate, (f"specviz: waits for {running(what)} (Ctrl-C ends it)",))
    timer.daemon = True
    timer.start()
    try:
        yield timer
    finally:
        timer.cancel()
