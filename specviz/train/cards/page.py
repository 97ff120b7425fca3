"""The card of a trained part: its numbers (`card.json`), a page drawn from them by a template, and pictures.

A template of `templates/` is text with `{name[key]:format}` for the numbers. Beside Python's own formats: `share` and
`percent` (a dash where there is no number), `list`, and `cells FORMAT`, a row of a table. A line that begins with % is
no text: `%for name[, name] in numbers`, `%if numbers`, `%if not numbers` up to their `%end`, and `%include template`.

No card names a path of the machine that made it.
"""

import json
import platform
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from string import Formatter
from typing import Any

import torch

_FOR = re.compile(r"%for (.+) in (\S+)")
_IF = re.compile(r"%if (not )?(\S+)")
_SHARES = {"share": ".0%", "percent": ".1%"}


class _CardFormatter(Formatter):
    def format_field(self, value: Any, spec: str) -> str:
        if spec == "list":
            return ", ".join(map(str, value))
        if spec.startswith("cells"):
            return " | ".join(self.format_field(each, spec[6:]) for each in value)
        if spec in _SHARES:
            return "-" if value is None else format(value, _SHARES[spec])
        return format(value, spec)


_FORMATTER = _CardFormatter()


def page(template: str, numbers: Mapping[str, Any]) -> str:
    """The template with the numbers in it."""
    return "".join(_drawn(_lines(template), numbers))


def write(folder: Path, template: str, numbers: dict[str, Any], said: Mapping[str, Any], **pictures: str) -> None:
    """Numbers, page and pictures (`.svg`) beside the weights. `said`: what the page needs besides the numbers."""
    (folder / "card.json").write_text(json.dumps(numbers, indent=1) + "\n", encoding="utf-8")
    for name, picture in pictures.items():
        (folder / f"{name}.svg").write_text(picture, encoding="utf-8")
    (folder / "README.md").write_text(page(template, {**numbers, **said}), encoding="utf-8")


def versions() -> dict[str, str]:
    """Versions that move numbers."""
    return {"python": platform.python_version(), "torch": str(torch.__version__)}


def _lines(template: str) -> list[str]:
    text = (files(__package__) / "templates" / f"{template}.md").read_text(encoding="utf-8")
    found: list[str] = []
    for line in text.splitlines(keepends=True):
        found += _lines(line.split()[1]) if line.startswith("%include ") else [line]
    return found


def _drawn(lines: Sequence[str], numbers: Mapping[str, Any]) -> Iterator[str]:
    at = 0
    while at < len(lines):
        line = lines[at]
        at += 1
        if not line.startswith("%"):
            yield _FORMATTER.vformat(line, (), numbers)
            continue
        body = lines[at : _end(lines, at)]
        at += len(body) + 1
        if found := _FOR.match(line):
            names = found[1].split(", ")
            many = numbers[found[2]]
            for each in many.items() if isinstance(many, dict) else many:
                yield from _drawn(
                    body, {**numbers, **dict(zip(names, each if len(names) > 1 else [each], strict=True))}
                )
        elif (found := _IF.match(line)) and bool(numbers[found[2]]) is not bool(found[1]):
            yield from _drawn(body, numbers)


def _end(lines: Sequence[str], at: int) -> int:
    """Where the block that begins at `at` ends."""
    depth = 1
    while depth:
        depth += {"%for": 1, "%if": 1, "%end": -1}.get(lines[at].split(" ")[0].strip(), 0)
        at += 1
    return at - 1
