"""One family of errors for what a user can mend.

A message says what was wrong, the value seen, the nearest right value and what to do. The command line prints it as one
line and exits with `exit_code`; nothing in this family ever ends in a traceback.
"""

import difflib
from collections.abc import Iterable


class SpecvizError(Exception):
    """Bad input of any kind: one clear line, exit code 2."""

    exit_code = 2


class KnobError(SpecvizError):
    """A knob that does not exist, or a value out of its range."""


class TraceError(SpecvizError):
    """A trace that cannot be read: says the line and the reason."""


class WriteError(SpecvizError):
    """What a user asked to be written was not written whole; the run itself may have gone well."""

    exit_code = 1


class ModelError(SpecvizError):
    """A model folder, tokenizer or layer type that cannot be used."""


class MissingExtra(SpecvizError):
    """A part of specviz that was not installed; carries the line that installs it."""

    def __init__(self, extra: str, what: str) -> None:
        super().__init__(f"{what} needs the extra '{extra}': pip install 'specviz-llm[{extra}]'")


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known name closest to `word`, or None when nothing is close."""
    names = {name.lower(): name for name in known}
    close = difflib.get_close_matches(word.lower(), names, n=1, cutoff=0.5)
    return names[close[0]] if close else None


def suggestion(word: str, known: Iterable[str]) -> str:
    """`", did you mean 'gamma'?"` or the whole list when nothing is close."""
    names = list(known)
    close = nearest(word, names)
    return f"; did you mean '{close}'?" if close else f"; known: {', '.join(names)}"
