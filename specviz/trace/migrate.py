"""Older traces: one function a major version, from a line of that version to a line of the next.

A reader of version N opens every file from the oldest major in `MIGRATIONS` on; a newer minor needs nothing, because
unknown records and fields are ignored.
"""

from collections.abc import Callable

Migration = Callable[[bytes], bytes]
MIGRATIONS: dict[int, Migration] = {}  # {1: lines of 1.x -> lines of 2.x}; none yet


def missing(major: int, current: int) -> int | None:
    """The first major version on the way to `current` that has no migration, or None."""
    return next((v for v in range(major, current) if v not in MIGRATIONS), None)


def migrated(line: bytes, major: int, current: int) -> bytes:
    """The line as version `current` would have written it."""
    for version in range(major, current):
        line = MIGRATIONS[version](line)
    return line
