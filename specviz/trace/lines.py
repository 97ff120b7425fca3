"""One line of a trace to one record, with an error that says the line and the reason."""

from pathlib import Path
from typing import Any

import msgspec

from specviz.errors import TraceError
from specviz.events import SCHEMA, VERSION, Event, Header, decode
from specviz.trace.files import foreign
from specviz.trace.migrate import completed, migrated, missing

_BAD = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class _Head(msgspec.Struct):
    """What is read of a first line before its version is known."""

    ev: str = ""
    schema: str = ""
    v: tuple[int, int] = (0, 0)


_head_decoder = msgspec.json.Decoder(_Head)


def major_of(first: bytes, path: Path) -> int:
    """The schema's major version. Raises TraceError for a foreign file and for one of a version that cannot be read."""
    try:
        head = _head_decoder.decode(first)
    except _BAD:
        raise foreign(path, "its first line is not a JSON object of a trace") from None
    if head.ev != "header" or head.schema != SCHEMA:
        seen = f"a '{head.ev}' record" if head.ev else "a JSON object without 'ev'"
        raise foreign(path, f"its first line is {seen}, not a header of {SCHEMA}")
    major, current = head.v[0], VERSION[0]
    if major > current:
        raise TraceError(
            f"{path} was written by trace version {major}.{head.v[1]}, this specviz reads up to {current}.x: "
            "pip install -U specviz-llm"
        )
    if (gap := missing(major, current)) is not None:
        raise TraceError(f"{path} has trace version {major}.{head.v[1]}; there is no migration from version {gap}")
    return major


def record_of(line: bytes, number: int, path: Path, major: int) -> Event | None:
    """The record of a line; None when this version does not know its kind. Raises TraceError with line and reason."""
    try:
        if major < VERSION[0]:
            line = migrated(line, major, VERSION[0])
        event = decode(line)
    except _BAD as error:
        raise TraceError(f"{path} line {number}: {error}{_seen(line, str(error))}") from None
    return completed(event, line) if isinstance(event, Header) else event


def _seen(line: bytes, message: str) -> str:
    """The value that an error of ours names by its path (`$.top[..][1]`), where the path leads to one."""
    _, found, path = message.rpartition("at `$.")
    if not found:
        return ""
    try:
        value: Any = msgspec.json.decode(line)
        for part in path.rstrip("`").split("."):
            value = value[part]
    except (*_BAD, LookupError, TypeError):
        return ""
    return f", which is {ascii(value)[:40]}" if isinstance(value, int | float) else ""
