"""The one door for what people have: a file, standard input or an address becomes traces, one a kind that is in it.

Rounds are read where the source tells them (`specviz.engines.rounds`); else its counts become a history, or totals.
"""

import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from specviz.engines.asking import ask, read_whole
from specviz.engines.rounds import files
from specviz.engines.rounds.importing import opened
from specviz.engines.rounds.streams import import_stream
from specviz.engines.texts.history import CountHistory
from specviz.engines.texts.lines import NOTHING_READ, ReadText, TextKind, read_lines, read_text
from specviz.engines.watch.history import write_history
from specviz.errors import SpecvizError, TraceError
from specviz.trace.files import PLAIN, is_recording, plain_path
from specviz.trace.recorder import existing

READ = (
    "read are logs, printed summaries and tables, answers, streams, benchmark reports and scrapes of vLLM, SGLang, "
    "llama.cpp and TensorRT-LLM, and Spec-Bench's answers; lines of another engine by --line"
)
_PATIENCE_S = 30.0
_MOST_FETCHED = 256 << 20
_MOST_JSON = 64 << 20  # bytes of a file that is one JSON value over several lines
_BINARY = 20  # characters of a text on each NUL at least
_OPENING = 1 << 16  # characters that show what a file is
STDIN = "-"


@dataclass(frozen=True, slots=True)
class ImportedTrace:
    """What was read into a trace. `words`: of what, and how much, in a line; `warnings`: what a reader must know."""

    path: Path
    words: str
    warnings: tuple[str, ...] = ()


def is_address(source: str) -> bool:
    """Whether a source is an address to be fetched."""
    return source.startswith(("http://", "https://"))


def name_of(source: str) -> str:
    """What its traces are called by themselves."""
    if source == STDIN:
        return "pasted"
    if is_address(source):
        return source.partition("://")[2].partition("/")[0].replace(":", "-") or "fetched"
    return Path(source).stem.removesuffix(".sv")


def import_source(source: str, out: Path, rule: str | None, more: Sequence[TextKind] = ()) -> list[ImportedTrace]:
    """Read a source into traces: `out`, and `out-2` and on where it holds several. `more`: kinds of the user's own.

    Raises SpecvizError with the nearest thing and what would do where nothing can be read.
    """
    with _on_disk(source) as path:
        if is_recording(path):
            raise TraceError(f"{shown_source(source)} is a recording already: specviz stats, tui or web opens it")
        with opened(path) as file:
            opening = file.read(_OPENING)
            if opening.count("\0") > len(opening) / _BINARY:  # a log may hold some, where a disk was full
                raise TraceError(f"{shown_source(source)} is no text; {READ}")
        refused: TraceError | None = None
        before = _stamp(out)
        if not more:
            try:
                return [_rounds(path, out, rule)]
            except TraceError as error:
                refused = error
        text = _counts(path, more) if _stamp(out) == before else NOTHING_READ
        if not text.parts:
            if refused is not None and not text.nearest:
                known = f"; {READ}" if isinstance(refused, files.NotRounds) else ""
                raise TraceError(f"{refused}{known}".replace(str(path), shown_source(source)))
            raise TraceError(_nothing(shown_source(source), text))
        traces = [_kept(part.history, out, k, text) for k, part in enumerate(text.parts)]
        if refused is not None and not isinstance(refused, files.NotRounds):  # rounds were told there, and not read
            traces[0] = replace(traces[0], warnings=(str(refused).replace(str(path), shown_source(source)),))
        return traces


def import_bytes(name: str, data: bytes, folder: Path) -> list[ImportedTrace]:
    """What is no file yet, by a name of its own, beside its traces in a folder. Raises TraceError by that name."""
    source = folder / (Path(name.replace("\\", "/")).name or "pasted")
    source.write_bytes(data)
    try:
        return import_source(str(source), folder / (name_of(source.name) + PLAIN), None)
    except SpecvizError as error:
        raise TraceError(str(error).replace(str(source), source.name)) from None


def _stamp(out: Path) -> tuple[Path, int] | None:
    """The trace that lies where one shall be written, and when it was: a reader of rounds may have begun another."""
    older = existing(out)
    return None if older is None else (older, older.stat().st_mtime_ns)


def shown_source(source: str) -> str:
    """What it is called in a line."""
    return "standard input" if source == STDIN else source


def _rounds(path: Path, out: Path, rule: str | None) -> ImportedTrace:
    """Rounds, where the source tells them. Raises NotRounds."""
    imported = import_stream(path, out, rule) or files.import_file(path, out, rule)
    imported.trace.close()
    if imported.trace.problem is not None:
        raise TraceError(f"cannot write {imported.trace.path}: {imported.trace.problem}")
    words = "read its rounds" if imported.trace.n_rounds else "read no round"
    return ImportedTrace(imported.trace.path, words, tuple(imported.trace.warned.values()))


def _counts(path: Path, more: Sequence[TextKind]) -> ReadText:
    """What all kinds of texts make of a file; of one that is a single JSON value, of that in one line."""
    with opened(path) as file:
        first = file.read(_OPENING)
        if first.lstrip()[:1] in ("{", "["):
            whole = first + file.read(_MOST_JSON)
            try:
                value = msgspec.json.decode(whole)
            except (msgspec.MsgspecError, UnicodeError, RecursionError):
                pass
            else:
                return read_lines(_one_by_one(value), more)
    with opened(path) as file:
        return read_text(file, more)


def _one_by_one(value: Any) -> Iterator[str]:
    for item in value if isinstance(value, list) else [value]:
        yield msgspec.json.encode(item).decode()


def _kept(history: CountHistory, out: Path, k: int, text: ReadText) -> ImportedTrace:
    """Write a part as a trace."""
    plain = plain_path(out)
    path = plain if not k else plain.with_name(f"{plain.name.removesuffix(PLAIN)}-{k + 1}{PLAIN}")
    part = text.parts[k]
    many = history.parts_of if history.parts_of.endswith("s") else f"{history.parts_of}s"
    several = f", {many} {_ends([*history.parts])}" if len(history.parts) > 1 else ""
    left = f"; left {text.n_left:,} others" if text.n_left and not k else ""
    lines = "1 line" if part.n_lines == 1 else f"{part.n_lines:,} lines"
    words = f"read {lines} of {part.kind}{several}{left}"
    level = "totals" if len(history.windows) == 1 else "a history of counts"
    return ImportedTrace(write_history(path, history.looks()), f"{words}: {level}, no single rounds")


def _ends(names: list[str]) -> str:
    return f"{names[0]} to {names[-1]}" if len(names) > 2 else " and ".join(names)


def _nothing(source: str, text: ReadText) -> str:
    if not text.n_lines:
        return f"{source} is empty"
    if text.nearest:
        return f"{source}: nothing could be read; {text.nearest}. Give the whole line, or describe yours with --line"
    return f"{source}: nothing in its {text.n_lines:,} lines is known here; {READ}"


@contextmanager
def _on_disk(source: str) -> Iterator[Path]:
    """The source as a file. Raises SpecvizError."""
    if source != STDIN and not is_address(source):
        yield Path(source)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "source"
        with path.open("wb") as file:
            if source == STDIN:
                while data := sys.stdin.buffer.read(1 << 20):
                    file.write(data)
            else:
                with ask(source, None, _PATIENCE_S) as answer:
                    file.write(read_whole(answer, source, _MOST_FETCHED, _PATIENCE_S))
        yield path
