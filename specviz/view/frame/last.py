"""The newest value of something that is worked out again only when what it depends on changed."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Last(Generic[T]):
    """One value and its key; keys are compared by equality."""

    def __init__(self) -> None:
        self._held: tuple[Any, T] | None = None

    def of(self, key: Any, make: Callable[[], T]) -> T:
        """The value of a key: the held one, or a new one."""
        if self._held is None or self._held[0] != key:
            self._held = (key, make())
        return self._held[1]
