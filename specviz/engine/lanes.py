"""`Lanes`: where target and drafter run. Serial first; others overlap them. Lanes never change tokens."""

from collections.abc import Callable
from typing import Protocol, TypeVar

T = TypeVar("T")


class Lanes(Protocol):
    """`submit` starts the target's work; the result is asked for after the drafter's `meanwhile`."""

    name: str

    def submit(self, work: Callable[[], T]) -> Callable[[], T]: ...


class Serial:
    """One after the other: the target's work is done at once."""

    name = "serial"

    def submit(self, work: Callable[[], T]) -> Callable[[], T]:
        """Run the work, return its result when asked."""
        result = work()
        return lambda: result
