"""What a `Session` is made of and whom it tells: `Parts`, and the `Sink` a probe stands behind."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from specviz.engine.decode.context import Drafter, Models
from specviz.engine.decode.overlap import Lanes, Serial
from specviz.engine.decode.round import Round
from specviz.events import Knob, Level
from specviz.probability.plan import Verifier

if TYPE_CHECKING:
    from specviz.engine.decode.session import Session


class Sink(Protocol):
    """Where a session reports; `specviz.engine.record.probe.Probe` is the one of production. None records nothing."""

    level: Level

    def prefilled(self, session: "Session", dur_ns: int) -> None: ...
    def knob(self, event: Knob) -> None: ...
    def round(self, done: Round) -> None: ...
    def aborted(self, begun: Round, why: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Parts:
    """What decodes: models, drafter (None: plain decoding), verifier, lanes."""

    models: Models
    drafter: Drafter | None
    verifier: Verifier
    lanes: Lanes = field(default_factory=Serial)
