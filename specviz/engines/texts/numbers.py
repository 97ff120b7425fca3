"""Numbers and times in lines of logs."""

import re
from datetime import datetime
from functools import lru_cache

MOST = 2**40
_MOST_SHARES = 256
_NUMBER = r"-?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_AFTER = re.compile(rf"\s*[=:]?\s*({_NUMBER})")
_SHARE = re.compile(rf"\s*({_NUMBER})\s*(%?)")
# As loggers write it, with a year or without.
_TIME = re.compile(r"(?:(\d{4})-|\b)(\d\d)-(\d\d)[T ](\d\d:\d\d:\d\d)")
# What journald, docker and Kubernetes put in front of a line: a time, and where there is one a host and a process.
_STAMP = re.compile(
    r"\s*(?:\d{4}-\d\d-\d\d[T ][\d:.,]{8,20}(?:Z|[+-]\d\d:?\d\d)?|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d)\s"
    r"(?:std(?:out|err) [FP] )?(?:\S{1,80} \S{1,80}\[\d{1,9}\]: )?"
)
_SINCE = re.compile(r"^\s*(\d{1,6})\.(\d\d)\.(\d{3})\.(\d{3})\s")  # llama.cpp: minutes, seconds, ms, us


def number_after(line: str, words: str) -> float | None:
    """The number behind these words, which stand in the line as they are; None where it is not there or no number."""
    at = line.find(words)
    if at < 0:
        return None
    match = _AFTER.match(line, at := at + len(words), at + 64)
    value = float(match[1]) if match is not None else None
    return value if value is not None and abs(value) < MOST else None


def count_after(line: str, words: str) -> int | None:
    """As `number_after`, of a count."""
    value = number_after(line, words)
    return round(value) if value is not None and value >= 0 else None


def shares(text: str) -> list[float]:
    """Numbers between commas, each from 0 to 1 (or in percent, where a sign says so); up to what is none."""
    words = text.split(",")
    try:
        plain = [float(word) for word in words]
    except ValueError:
        plain = []
    if plain and len(plain) <= _MOST_SHARES and all(0 <= value <= 1 for value in plain):
        return plain
    out: list[float] = []
    for word in words:
        match = _SHARE.match(word)
        value = float(match[1]) / (100 if match[2] else 1) if match is not None else -1.0
        if not 0 <= value <= 1 or len(out) == _MOST_SHARES:
            break
        out.append(value)
    return out


def unstamped(line: str) -> str:
    """A line without the time, host and process that a collector of logs puts in front of it."""
    stamp = _STAMP.match(line, 0, 240) if line[:1].isalnum() else None
    return line[stamp.end() :] if stamp is not None else line


def wall_of(line: str) -> float | None:
    """Seconds since 1970 of a line's time; of llama.cpp, whose log counts from its own begin, since then."""
    head = line[:120]
    since = _SINCE.match(head)
    if since is None and (match := _TIME.search(head)) is not None:
        return _seconds(match[1], match[2], match[3], match[4])
    since = since or _SINCE.match(unstamped(head))
    if since is None:
        return None
    minutes, seconds, ms, us = map(int, since.groups())
    return 60.0 * minutes + seconds + ms / 1e3 + us / 1e6


@lru_cache(maxsize=64)
def _seconds(year: str | None, month: str, day: str, clock: str) -> float | None:
    """Since 1970; of no year that of now. A log has many lines of one second."""
    try:
        hours, minutes, seconds = map(int, clock.split(":"))
        date = datetime(int(year or datetime.now().year), int(month), int(day), hours, minutes, seconds)
        return date.timestamp()
    except (ValueError, OverflowError, OSError):
        return None
