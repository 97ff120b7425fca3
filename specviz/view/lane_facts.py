"""What the lanes are made of, round by round: forwards, fates, and the modelled clock played along.

Grows with the run; a round that is not complete has no facts yet. Fates are known from the round that settled them on.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from specviz.cost.model_clock import Facts, Forward, ModelClock, Played, Rates
from specviz.cost.round_facts import facts_of
from specviz.events import Signal
from specviz.view.fold import Run
from specviz.view.lanes import Fate
from specviz.view.records import RoundRecord
from specviz.view.series import records_of

ASSUMED_T = 0.001  # seconds of a draft forward where none was measured


@dataclass(frozen=True, slots=True)
class Known:
    """One complete round. `played` is None where the modelled clock knows no such round (self-drafting)."""

    key: Any
    facts: Facts | None
    played: Played | None


@dataclass
class RunFacts:
    """Of one run, in order of rounds."""

    run: Run
    c: float | None = None  # a speed ratio to try instead of the measured one
    rounds: list[Known] = field(default_factory=list)
    settled: dict[tuple[int, int], tuple[Fate, int]] = field(default_factory=dict)  # (query, node): fate, round index
    _clock: ModelClock = field(default_factory=lambda: ModelClock(Rates()))
    _born: int = 0
    _rates: Rates | None = None

    def update(self) -> None:
        """Take in the rounds that came to their end; start again when one was replaced or the rates changed."""
        rates = self.rates
        if rates != self._rates or any(k.key != _key(r) for k, r in zip(self.rounds, self.run.rounds, strict=False)):
            self._rates, self._clock, self._born = rates, ModelClock(rates), 0
            self.rounds.clear()
            self.settled.clear()
        for record in self.run.rounds[len(self.rounds) :]:
            if record.end is None:
                return
            self._take(record)

    @property
    def rates(self) -> Rates:
        """Costs of the modelled clock: measured ones where the trace holds a calibration."""
        hrad = [s.dur_ns / 1e9 for r in self.run.rounds[:64] for s in r.every(Signal) if s.source == "hrad"]
        took = median(hrad) if hrad else 0.0
        found = self.run.calibration
        rates = Rates.of(found, took) if found is not None else Rates(t=ASSUMED_T, hrad=took)
        if self.c is None:
            return rates
        return Rates(rates.t, self.c, rates.kappa_q, rates.kappa_p, rates.sync, rates.hrad)

    @property
    def calibrated(self) -> bool:
        """Whether the costs were measured on the machine that wrote the trace."""
        return self.run.calibration is not None

    def _take(self, record: RoundRecord) -> None:
        assert record.end is not None
        if record.index == record.query.first:
            self._born = 0
        facts = facts_of(list(records_of(record)), record.end, self._born)
        self._born = max([self._born, *(node + 1 for node in record.nodes)])
        played = self._clock.play(facts) if facts is not None else None
        facts = facts or _self_drafted(record)
        self.rounds.append(Known(_key(record), facts, played))
        for node, fate in facts.fates if facts is not None else ():
            self.settled[record.q, node] = (fate, record.index)  # type: ignore[assignment]

    def fate(self, record: RoundRecord, node: int, until: int) -> Fate | None:
        """What became of a token, if round `until` or an earlier one settled it."""
        found = self.settled.get((record.q, node))
        return found[0] if found is not None and found[1] <= until else None

    def voided(self, index: int) -> Mapping[int, Fate]:
        """Tokens a round settled that did not become text."""
        if index >= len(self.rounds):
            return {}
        facts = self.rounds[index].facts
        fates: Iterable[Any] = facts.fates if facts is not None else ()
        return {node: fate for node, fate in fates if fate != "accepted"}


def _self_drafted(record: RoundRecord) -> Facts:
    """A round that drafted with the target's own layers: no modelled clock, but forwards and fates all the same."""
    assert record.end is not None
    words: Mapping[str, Fate] = {"accepted": "accepted", "rejected": "rejected", "untested": "orphaned"}
    nodes = [node for node in record.nodes.values() if node.kept]
    fates = [(v.node, words[v.status]) for v in record.verdicts.values() if v.status in words]
    return Facts(
        record.r, record.end.n_emitted, 1 + sum(node.fed for node in nodes),
        tuple(Forward(1, (node.node,)) for node in nodes), fates=tuple(fates),
    )  # fmt: skip


def _key(record: RoundRecord) -> Any:
    return id(record), record.stamp
