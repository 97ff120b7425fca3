"""What the plugins of all engines have in common: where to record, checking signatures first, and text of tokens."""

import os
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

from specviz_recorder.signatures import differing
from specviz_recorder.switch import Switch, tell

WHERE = "SPECVIZ_RECORD"  # the file
TEXT = "SPECVIZ_RECORD_TEXT"  # "0": token ids alone


def wanted() -> Path | None:
    """The file that the user asked for; None: nothing is recorded."""
    name = os.environ.get(WHERE, "").strip()
    return Path(name).expanduser() if name else None


def fits(engine: str, places: list[str]) -> bool:
    """Whether all signatures are as known; says in a line which one is not."""
    reason = Switch().guarded(lambda: differing(engine, places) or "")
    if reason:
        tell(f"records nothing: {reason}")
    return reason == ""


def texts_of(tokenizer: str) -> Callable[[int], str]:
    """Text of a token by the tokenizer in that folder or store; "" where it cannot be loaded, or is not wanted."""
    if os.environ.get(TEXT) == "0":
        return lambda token: ""
    try:
        from transformers import AutoTokenizer

        loaded: Any = AutoTokenizer.from_pretrained(tokenizer, local_files_only=True)
    except Exception as error:  # of whatever kind: text is a convenience
        tell(f"token ids without text: {type(error).__name__}: {error}".splitlines()[0])
        return lambda token: ""
    return lru_cache(1 << 16)(lambda token: str(loaded.decode([token])))
