"""Texts as people have them: a log, a screenful of a terminal, an issue's block, a table, JSON lines; several kinds in
one file are several parts.

A kind is a module of `specviz.engines.texts.kinds` with a `KIND`; adding one adds a file. A line is only looked at
where it holds one of a kind's signs, so a long log costs little. What stands in front of a log's line (a quote mark,
`[pid]`, the time of a journal or of docker) and colours are no part of it; a line that a terminal has wrapped is put
together again.
"""

import io
import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from itertools import chain, islice
from pkgutil import iter_modules
from typing import IO, Protocol

from specviz.engines.texts import kinds
from specviz.engines.texts.history import CountHistory

MOST_LINE = 1 << 20  # characters of a line that are looked at
_WRAPPED = 6  # lines that a terminal may have made of one
_SHORT, _BLOCK = 1 << 20, 1 << 14  # characters of a text that is read twice where need be, and of a block of others
_FULL, _NARROWEST = 2, 40  # lines that fill a terminal of at least so many columns
_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_FRONT = re.compile(r"^(?:\s*(?:>+|\[\d{1,7}\]|\S+\s*\|))+\s*(?=\S)")


class KindReader(Protocol):
    """Reads the lines of one kind."""

    def take(self, line: str) -> bool | None:
        """Whether the line was one of its own; None: it begins like one, and what follows is missing."""

    def histories(self) -> list[CountHistory]:
        """What was told, once all lines were read; nothing where no count was among them."""


class TextKind(Protocol):
    """One kind of text: what it is called, what shows a line to be of it, and what reads them."""

    name: str
    signs: tuple[str, ...]

    def reader(self) -> KindReader: ...


@dataclass(slots=True)
class LineKind:
    """A `TextKind` by its reader's class."""

    name: str
    signs: tuple[str, ...]
    reader: type[KindReader]


@dataclass(frozen=True, slots=True)
class TextPart:
    """What was read of one kind: its history, and how many lines it took."""

    kind: str
    history: CountHistory
    n_lines: int


@dataclass(frozen=True, slots=True)
class ReadText:
    """What was read of a text. `nearest`: a line that held a sign and no number could be read of, with its number and
    kind; "" where there was none."""

    parts: tuple[TextPart, ...]
    n_lines: int
    n_left: int
    nearest: str


NOTHING_READ = ReadText((), 0, 0, "")


@cache
def text_kinds() -> tuple[TextKind, ...]:
    """Every kind there is, by name of its module."""
    names = sorted(found.name for found in iter_modules(kinds.__path__))
    modules = [import_module(f"{kinds.__name__}.{name}") for name in names]
    return tuple(kind for module in modules for kind in module.KINDS)


def read_text(file: IO[str], more: Sequence[TextKind] = ()) -> ReadText:
    """Read a text from its begin, by all kinds and by `more`; where nothing is found in a short text, it is tried again
    with the lines put together that a terminal has wrapped. Bounded in memory by what windows tell, not by length."""
    kinds_ = (*more, *text_kinds())
    first = file.read(_SHORT) + file.readline()
    result = _read(chain(_blocks(io.StringIO(first, newline="\n"), kinds_), _blocks(file, kinds_)), kinds_)
    if result.parts or len(first) >= _SHORT:
        return result
    lines = unwrapped(first.splitlines(keepends=True))
    return read_lines(lines, more) if lines is not None else result


def read_lines(lines: Iterable[str], more: Sequence[TextKind] = ()) -> ReadText:
    """As `read_text`, of lines."""
    kinds_ = (*more, *text_kinds())
    return _read(iter([_Block(list(lines), 0, tuple(range(len(kinds_))))]), kinds_)


@dataclass(frozen=True, slots=True)
class _Block:
    """Lines in which signs of these kinds stand, by their index; `n`: how many there are where none does."""

    lines: list[str]
    n: int
    kinds: tuple[int, ...]


def _blocks(file: IO[str], kinds_: Sequence[TextKind]) -> Iterator[_Block]:
    while block := file.read(_BLOCK):
        block += file.readline()
        present = tuple(k for k, kind in enumerate(kinds_) if any(sign in block for sign in kind.signs))
        yield _Block(block.splitlines(keepends=True) if present else [], 0 if present else block.count("\n"), present)


def unwrapped(lines: Sequence[str]) -> list[str] | None:
    """Lines as they were before a terminal wrapped them: those that fill its width go on in the next one. None where
    no width is seen."""
    bare = [line.rstrip("\r\n") for line in lines]
    width = max(map(len, bare), default=0)
    if sum(len(line) == width for line in bare) < _FULL or width < _NARROWEST:
        return None
    out, open_line = [], ""
    for line in bare:
        open_line += line
        if len(line) < width:
            out.append(f"{open_line}\n")
            open_line = ""
    return [*out, open_line]


def _read(blocks: Iterator[_Block], every: Sequence[TextKind]) -> ReadText:
    readers = [kind.reader() for kind in every]
    taken, first = [0] * len(every), [0] * len(every)
    n_read, nearest = 0, ""
    stream = _Joined(blocks)
    for number, line in stream:
        read = False
        for k in stream.kinds:
            if not any(sign in line for sign in every[k].signs):
                continue
            done = readers[k].take(cleaned(line))
            for width in range(1, _WRAPPED):
                if done is not None:
                    break
                done = readers[k].take(cleaned(stream.peeked(line, width)))
                if done:
                    stream.skip(width)
            if done:
                first[k] = first[k] or number
                taken[k] += 1
                read = True
                break
            nearest = nearest or f"line {number} looks like {every[k].name}: {cleaned(line).strip()[:80]}"
        n_read += read
    parts = [
        TextPart(every[k].name, history, taken[k])
        for k in sorted(range(len(every)), key=lambda k: first[k])
        for history in (readers[k].histories() if taken[k] else ())
        if history.windows
    ]
    return ReadText(tuple(parts), stream.n_lines, stream.n_lines - n_read, nearest)


def cleaned(line: str) -> str:
    """Without colours, and without what a terminal, a quote or a collector of logs puts in front."""
    if "\x1b" in line:
        line = _ANSI.sub("", line)
    line = line.rstrip("\r\n")
    return _FRONT.sub("", line) if line[:1] in ("[", ">", " ") or "|" in line[:60] else line


class _Joined:
    """Lines with their numbers, from 1, some of which may be looked at ahead. `kinds`: those that the line at hand may
    be of."""

    def __init__(self, blocks: Iterator[_Block]) -> None:
        self._blocks = blocks
        self._waiting: deque[str] = deque()
        self.n_lines = 0
        self.kinds: tuple[int, ...] = ()

    def __iter__(self) -> Iterator[tuple[int, str]]:
        while self._waiting or self._filled(1):
            self.n_lines += 1
            yield self.n_lines, self._waiting.popleft()[:MOST_LINE]

    def _filled(self, n: int) -> bool:
        """Whether so many lines wait."""
        while len(self._waiting) < n:
            block = next(self._blocks, None)
            if block is None:
                return False
            if block.lines:
                self.kinds = block.kinds if not self._waiting else tuple({*self.kinds, *block.kinds})
                self._waiting.extend(block.lines)
            else:
                self.n_lines += block.n
        return True

    def peeked(self, line: str, width: int) -> str:
        """The line with so many that follow it, as one."""
        self._filled(width)
        ahead = islice(self._waiting, width)
        return line.rstrip("\r\n") + "".join(part[:MOST_LINE].rstrip("\r\n") for part in ahead)

    def skip(self, width: int) -> None:
        """What was looked at ahead was read."""
        for _ in range(min(width, len(self._waiting))):
            self._waiting.popleft()
            self.n_lines += 1
