"""`Switch`: the one way in which the recorder fails: a line on standard error, and nothing is recorded from then on."""

import sys
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")


def tell(words: str) -> None:
    """A line on standard error, whatever becomes of it."""
    try:
        print(f"specviz-recorder: {words}", file=sys.stderr, flush=True)
    except (OSError, ValueError):  # closed, as it may be at the end
        return


class Switch:
    """On until something is not as expected. The engine goes on either way."""

    def __init__(self) -> None:
        self.on = True

    def off(self, reason: str) -> None:
        """Turn off, and say why the first time."""
        if self.on:
            self.on = False
            tell(f"turned off: {reason}; the engine goes on")

    def guarded(self, body: Callable[[], Result]) -> Result | None:
        """What `body` gives; None where it fails, which turns the recorder off, or where it is off."""
        if not self.on:
            return None
        try:
            return body()
        except Exception as error:  # whatever it is, it must not reach the engine
            self.off(f"{type(error).__name__}: {error}")
            return None
