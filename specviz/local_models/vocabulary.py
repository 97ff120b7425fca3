"""Whether two models number the same tokens, told from their tokenizer's files alone."""

import hashlib
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

_MOST_BYTES = 100_000_000


def vocabulary_of(folder: Path) -> tuple[int | None, str | None]:
    """How many tokens a folder's tokenizer has and a hash of them in order, the one that a GGUF's header gives too.

    Nothing for tokenizers whose file only their own library reads.
    """
    numbered = numbered_tokens(folder)
    if not numbered:
        return None, None
    digest = hashlib.sha256()
    for number in range(max(numbered) + 1):
        digest.update(numbered.get(number, "").encode("utf-8", "surrogatepass") + b"\0")
    return max(numbered) + 1, digest.hexdigest()


def numbered_tokens(folder: Path) -> dict[int, str]:
    """Token by id, as the tokenizer's files of a folder have them; nothing where only its own library reads them."""
    return _tokenizer_json(folder) or _vocab_json(folder)


def _tokenizer_json(folder: Path) -> dict[int, str]:
    document = _read(folder / "tokenizer.json")
    with suppress(KeyError, TypeError, AttributeError, ValueError):
        vocab = document["model"]["vocab"]
        words = vocab.items() if isinstance(vocab, dict) else ((entry[0], number) for number, entry in enumerate(vocab))
        numbered = {number: str(word) for word, number in words if _is_id(number)}
        added = document.get("added_tokens") or []
        return numbered | {
            added_token["id"]: str(added_token["content"]) for added_token in added if _is_id(added_token["id"])
        }
    return {}


def _vocab_json(folder: Path) -> dict[int, str]:
    words = {**_words(folder / "vocab.json"), **_words(folder / "added_tokens.json")}
    return {number: word for word, number in words.items()}


def _words(path: Path) -> dict[str, int]:
    document = _read(path)
    return {word: number for word, number in document.items() if _is_id(number)} if isinstance(document, dict) else {}


def _is_id(number: Any) -> bool:
    return isinstance(number, int) and 0 <= number < 1 << 24


def _read(path: Path) -> Any:
    with suppress(OSError, ValueError, RecursionError):
        if path.stat().st_size <= _MOST_BYTES:
            return json.loads(path.read_text(encoding="utf-8"))
    return {}
