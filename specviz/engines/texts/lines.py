"""Texts as people have them: a log, a screenful of a terminal, an issue's block, a table, JSON lines; several kinds in
one file are several parts.

A kind is a module of `specviz.engines.texts.kinds` with a `KIND`; adding one adds a file. A line is only looked at
where it holds one of a kind's signs, so a long log costs little. What stands in front of a log's line (a quote mark,
`[pid]`, the time of a journal or of docker) and colours are no part of it; a line that a terminal has wrapped is put
together again.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from itertools import chain
from pkgutil import iter_modules
from typing import IO, Protocol

from specviz.engines.texts import kinds
from specviz.engines.texts.history import CountHistory
from specviz.engines.texts.signs import SignSearch
from specviz.engines.texts.values import decoded

MOST_LINE = 1 << 20  # characters of a line that are looked at
_WRAPPED = 6  # lines that a terminal may have made of one
_SHORT, _BLOCK = 1 << 20, 1 << 16  # characters of a text that is read twice where need be, and of a block of others
_MOST_TRIED, _MOST_JSON = 1 << 21, 2000  # characters looked at for the ends of JSON values, and lines of one
_FULL, _NARROWEST = 2, 40  # lines that fill a terminal of at least so many columns
_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_FRONT = re.compile(r"^(?:\s*(?:>+|\[\d{1,7}\]|[^\s{\"\[|]\S*\s*\|))+\s*(?=\S)")


class KindReader(Protocol):
    """Reads the lines of one kind."""

    def take(self, line: str) -> bool | None:
        """Whether the line was one of its own; None: it begins like one, and what follows is missing."""

    def histories(self) -> list[CountHistory]:
        """What was told, once all lines were read; nothing where no count was among them."""


class TextKind(Protocol):
    """One kind of text: what it is called, what shows a line to be of it, and what reads them. `beside`: what shows a
    line that the reader wants as well, and that may be of anything else: settings, times, words that others use too."""

    name: str
    signs: tuple[str, ...]
    beside: tuple[str, ...]

    def reader(self) -> KindReader: ...


@dataclass(slots=True)
class LineKind:
    """A `TextKind` by its reader's class."""

    name: str
    signs: tuple[str, ...]
    reader: type[KindReader]
    beside: tuple[str, ...] = ()


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
    names = sorted(module.name for module in iter_modules(kinds.__path__))
    modules = [import_module(f"{kinds.__name__}.{name}") for name in names]
    return tuple(kind for module in modules for kind in module.KINDS)


def read_text(file: IO[str], more: Sequence[TextKind] = ()) -> ReadText:
    """Read a text from its begin, by all kinds and by `more`. A short one is read again with the lines put together
    that a terminal has wrapped, or that are one JSON value, and what tells more is taken. Memory is bounded."""
    first = next(_blocks(file, _SHORT), "")
    result = _read(chain([first], _blocks(file, _BLOCK)), (*more, *text_kinds()))
    if len(first) < _SHORT:
        lines = first.splitlines(keepends=True)
        for joined in (unwrapped(lines), json_joined(lines)):
            other = read_lines(joined, more) if joined is not None else NOTHING_READ
            result = other if _tells(other) > _tells(result) else result
    return result


def _tells(text: ReadText) -> tuple[int, int]:
    """How much was read of a text: lines, and numbers that are known at the end of its parts."""
    numbers = 0
    for part in text.parts:
        last = part.history.looks()[-1]
        totals = (last.n_rounds, last.n_drafted, last.n_accepted, last.n_generated, last.accept_length)
        numbers += sum(value is not None for value in totals) + len(last.per_position)
    return sum(part.n_lines for part in text.parts), numbers


def read_lines(lines: Iterable[str], more: Sequence[TextKind] = ()) -> ReadText:
    """As `read_text`, of lines."""
    whole = "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)
    return _read(iter([whole]), (*more, *text_kinds()))


def _blocks(file: IO[str], n: int) -> Iterator[str]:
    """Whole lines of at least `n` characters together; what is longer than a line that is looked at is left out."""
    while block := file.read(n):
        if block[-1] != "\n" and (end := file.readline(MOST_LINE)):
            dropped = end
            while dropped and dropped[-1] != "\n":
                dropped = file.readline(MOST_LINE)
            block += end if end[-1] == "\n" else f"{end}\n"
        yield block


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


def json_joined(lines: Sequence[str]) -> list[str] | None:
    """Lines with every JSON value that stands over several of them, printed or wrapped so, in one. None where there is
    none."""
    bare = [cleaned(line) for line in lines]
    out: list[str] = []
    n_joined = tried = k = 0
    while k < len(bare):
        n = 1
        if bare[k].lstrip()[:1] in ("{", "[") and tried < _MOST_TRIED and decoded(bare[k]) is None:
            n, looked_at = _json_ends(bare[k : k + _MOST_JSON])
            tried += looked_at
            n_joined += n > 1
        out.append("".join(bare[k : k + n]) + "\n")
        k += n
    return out if n_joined else None


def _json_ends(lines: Sequence[str]) -> tuple[int, int]:
    """How many of these lines are one JSON value, from the first on (1 where they are none), and how many characters
    were looked at."""
    depth, within, escaped, looked_at = 0, False, False, 0
    for n, line in enumerate(lines, 1):
        looked_at += len(line)
        for character in line:
            if within:
                within = escaped or character != '"'
                escaped = not escaped and character == "\\"
            elif character == '"':
                within = True
            else:
                depth += (character in "{[") - (character in "]}")
        if depth <= 0 and not within:
            return n if decoded("".join(lines[:n])) is not None else 1, looked_at
    return 1, looked_at


def _read(blocks: Iterator[str], every: Sequence[TextKind]) -> ReadText:
    readers = [kind.reader() for kind in every]
    signs = _search(tuple(kind.signs + kind.beside for kind in every))
    taken, first = [0] * len(every), [0] * len(every)
    n_lines, n_read, nearest = 0, 0, ""
    text = _Text(blocks)
    while block := text.forward():
        counted, number = 0, n_lines + 1  # of the line that begins behind so many characters
        for start, kinds_ in signs.lines(block).items():
            if start < text.read_to:
                continue
            counted, number = start, number + block.count("\n", counted, start)
            line = cleaned(text.lines(start, 1))
            read = False
            for k in kinds_:
                width, done = 1, readers[k].take(line)
                while done is None and width < _WRAPPED:
                    width += 1
                    done = readers[k].take(cleaned(text.lines(start, width)))
                if done:
                    text.skip(start, width)
                    first[k] = first[k] or number
                    taken[k] += 1
                    read = True
                    break
                if not nearest and any(sign in line for sign in every[k].signs):
                    nearest = f"line {number} looks like {every[k].name}: {line.strip()[:80]}"
            n_read += read
        n_lines += block.count("\n") + (block[-1] != "\n")
    parts = [
        TextPart(every[k].name, history, taken[k])
        for k in sorted(range(len(every)), key=lambda k: first[k])
        for history in (readers[k].histories() if taken[k] else ())
        if history.windows
    ]
    return ReadText(tuple(parts), n_lines, n_lines - n_read, nearest)


_search = cache(SignSearch)


def cleaned(line: str) -> str:
    """Without colours, and without what a terminal, a quote or a collector of logs puts in front."""
    if "\x1b" in line:
        line = _ANSI.sub("", line)
    line = line.rstrip("\r\n")
    return _FRONT.sub("", line) if line[:1] in ("[", ">", " ") or "|" in line[:60] else line


class _Text:
    """Blocks of whole lines one behind the other; places are characters of the block at hand. `read_to`: up to where
    its lines are done with."""

    def __init__(self, blocks: Iterator[str]) -> None:
        self._blocks = blocks
        self._block, self._next = "", ""
        self.read_to = 0

    def forward(self) -> str:
        """The next block; "" behind the last one."""
        self.read_to = max(0, self.read_to - len(self._block))
        self._block, self._next = self._next or next(self._blocks, ""), ""
        return self._block

    def lines(self, start: int, n: int) -> str:
        """The line that begins there with those that follow it, `n` in all, as one."""
        if n == 1 and start < len(self._block):
            end = self._block.find("\n", start)
            return self._block[start : min(start + MOST_LINE, end if end >= 0 else len(self._block))]
        parts = []
        for _ in range(n):
            text, at = self._at(start)
            end = self._end(start)
            parts.append(text[at : min(at + end - start, at + MOST_LINE)].rstrip("\r\n"))
            start = end
        return "".join(parts)

    def skip(self, start: int, n: int) -> None:
        """So many lines from there on are done with."""
        for _ in range(n):
            start = self._end(start)
        self.read_to = start

    def _end(self, start: int) -> int:
        """Where the line ends that begins there."""
        text, at = self._at(start)
        return start - at + (text.find("\n", at) + 1 or max(at, len(text)))

    def _at(self, start: int) -> tuple[str, int]:
        """The block that the place stands in, this one or the next, and where in it."""
        if start < len(self._block):
            return self._block, start
        self._next = self._next or next(self._blocks, "")
        return self._next, start - len(self._block)
