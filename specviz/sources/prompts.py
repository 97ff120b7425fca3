"""Prompts to measure on: the bundled ones, or a JSONL file with `prompt`, `turns` (the first) or `question`."""

import hashlib
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from specviz.commands import Prompt
from specviz.errors import SpecvizError
from specviz.sources.bundled import bundled_prompts
from specviz.sources.chat_examples import CHAT_EXAMPLES

FIELDS = ("prompt", "turns", "question")
KINDS = ("domain", "category", "task")
BUNDLED = "bundled"
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PromptSet:
    """Texts and where they came from: a name without folders, and the hash of what was read.

    `domains`: the kind of each text, by the file's field `domain`, `category` or `task`, else one name for all.
    `places`: where each was found, `prompts.jsonl line 3`.
    """

    source: str
    sha256: str
    n_found: int
    texts: tuple[str, ...]
    domains: tuple[str, ...] = ()
    places: tuple[str, ...] = ()
    ours: bool = False  # they come with the package; a file may be called what they are

    @property
    def stream(self) -> tuple[Prompt, ...]:
        """As queries, to be decoded one after another."""
        query_fields = zip(self.texts, self.domains, self.places, strict=True)
        return tuple(Prompt(text=text, domain=domain, where=where) for text, domain, where in query_fields)


def load_prompts(path: Path | None, limit: int | None = None) -> PromptSet:
    """The prompts of a file, or the bundled ones. Raises SpecvizError with the line and the reason.

    With a `limit` they are taken at equal distances over the whole file, not from its beginning, because files are
    often sorted by kind.
    """
    return replace(_made(*_bundled(), limit), ours=True) if path is None else _made(*_read(path), limit)


def suited(prompts: PromptSet, chat: bool) -> PromptSet:
    """Messages in place of the bundled texts, no more of them, where a model is asked and does not go on."""
    if not (chat and prompts.ours):
        return prompts
    examples = [(text, name, f"message '{name}'") for name, text in CHAT_EXAMPLES.items()]
    few = len(prompts.texts) < prompts.n_found
    raw = "\0".join(CHAT_EXAMPLES.values()).encode()
    return _made(f"{BUNDLED} messages", raw, examples, len(prompts.texts) if few else None)


def parse_prompts(raw: bytes, name: str, domain: str) -> PromptSet:
    """The prompts of a file's bytes. `domain`: of those that say nothing of theirs. Raises SpecvizError by line."""
    return _made(name, raw, _parsed(raw, name, domain), None)


def _made(source: str, raw: bytes, entries: "Found", limit: int | None) -> PromptSet:
    texts, domains, places = zip(*spread(entries, limit), strict=True)
    return PromptSet(source, hashlib.sha256(raw).hexdigest()[:16], len(entries), texts, domains, places)


def spread(items: list[T], limit: int | None) -> list[T]:
    """At most `limit` prompts, evenly spaced, the first included."""
    if limit is None or limit >= len(items):
        return items
    return [items[k * len(items) // limit] for k in range(limit)]


Found = list[tuple[str, str, str]]  # text, domain, place


def _bundled() -> tuple[str, bytes, Found]:
    entries = [(text, name.partition("-")[0], f"{name}.txt") for name, text in bundled_prompts().items()]
    return BUNDLED, "\0".join(text for text, *_ in entries).encode(), entries


def _read(path: Path) -> tuple[str, bytes, Found]:
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise SpecvizError(f"cannot read the prompts '{path}': {error.strerror or error}") from None
    return path.name, raw, _parsed(raw, path.name, path.stem)


def _parsed(raw: bytes, name: str, domain: str) -> Found:
    try:
        lines = raw.decode("utf-8-sig").split("\n")  # not splitlines: a text may hold U+2028 and its like
    except UnicodeDecodeError as error:
        raise SpecvizError(f"the prompts '{name}' are not UTF-8 at byte {error.start}; save them as UTF-8") from None
    entries = [_entry(line, f"{name} line {number}", domain) for number, line in enumerate(lines, 1) if line.strip()]
    if not entries:
        raise SpecvizError(f"the prompts '{name}' hold no line; one JSON object a line, with {_words()}")
    return entries


def _entry(line: str, where: str, domain: str) -> tuple[str, str, str]:
    """Text, domain and place of one line."""
    try:
        record: Any = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise SpecvizError(f"{where} is not JSON: {error}") from None
    if not isinstance(record, dict):
        raise SpecvizError(f"{where} is no JSON object; one object a line, with {_words()}")
    name = next((name for name in FIELDS if name in record), None)
    if name is None:
        held = ", ".join(map(str, list(record)[:5])) or "nothing"
        raise SpecvizError(f"{where} has none of {', '.join(FIELDS)} (it holds {held})")
    value = record[name]
    if name == "turns" and isinstance(value, list) and value:
        value = value[0]
    if not isinstance(value, str) or not value:
        raise SpecvizError(f"{where}: {name} holds no text")
    kind = next((k for k in map(record.get, KINDS) if isinstance(k, str) and k.strip()), domain)
    if any("\ud800" <= sign <= "\udfff" for sign in value + kind):  # JSON may escape one half of a pair
        raise SpecvizError(f"{where} holds half of a character (a lone surrogate); write the whole one")
    return value, kind, where


def _words() -> str:
    return f"{', '.join(FIELDS[:-1])} or {FIELDS[-1]}"
