"""Standard output for tables: wide enough in a pipe, in the marks its encoding has, and gone when its reader is.

`rich` answers a reader that went away (`| head`) with exit code 1; ours is another one, so the error goes on.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console

from specviz.text import ascii_only

MARKS = "✓✗—·─±…"


class _Stdout(Console):
    """A console that lets its reader's going be known."""

    def on_broken_pipe(self) -> None:
        """Called by `rich` while it handles the BrokenPipeError."""
        raise BrokenPipeError


@contextmanager
def standard_output(narrowest: int) -> Iterator[Console]:
    """A console on standard output; when that is no terminal, of at least so many columns."""
    console = _Stdout(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = max(console.width, narrowest)
    try:
        MARKS.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        with console.capture() as captured:
            yield console
        sys.stdout.write(ascii_only(captured.get()))
        return
    yield console
