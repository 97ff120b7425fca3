"""The training text, found on every machine: standard library, installed packages, the user's files, sums.

Promises: every document carries its domain (`code`, `prose`, `sums`) and a key, the hash of the *file* it came from;
identical files count once; a file and the docstrings taken out of it share a key, so they fall on the same side of
the held-out split. The order is by key: it depends on contents, not on folder order.

Refuses files that teach little: generated tables, minified lines, very large files.
"""

import ast
import hashlib
import json
import operator
import re
import sysconfig
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from specviz.errors import SpecvizError

DOMAINS = ("code", "prose", "sums")
HELD_OUT_SHARE = 0.03
MAX_FILE_CHARS = 300_000
MAX_PACKAGE_CHARS = 8_000_000
_PROSE_SUFFIXES = {".rst", ".txt", ".md"}
_NOT_PROSE = {"top_level.txt", "entry_points.txt", "requirements.txt", "SOURCES.txt", "dependency_links.txt"}
_CALCULATOR_MARK = re.compile(r"<<[^<>]*>>")


def is_held_out(key: str) -> bool:
    """Whether what has that key is measured on and never trained on."""
    return int(key[:8], 16) < HELD_OUT_SHARE * 2**32


@dataclass(frozen=True, slots=True)
class Document:
    """One text: `key` decides its side of the split, `source` names where it came from on the model card."""

    domain: str
    source: str
    key: str
    text: str

    @property
    def held_out(self) -> bool:
        """Whether the document is measured on and never trained on."""
        return is_held_out(self.key)


@dataclass(frozen=True, slots=True)
class _File:
    is_code: bool
    key: str
    text: str


@dataclass(frozen=True, slots=True)
class CorpusRequest:
    """What the user asked to train on, besides the standard library."""

    packages: bool = False
    texts: tuple[Path, ...] = ()
    n_sum_pages: int = 0
    seed: int = 0


def key_of(text: str) -> str:
    """The hash that identifies a file by its contents."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def gather(wanted: CorpusRequest) -> list[Document]:
    """All documents, without repeats, ordered by key."""
    seen: dict[tuple[str, str], Document] = {}
    for document in _all(wanted):
        seen.setdefault((document.key, document.domain), document)
    return [seen[name] for name in sorted(seen)]


def _all(wanted: CorpusRequest) -> Iterator[Document]:
    paths = sysconfig.get_paths()
    stdlib = Path(paths["stdlib"])
    from pydoc_data.topics import topics  # the language reference that `help()` shows

    for text in topics.values():
        yield Document("prose", "topics", key_of(text), text)
    skip = ("site-packages", "dist-packages", "pydoc_data", "encodings")
    yield from _documents(_files(stdlib, skip), "stdlib")
    if wanted.packages:
        for name in sorted({paths["purelib"], paths["platlib"]}):
            for package in sorted(path for path in Path(name).iterdir() if path.is_dir()):
                yield from _documents(_capped(_files(package, skip=())), "packages")
    for path in wanted.texts:
        yield from read_text_file(path)
    for page in sum_pages(wanted.n_sum_pages, wanted.seed):
        yield Document("sums", "sums", key_of(page), page)


def _capped(files: Iterator[_File]) -> Iterator[_File]:
    """Hold one package to a share of the corpus, choosing by key so that the choice does not favour early letters.

    The lowest keys are the held-out ones, so of a package that is cut, more than the usual share is held out.
    """
    room = MAX_PACKAGE_CHARS
    for file in sorted(files, key=lambda document: document.key):
        room -= len(file.text)
        if room < 0:
            return
        yield file


def _files(root: Path, skip: Sequence[str]) -> Iterator[_File]:
    """The files under `root` that are code or prose and teach something."""
    for path in sorted(root.rglob("*")):
        if any(part in skip for part in path.relative_to(root).parts):
            continue
        is_code = path.suffix == ".py"
        is_prose = path.name == "METADATA" or (path.suffix in _PROSE_SUFFIXES and path.name not in _NOT_PROSE)
        if is_code or is_prose:
            try:
                text = path.read_text(encoding="utf-8")
            except (UnicodeDecodeError, OSError):
                continue
            if path.name == "METADATA":  # the header is bookkeeping; what follows the first blank line is prose
                text = text.partition("\n\n")[2]
            if teaches(text):
                yield _File(is_code, key_of(text), text)


def _documents(files: Iterable[_File], source: str) -> Iterator[Document]:
    """Each file as a document and, for code, its longer docstrings apart as prose."""
    for file in files:
        if file.is_code:
            yield Document("code", source, file.key, file.text)
        prose = "\n\n".join(_docstrings(file.text)) + "\n" if file.is_code else file.text
        if len(prose) > 400:
            yield Document("prose", source, file.key, prose)


def parsed(text: str) -> ast.Module:
    """The program a file is; an empty one where it is none that this Python reads."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return ast.Module([], [])


def _docstrings(text: str) -> Iterator[str]:
    for node in ast.walk(parsed(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            docstring = ast.get_docstring(node)
            if docstring and len(docstring) > 200:
                yield docstring


def teaches(text: str) -> bool:
    """Whether a file reads like something a person wrote: no tables of numbers, no minified lines, not huge."""
    if not 40 <= len(text) <= MAX_FILE_CHARS:
        return False
    lines = text.splitlines()
    digits = sum(map(str.isdigit, text[:20_000])) / min(len(text), 20_000)
    return max(map(len, lines)) <= 2_000 and len(text) / len(lines) <= 160 and digits <= 0.2


def read_text_file(path: Path) -> Iterator[Document]:
    """A user's file as prose: the whole of a plain text, one document for each line of a `.jsonl`."""
    if path.suffix == ".jsonl":
        yield from (_document(path, fields) for fields in records(path))
    else:
        text = _read(path)
        yield Document("prose", path.name, key_of(text), text)


def records(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of a `.jsonl` file. Raises SpecvizError, with the line, for what is none."""
    for number, line in enumerate(_read(path).rstrip("\n").split("\n"), 1):
        try:
            yield dict(json.loads(line).items())
        except (ValueError, AttributeError) as error:
            raise SpecvizError(
                f"{path.name}, line {number}: not a JSON object ({error}); a .jsonl needs one a line"
            ) from error


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SpecvizError(
            f"cannot read the training text {path}: {error}; give a UTF-8 .txt or .jsonl file"
        ) from error


def _document(path: Path, fields: dict[str, Any]) -> Document:
    """`Field: value` lines of the record's strings, without the calculator marks that GSM8K carries."""
    strings = {name: value for name, value in fields.items() if isinstance(value, str)}
    body = "\n".join(f"{name.capitalize()}: {value}" for name, value in strings.items())
    text = _CALCULATOR_MARK.sub("", body) + "\n"
    return Document("prose", path.name, key_of(text), text)


_LINES_PER_PAGE = 24
_SIGNS: dict[str, Callable[[int, int], int]] = {"+": operator.add, "-": operator.sub, "*": operator.mul}
_WORDS = {"+": "plus", "-": "minus", "*": "times"}


def _operands(rng: Random, sign: str, digits: int) -> tuple[int, int]:
    """Two numbers whose result is never negative; products stay in the small table."""
    if sign == "*":
        return rng.randint(0, 12), rng.randint(0, 12)
    left, right = rng.randrange(10**digits), rng.randrange(10**digits)
    return (max(left, right), min(left, right)) if sign == "-" else (left, right)


def _plain(rng: Random, sign: str, digits: int) -> Iterator[str]:
    for _ in range(_LINES_PER_PAGE):
        left, right = _operands(rng, sign, digits)
        yield f"{left} {sign} {right} = {_SIGNS[sign](left, right)}"


def _spoken(rng: Random, sign: str, digits: int) -> Iterator[str]:
    for _ in range(_LINES_PER_PAGE):
        left, right = _operands(rng, sign, digits)
        yield f"What is {left} {_WORDS[sign]} {right}? It is {_SIGNS[sign](left, right)}."


def _running(rng: Random, sign: str, digits: int) -> Iterator[str]:
    """A running total: each line starts from the result of the line above."""
    total, step = rng.randrange(10**digits), rng.randint(1, 12)
    for _ in range(_LINES_PER_PAGE):
        yield f"{total} + {step} = {total + step}"
        total += step


def _table(rng: Random, sign: str, digits: int) -> Iterator[str]:
    """A multiplication table, read upwards from one."""
    factor = rng.randint(2, 12)
    for row in range(1, 13):
        yield f"{row} * {factor} = {row * factor}"


_KINDS = (_plain, _plain, _spoken, _running, _table)


def sum_pages(n_pages: int, seed: int) -> Iterator[str]:
    """Yield `n_pages` pages of exercises; the same seed gives the same pages on every machine."""
    rng = Random(seed)
    for _ in range(n_pages):
        kind, sign, digits = rng.choice(_KINDS), rng.choice("++-*"), rng.choice((1, 2, 2, 3))
        yield "\n".join(kind(rng, sign, digits)) + "\n"
