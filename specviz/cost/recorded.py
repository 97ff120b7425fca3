"""Texts out of a trace, as the early-exit replay needs them: what was written, how it ended, what heads said of it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from specviz.cost.exit_replay import Table
from specviz.errors import SpecvizError
from specviz.events import Commit, Event, ExitTable, Header, Knob, Prefill


@dataclass(slots=True)
class Query:
    """One prompt and its text. `room`: the most tokens it was allowed, `stops`: its end tokens, as far as is known."""

    q: int
    prompt: list[int]
    room: int
    tokens: list[int] = field(default_factory=list)
    n_rounds: int = 0  # that committed something, the one in which a recording was cut off included
    n_changes: int = 0  # knobs moved while it was decoded
    finish: str | None = None
    records: list[ExitTable] = field(default_factory=list)
    stops: frozenset[int] = frozenset()

    def table(self, n_layers: int) -> Table:
        """What the heads said. Raises SpecvizError when that is not recorded."""
        return Table.of(self.records, self.tokens, n_layers)

    @property
    def ends(self) -> frozenset[int]:
        """Drafts that are never fed: the end tokens; where they are not known, the one the text ended with."""
        return self.stops | frozenset(self.tokens[-1:] if self.finish == "eos" else ())


def queries(events: Iterable[Event]) -> tuple[Header, list[Query]]:
    """The texts of a run. Raises SpecvizError for a run whose text depends on what was drafted."""
    header: Header | None = None
    found: dict[int, Query] = {}
    for event in events:
        if isinstance(event, Header):
            header = event
        elif isinstance(event, Prefill):
            assert header is not None
            found[event.q] = Query(event.q, list(event.prompt), _room(header))
        elif isinstance(event, Commit | Knob | ExitTable):
            _take(event, found)
    if header is None or not any(query.tokens for query in found.values()):
        raise SpecvizError("the trace has no text to replay; record a run with specviz run --record FILE")
    if not header.keeps_tokens and temperature_of(header) > 0:
        raise SpecvizError(
            f"under verifier {header.verifier} the text depends on what was drafted, so other settings cannot be "
            "replayed on it; record with --verifier walk or at temperature 0"
        )
    for query in found.values():
        if query.finish in ("length", "context"):
            query.room = len(query.tokens)
    return header, [query for query in found.values() if query.tokens]


def _take(event: Commit | Knob | ExitTable, found: dict[int, Query]) -> None:
    query = found.get(event.q)
    if query is None:
        if isinstance(event, Knob):  # before the first prompt: part of no text
            return
        kind = event.__struct_config__.tag
        raise SpecvizError(f"the trace has a '{kind}' record of query {event.q}, but no prompt of it: record it again")
    if isinstance(event, Commit):
        query.tokens += event.tokens
        query.finish = event.finish or query.finish
        query.n_rounds += 1
    elif isinstance(event, ExitTable):
        query.records.append(event)
    else:
        query.n_changes += 1


def _room(header: Header) -> int:
    """The most tokens a text was allowed."""
    room = header.sampling.get("max_new_tokens", 0)
    return int(room) if isinstance(room, int | float) and 0 <= room < 1 << 31 else 0


def temperature_of(header: Header) -> float:
    """Of the run; 0 where the trace does not say."""
    value = header.sampling.get("temperature", 0)
    return float(value) if isinstance(value, int | float) else 0.0


def n_layers_of(header: Header) -> int:
    """Layers of the target that wrote the trace. Raises SpecvizError when it does not say."""
    target = header.models.target
    if target is None or not target.n_layers:
        raise SpecvizError("the trace does not say how many layers its target has; record it again")
    return target.n_layers


def own_values(header: Header, names: Sequence[str]) -> dict[str, object]:
    """The knob values the run had, of those asked for."""
    return {name: header.knobs[name] for name in names if name in header.knobs}
