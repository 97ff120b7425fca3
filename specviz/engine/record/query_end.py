"""`Ended`: what a drafter that learns while serving is told when a query is over (`Drafter.ended`)."""

from collections.abc import Callable
from dataclasses import dataclass, field

from specviz.engine.decode.context import Drafter
from specviz.engine.decode.round import Round
from specviz.knobs import Knobs


@dataclass(slots=True)
class Served:
    """A query as it is served: times, tokens, and how many drafted tokens its rounds kept."""

    seconds: float = 0.0  # prefill included
    round_s: float = 0.0
    n_rounds: int = 0
    n_tokens: int = 0
    histogram: list[int] = field(default_factory=list)  # [j]: rounds that kept j drafted tokens

    def prefilled(self, dur_ns: int) -> None:
        """The prompt is in."""
        self.seconds += dur_ns / 1e9

    def add(self, done: Round) -> None:
        """A round is over; what was recorded of it is not serving."""
        took = (done.ended_ns - done.started_ns) / 1e9
        self.seconds += took
        self.round_s += took
        self.n_rounds += 1
        self.n_tokens += len(done.tokens)
        self.histogram += [0] * (done.n_accepted + 1 - len(self.histogram))
        self.histogram[done.n_accepted] += 1

    @property
    def mean_acceptance_length(self) -> float:
        """Tokens a round."""
        return self.n_tokens / self.n_rounds if self.n_rounds else 0.0


@dataclass(frozen=True, slots=True)
class Ended:
    """The query, the knobs as they stand for the next one, and a way to know what it would be like with a drafter.

    `next_length(drafter)`: mean acceptance length of the next query; None where there is none, and as a value when the
    query could not be decoded to its end.
    """

    query: int
    knobs: Knobs
    served: Served
    domain: str = ""
    first_token: int = 0
    next_length: Callable[[Drafter], float | None] | None = None
