"""A table of words, as every report is shown: in the terminal and on the page."""

from dataclasses import dataclass

Rows = list[list[str]]


@dataclass(frozen=True, slots=True)
class Sheet:
    """A titled table; `note` says how to read it."""

    title: str
    head: tuple[str, ...]
    rows: Rows
    note: str
