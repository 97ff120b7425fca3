"""How the commands print what they found: sections of names and values for people, one JSON object for programs."""

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import click
import msgspec

from specviz.text import running


def echo_json(value: Any) -> None:
    """One JSON object on standard output, keys in our order: on one line for a program, indented on a terminal."""
    raw = msgspec.json.encode(value)
    click.echo((msgspec.json.format(raw, indent=2) if sys.stdout.isatty() else raw).decode())


def echo_sections(sections: Mapping[str, Sequence[tuple[str, str]]]) -> None:
    """Titles with aligned names and values below them; whatever a value holds, it stays on its line."""
    for number, (title, rows) in enumerate(sections.items()):
        if number:
            click.echo()
        click.secho(title, bold=True)
        widest = max((len(name) for name, _ in rows), default=0)
        for name, value in rows:
            click.echo(f"  {name:<{widest}}  {running(value)}")


def narrate(text: str) -> None:
    """A line of narration on standard error."""
    print(text, file=sys.stderr, flush=True)
