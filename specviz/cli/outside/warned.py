"""What a trace of another engine warns of, where it was made."""

from typing import TYPE_CHECKING

from specviz.cli.printing import narrate
from specviz.text import running

if TYPE_CHECKING:
    from specviz.trace import Writer


def warned(trace: "Writer") -> None:
    """The first warning of every kind, a line each on standard error; the trace holds all of them."""
    for message in trace.warned.values():
        narrate(f"specviz: {running(message)}")
