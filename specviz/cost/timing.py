"""From the records of a trace to the facts the model clock plays: which forwards a round made, where and for what.

One reader for views, metrics and benchmarks. What is not written is derived: a chain or tree takes one draft forward a
level, over the parents of that level; a draft stage one forward a look (`draft_step`), the look that stopped it
included; branches one forward a position over their live rows, and one more when the branch point's law was unknown.
Records of level `none` name no nodes: only rounds of plain decoding can be told from them.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from specviz.cost.model_clock import Facts, Forward
from specviz.events import (
    Climb,
    DraftStep,
    Event,
    ExitRound,
    Fork,
    Node,
    Posterior,
    RoundEnd,
    RoundStart,
    Settle,
    Signal,
    Verify,
)

_KINDS = (Climb, DraftStep, ExitRound, Fork, Node, Posterior, Settle, Signal, Verify)
_FATES = {"accepted": "accepted", "rejected": "rejected", "untested": "orphaned"}


@dataclass(slots=True)
class RoundReader:
    """Give it every record in order; at a round's end `add` answers with its facts.

    None for rounds of early exit, which climb the target's own layers and have a clock of their own (cost.ledger).
    """

    born: int = 0  # ids below are older than this round
    _query: int = -1
    _records: list[Event] = field(default_factory=list)

    def add(self, event: Event) -> Facts | None:
        """Take in one record."""
        if isinstance(event, RoundStart):
            self._records = []  # those of an aborted round are dropped
            if event.q != self._query:
                self._query, self.born = event.q, 0
        if isinstance(event, _KINDS):
            self._records.append(event)
        if not isinstance(event, RoundEnd):
            return None
        records, self._records = self._records, []
        found = facts_of(records, event, self.born)
        self.born = max([self.born, *(node.node + 1 for node in _every(records, Node))])
        return found


def run_facts(events: Iterable[Event]) -> Iterator[Facts]:
    """The facts of every round of a run that has any."""
    reader = RoundReader()
    for event in events:
        found = reader.add(event)
        if found is not None:
            yield found


def facts_of(records: Sequence[Event], end: RoundEnd, born: int = 0) -> Facts | None:
    """The facts of one round from its records. `born`: nodes with smaller ids were drafted in earlier rounds."""
    if any(isinstance(record, Climb | ExitRound) for record in records):
        return None
    nodes = [node for node in _every(records, Node) if node.kept]
    new = [node for node in nodes if node.node >= born]
    trunk = [node for node in new if node.branch is None]
    fork = next(iter(_every(records, Fork)), None)
    posterior = next(iter(_every(records, Posterior)), None)
    steps = [] if posterior else [step for step in _every(records, DraftStep) if step.branch is None]
    calls = end.n_draft_calls > 0
    branches = [node for node in new if node.branch is not None]
    first = tuple(node.node for node in branches if fork and node.pos == fork.pos)
    return Facts(
        number=end.r,
        n_new=end.n_emitted,
        rows=1 + _fed(records, nodes),
        before=_looks(steps, trunk, first) if steps else tuple(_levels(trunk)) if calls else (),
        beside=tuple(_branches(fork, branches, first)) if fork else (),
        hrad=sum(signal.source == "hrad" for signal in _every(records, Signal)),
        fates=tuple(_fates(records)),
    )


def _every(records: Iterable[Event], kind: type[Any]) -> list[Any]:
    return [record for record in records if isinstance(record, kind)]


def _fed(records: Sequence[Event], nodes: Sequence[Node]) -> int:
    """Rows behind the root in the target's pass.

    Branches are judged by the row before them. A pending token is written as a node in the round it was drafted only,
    so it is counted by its verdict.
    """
    known = {node.node: node for node in nodes}
    judged = {verdict.node for verdict in _every(records, Verify) if verdict.status != "pruned"}
    shown = {node.node for node in nodes if node.fed and node.branch is None}
    return len(shown | {node for node in judged if node not in known})


def _looks(steps: Sequence[DraftStep], trunk: Sequence[Node], first: tuple[int, ...]) -> tuple[Forward, ...]:
    """A draft stage: a forward a look. From the one that stopped it the branches' `first` tokens come."""
    born = {node.node for node in trunk}
    return tuple(
        Forward(1, (step.node,) if step.node is not None else first)
        for step in steps
        if step.node in born or step.stopped
    )


def _levels(nodes: Sequence[Node]) -> Iterator[Forward]:
    """A chain or a tree, level by level: a forward over the level's parents."""
    for depth in sorted({node.depth for node in nodes}):
        level = [node for node in nodes if node.depth == depth]
        yield Forward(len({node.parent for node in level}), tuple(node.node for node in level))


def _branches(fork: Fork, nodes: Sequence[Node], first: tuple[int, ...]) -> Iterator[Forward]:
    """Beside the target: the branch point's law if it was unknown, then a forward a position over the live branches."""
    if not fork.known and fork.k:
        yield Forward(1, first)
    for pos in sorted({node.pos for node in nodes if node.pos > fork.pos}):
        here = tuple(node.node for node in nodes if node.pos == pos)
        yield Forward(len(here), here)


def _fates(records: Sequence[Event]) -> Iterator[tuple[int, str]]:
    """As the drafter settled them; where a draft is settled by its own round, as the verdicts say."""
    settled = _every(records, Settle)
    if settled or any(isinstance(record, Fork) for record in records):
        for record in settled:
            yield from record.fates
        return
    fillers = {node.node for node in _every(records, Node) if "window" in node.src}  # Lookahead's: never candidates
    for verdict in _every(records, Verify):
        if verdict.status in _FATES and verdict.node not in fillers:
            yield verdict.node, _FATES[verdict.status]
