"""Texts out of a trace, as the early-exit replay needs them: what was written, how it ended, what heads said of it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from specviz.cost.replay import Table
from specviz.errors import SpecvizError
from specviz.events import Commit, Event, ExitTable, Header, Prefill, RoundEnd


@dataclass(slots=True)
class Query:
    """One prompt and its text. `room`: the most tokens it was allowed, `stops`: its end tokens, as far as is known."""

    q: int
    prompt: list[int]
    room: int
    tokens: list[int] = field(default_factory=list)
    n_rounds: int = 0
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
    found: list[Query] = []
    for event in events:
        if isinstance(event, Header):
            header = event
        elif isinstance(event, Prefill):
            assert header is not None
            found.append(Query(event.q, list(event.prompt), int(header.sampling.get("max_new_tokens", 0))))
        elif isinstance(event, Commit):
            found[-1].tokens += event.tokens
            found[-1].finish = event.finish or found[-1].finish
        elif isinstance(event, RoundEnd):
            found[-1].n_rounds += 1
        elif isinstance(event, ExitTable):
            found[event.q].records.append(event)
    if header is None or not any(query.tokens for query in found):
        raise SpecvizError("the trace has no text to replay; record a run with specviz run --record FILE")
    if not header.keeps_tokens and float(header.sampling.get("temperature", 0)) > 0:
        raise SpecvizError(
            f"under verifier {header.verifier} the text depends on what was drafted, so other settings cannot be "
            "replayed on it; record with --verifier walk or at temperature 0"
        )
    for query in found:
        if query.finish in ("length", "context"):
            query.room = len(query.tokens)
    return header, [query for query in found if query.tokens]


def n_layers_of(header: Header) -> int:
    """Layers of the target that wrote the trace. Raises SpecvizError when it does not say."""
    target = header.models.target
    if target is None or target.n_layers is None:
        raise SpecvizError("the trace does not say how many layers its target has; record it again")
    return target.n_layers


def own_values(header: Header, names: Sequence[str]) -> dict[str, object]:
    """The knob values the run had, of those asked for."""
    return {name: header.knobs[name] for name in names if name in header.knobs}
