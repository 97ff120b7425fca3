"""A file of another program as a trace: what it is is told from what stands in it, not from its name."""

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from specviz.engines.rounds import json_lines, llama_log, llama_speculative
from specviz.engines.rounds.importing import Imported, Opened, lines_of, opened
from specviz.errors import TraceError


class NotRounds(TraceError):
    """The file tells no rounds; it may tell counts."""


_NOT_READ = {  # what shows a file to be of a kind that once was read, what it is, and what to do
    '"traceEvents"': (
        "a Chrome trace",
        "open it in Perfetto; to see the rounds of vLLM or SGLang, load specviz-recorder into the engine",
    ),
    '"spec_decode_acceptance"': ("an export of AIPerf", "read the engine itself: specviz attach URL"),
}
_OPENING = 1 << 16  # characters in which a file shows that it is one of these
_BLOCK = 1 << 16  # characters of a file that is searched
_FIRST = 400  # lines that are looked at to tell what a file is
_MOST = 1 << 26  # characters of them
_LOADING = 50_000  # lines that llama.cpp writes at most about its two models before it decodes


def import_file(path: Path, out: Path, rule: str | None) -> Imported:
    """Read a file into a trace. Raises TraceError with what is read where it is nothing of that."""
    opening = _opening(path)
    for sign, (what, instead) in _NOT_READ.items():
        if opening.lstrip()[:1] in ("{", "[") and sign in opening:
            raise TraceError(f"{path} is {what}, which is not read any more: {instead}")
    lines = _lines(path)
    head, n = [], 0
    for line in lines:
        head.append(line)
        n += len(line)
        if len(head) == _FIRST or n > _MOST:
            break
    if not any(line.strip() for line in head):
        raise TraceError(f"{path} is empty")
    if llama_log.LOADING in "".join(head):  # both programs begin with what they say of the models
        head += _until_told(lines)
    rest = _chained(head, lines)
    text = "".join(head)
    if llama_speculative.recognised(text):
        return _llama(path, out, rule, rest, llama_speculative.read)
    if llama_log.recognised(text):
        with opened(path) as file:
            if not llama_log.names_tokens(iter(lambda: file.read(_BLOCK), "")):
                kind = TraceError if llama_log.is_verbose(text) else NotRounds  # the usual log tells counts alone
                raise kind(f"{path} is a log of llama.cpp that tells of no single round: {llama_log.OTHER}")
        return _llama(path, out, rule, rest, llama_log.read)
    return _json(path, out, rule, head, rest)


def _lines(path: Path) -> Iterator[str]:
    """Lines of a text file, zipped or not; what is cut off ends there. Raises TraceError."""
    with opened(path) as file:
        yield from lines_of(file)


def _opening(path: Path) -> str:
    """Its first characters: a file may be one line of any length."""
    with opened(path) as file:
        return file.read(_OPENING)


def _until_told(lines: Iterator[str]) -> Iterator[str]:
    """The lines up to the first one that only one program of llama.cpp writes."""
    for line in islice(lines, _LOADING):
        yield line
        if llama_speculative.recognised(line) or llama_log.serves(line):
            return


def _chained(head: list[str], rest: Iterator[str]) -> Iterator[str]:
    yield from head
    yield from rest


def _llama(
    path: Path, out: Path, rule: str | None, lines: Iterator[str], read: Callable[[Iterator[str], Opened], Any]
) -> Imported:
    imported: list[Imported] = []

    def begin(log: Any) -> Imported:
        header = dict(log.header)
        if rule is not None:
            header["rule"], header["setting"] = rule, "as told"
        imported.append(Imported(out, **header))
        return imported[0]

    try:
        read(lines, begin)
    except TraceError as error:
        if not imported:
            raise TraceError(f"{path}: {error}") from None
        imported[0].trace.close("error", str(error))
        raise TraceError(f"{path}: {error}; what was read is in {imported[0].trace.path}") from None
    if not imported:
        raise NotRounds(
            f"{path} is a log of llama.cpp in which no token of a request stands: run the program with -lv 10 and ask "
            "it something; this reads logs of October 2026 (build 10k)"
        )
    return imported[0]


def _json(path: Path, out: Path, rule: str | None, head: list[str], lines: Iterator[str]) -> Imported:
    first = _decoded(head[0]) if len(head) > 1 else None
    whole = _decoded("".join(head)) if first is None and len(head) < _FIRST else first
    if json_lines.is_counts(whole):
        imported = Imported(
            out, engine="vLLM", rule=rule or "unknown", known="counts", source="counts of requests", chains=True
        )
        _each(imported, path, lines, json_lines.is_counts, lambda line: json_lines.write_record(imported, line))
        return imported
    page = "a web page (HTML), " if head and head[0].lstrip().startswith("<") else ""
    raise NotRounds(f"{path} is {page}none of the files that are read")


def _each(imported: Imported, path: Path, lines: Iterator[str], wanted: Any, take: Any) -> None:
    """Every line; one that is torn ends the file, others of another kind are passed over and counted."""
    passed = 0
    for n, line in enumerate(lines, 1):
        if not line.strip():
            continue
        value = _decoded(line)
        if value is None:
            imported.trace.warn("cut_short", f"line {n} of {path.name} is no JSON: what stands before it is shown")
            break
        if not wanted(value):
            passed += 1
            continue
        try:
            take(value)
        except (TraceError, TypeError, ValueError) as error:  # what stands before it stays
            imported.trace.close("error", f"line {n}: {error}")
            raise TraceError(f"{path} line {n}: {error}; what stands before it is in {imported.trace.path}") from None
    if passed:
        imported.trace.warn("lines_passed", f"{passed} lines of {path.name} say nothing of speculative decoding")


def _decoded(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
