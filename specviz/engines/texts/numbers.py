"""Numbers and times in lines of logs."""

import re
from datetime import datetime
from functools import lru_cache

MOST = 2**40
_NUMBER = r"-?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_AFTER = re.compile(rf"\s*[=:]?\s*({_NUMBER})")
_SHARE = re.compile(rf"\s*({_NUMBER})\s*(%?)")
_TIMES = (  # as loggers write them, and how much of a date they hold
    (re.compile(r"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d):(\d\d)"), True),
    (re.compile(r"\b(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)"), False),
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
    out: list[float] = []
    for word in text.split(","):
        match = _SHARE.match(word)
        value = float(match[1]) / (100 if match[2] else 1) if match is not None else -1.0
        if not 0 <= value <= 1 or len(out) == 256:
            break
        out.append(value)
    return out


def wall_of(line: str) -> float | None:
    """Seconds since 1970 of a line's time; of llama.cpp, whose log counts from its own begin, since then."""
    head = line[:120]
    since = _SINCE.match(head)
    if since is not None:
        minutes, seconds, ms, us = map(int, since.groups())
        return 60.0 * minutes + seconds + ms / 1e3 + us / 1e6
    for pattern, dated in _TIMES:
        match = pattern.search(head)
        if match is not None:
            return _seconds(match.groups(), None if dated else datetime.now().year)
    return None


@lru_cache(maxsize=64)
def _seconds(parts: tuple[str, ...], year: int | None) -> float | None:
    """Of a date, in numbers; a log has many lines of one second."""
    try:
        return datetime(*([] if year is None else [year]), *map(int, parts)).timestamp()  # type: ignore[arg-type]
    except (ValueError, OverflowError, OSError):
        return None
