"""A streamed answer that was saved (`curl -N .. > stream.txt`), as the trace that `specviz attach` makes of it."""

from collections.abc import Iterator, Mapping
from itertools import chain, islice
from pathlib import Path
from typing import Any

from specviz.engines.asking import UNREADABLE, ServerError
from specviz.engines.rounds.attach import READERS, Taken
from specviz.engines.rounds.importing import Imported, lines_of, opened
from specviz.engines.rounds.server import chunks
from specviz.trace.rules import DEFAULT_RULES

_LOOKED_AT = 64  # lines for the first event


def import_stream(path: Path, out: Path, rule: str | None) -> Imported | None:
    """The rounds of a stream; None for what is none, and for one that tells none. Raises TraceError."""
    with opened(path) as file:
        lines = lines_of(file)
        head = list(islice(lines, _LOOKED_AT))
        if not any(line.startswith("data:") for line in head):
            return None
        try:
            events = chunks(line.encode() for line in chain(head, lines))
            return _read(events, out, rule)
        except (ServerError, *UNREADABLE):
            return None


def _read(events: Iterator[Mapping[str, Any]], out: Path, rule: str | None) -> Imported | None:
    first = next(events, None)
    engine = _engine(first or {})
    if first is None or engine is None:
        return None
    default = DEFAULT_RULES[engine].rule.name
    imported = Imported(
        out, engine=engine, rule=rule or default, known="counts", source="saved stream", chains=engine != "SGLang"
    )
    reader: Taken = READERS[engine](imported.trace)
    for event in chain([first], events):
        reader.take(event)
    if reader.done:
        reader.end()
    else:
        reader.cut()
    if imported.trace.n_rounds:
        return imported
    imported.trace.abandon()
    return None


def _engine(event: Mapping[str, Any]) -> str | None:
    """Whose event it is."""
    if "timings" in event and ("id_slot" in event or "tokens_predicted" in event or "content" in event):
        return "llama.cpp"
    if "meta_info" in event:
        return "SGLang"
    return "vLLM" if "choices" in event else None
