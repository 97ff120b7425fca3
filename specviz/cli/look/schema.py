"""`specviz doctor --schema`: the event records as JSON Schema, made from the very classes that read and write them."""

import inspect
from typing import Any

import click
import msgspec

from specviz.cli.printing import echo_json
from specviz.errors import SpecvizError, suggestion
from specviz.events import NAMES, VERSION, WIRE_RECORDS, Event, file_records

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def print_schema(record: str, as_list: bool) -> None:
    """The JSON Schema of a record, of any line of a trace where none is named, or a line on each record."""
    if as_list:
        for name, kind in sorted(NAMES.items()):
            click.echo(f"{name:<12} {'wire' if kind in WIRE_RECORDS else 'file'}  {summary(kind)}")
    else:
        echo_json(schema(record or None))


def schema(record: str | None = None) -> dict[str, Any]:
    """The schema of one record, or of any that may stand in a file. Raises SpecvizError with the nearest name."""
    if record is not None and record not in NAMES:
        raise SpecvizError(f"no record '{record}'{suggestion(record, NAMES)}")
    kinds = file_records() if record is None else (NAMES[record],)
    references, parts = msgspec.json.schema_components(kinds, ref_template="#/$defs/{name}")
    name = record or "trace"
    body = references[0] if record else {"oneOf": list(references)}
    return {
        "$schema": _DIALECT,
        "$id": f"urn:specviz:{name}:{VERSION[0]}.{VERSION[1]}",
        "title": f"specviz {name}" if record else "a line of a specviz trace",
        **body,
        "$defs": parts,
    }


def summary(kind: type[Event]) -> str:
    """The first line of a record's docstring."""
    return (inspect.getdoc(kind) or "").partition("\n")[0]
