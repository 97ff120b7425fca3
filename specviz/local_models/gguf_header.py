"""What a GGUF file says of itself, read from its first megabytes: architecture, sizes, vocabulary, template.

The library's own reader takes seconds for a vocabulary, which a list of models cannot wait for. A file is somebody
else's: every length is checked against what the file holds before anything is read.
Source of the layout: ggml-org/ggml, docs/gguf.md.
"""

import hashlib
import struct
from collections.abc import Callable
from dataclasses import dataclass
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any, TypeVar

from specviz import model_folder
from specviz.errors import ModelError

T = TypeVar("T")
MAGIC = b"GGUF"
_PLAIN = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_TEXT, _ARRAY = 8, 9
_MOST_FIELDS = 4096
_WHOLE, _MOST_NUMBERS = (0, 1, 2, 3, 4, 5, 10, 11), 1024


@dataclass(frozen=True, slots=True)
class GgufHeader:
    """`fields`: name → value, of arrays only short ones of whole numbers; `tokens`: how many the vocabulary has,
    `vocabulary`: a hash of them."""

    fields: dict[str, Any]
    n_tensors: int
    tokens: int
    vocabulary: str | None

    @property
    def architecture(self) -> str:
        """As llama.cpp calls it."""
        return str(self.fields.get("general.architecture", "?"))

    def size(self, name: str) -> int | None:
        """A number of the architecture's own, such as `block_count`."""
        value = self.fields.get(f"{self.architecture}.{name}")
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    @property
    def template(self) -> bool:
        """Whether it brings a chat template."""
        return bool(self.fields.get("tokenizer.chat_template"))


def is_gguf(path: Path) -> bool:
    """Whether a file begins as a GGUF does."""
    try:
        with path.open("rb") as stream:
            return stream.read(4) == MAGIC
    except (OSError, ValueError):
        return False


def read_header(path: Path) -> GgufHeader:
    """The header of a file. Raises ModelError in one line."""
    return _read(path, _Reader.header)


def read_vocabulary(path: Path) -> list[str]:
    """The tokens of a file, by id. Raises ModelError in one line."""
    return _read(path, _Reader.words)


def _read(path: Path, read: "Callable[[_Reader], T]") -> T:
    shown = model_folder.shown(path.name)
    try:
        with path.open("rb") as stream, mmap(stream.fileno(), 0, access=ACCESS_READ) as held:
            return read(_Reader(held))
    except (struct.error, IndexError, KeyError, ValueError, UnicodeDecodeError, OverflowError, MemoryError):
        raise ModelError(f"{shown} is no GGUF file, or is cut short") from None
    except OSError as error:
        raise ModelError(f"{shown} cannot be read: {error.strerror or error}") from None


class _Reader:
    """Reads on from `at`, never behind the end."""

    def __init__(self, held: mmap) -> None:
        self._held, self._at = held, 0
        self._keep: list[str] | None = None  # the vocabulary's tokens, read on demand

    def header(self) -> GgufHeader:
        if self._take(4) != MAGIC:
            raise ValueError("another kind of file")
        version, n_tensors, n_fields = self._number("I"), self._number("Q"), self._number("Q")
        if version not in (2, 3) or n_fields > _MOST_FIELDS:
            raise ValueError("another version")
        fields: dict[str, Any] = {}
        tokens, vocabulary = 0, None
        for _ in range(n_fields):
            name, kind = self._text(), self._number("I")
            if kind != _ARRAY:
                fields[name] = self._value(kind)
            elif name == "tokenizer.ggml.tokens":
                tokens, vocabulary = self._tokens()
            else:
                numbers = self._array()
                if numbers is not None:
                    fields[name] = numbers
        return GgufHeader(fields, n_tensors, tokens, vocabulary)

    def _take(self, size: int) -> bytes:
        end = self._at + size
        if end > len(self._held):
            raise ValueError("cut short")
        data = self._held[self._at : end]
        self._at = end
        return data

    def _number(self, code: str) -> Any:
        return struct.unpack(f"<{code}", self._take(struct.calcsize(f"<{code}")))[0]

    def _text(self) -> str:
        return self._take(self._number("Q")).decode("utf-8", "replace")

    def _value(self, kind: int) -> Any:
        return self._text() if kind == _TEXT else self._number(_PLAIN[kind])

    def _tokens(self) -> tuple[int, str | None]:
        """How many, and a hash of all in their order."""
        kind, count = self._number("I"), self._number("Q")
        if kind != _TEXT:
            raise ValueError("a vocabulary is of texts")
        digest = hashlib.sha256()
        for _ in range(count):
            word = self._take(self._number("Q"))
            digest.update(word + b"\0")
            if self._keep is not None:
                self._keep.append(word.decode("utf-8", "replace"))
        return count, digest.hexdigest()

    def words(self) -> list[str]:
        """The vocabulary, by id; nothing where there is none."""
        self._keep = []
        self.header()
        return self._keep

    def _array(self) -> list[int] | None:
        """A short array of whole numbers; of any other None, passed over."""
        kind, count = self._number("I"), self._number("Q")
        if kind in _WHOLE and count <= _MOST_NUMBERS:
            return [int(self._number(_PLAIN[kind])) for _ in range(count)]
        if kind in _PLAIN:
            self._take_nothing(count * struct.calcsize(f"<{_PLAIN[kind]}"))
        elif kind == _TEXT:
            for _ in range(count):
                self._take_nothing(self._number("Q"))
        else:
            raise ValueError("arrays of arrays are not in use")
        return None

    def _take_nothing(self, size: int) -> None:
        self._at += size
        if self._at > len(self._held):
            raise ValueError("cut short")
