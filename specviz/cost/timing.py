"""From the records of a trace to the facts the model clock plays: which forwards a round made, where and for what.

One reader for views, metrics and benchmarks. What is not written is derived: a chain or tree takes one draft forward a
level, over the parents of that level; a draft stage one forward a look (`draft_step`), the look that stopped it
included; branches one forward a position over their live rows, and one more when the branch point's law was unknown.
Records of level `none` name no nodes: only rounds of plain decoding can be told from them.
"""

from collections.abc import Iterable, Iterator, Sequence

from specviz.cost.model_clock import DraftForward, RoundFacts
from specviz.events import Climb, DraftStep, Event, ExitRound, Fork, Node, Posterior, Settle, Signal
from specviz.runlog.fold import finished
from specviz.runlog.run import RoundRecord

_FATES = {"accepted": "accepted", "rejected": "rejected", "untested": "orphaned"}


def run_facts(events: Iterable[Event]) -> Iterator[RoundFacts]:
    """The facts of every finished round that has any."""
    for record in finished(events):
        facts = facts_of(record)
        if facts is not None:
            yield facts


def facts_of(record: RoundRecord) -> RoundFacts | None:
    """The facts of one finished round.

    None for a round of early exit, which climbs the target's own layers and has a clock of its own (cost.ledger).
    """
    end = record.end
    assert end is not None
    if record.by_kind.keys() & {Climb, ExitRound}:
        return None
    nodes = [node for node in record.nodes.values() if node.kept]
    new = [node for node in nodes if node.node >= record.born]
    trunk = [node for node in new if node.branch is None]
    branches = [node for node in new if node.branch is not None]
    fork = record.first(Fork)
    steps = [] if record.every(Posterior) else [step for step in record.every(DraftStep) if step.branch is None]
    first = tuple(node.node for node in branches if fork and node.pos == fork.pos)
    return RoundFacts(
        number=end.r,
        n_new=end.n_emitted,
        rows=1 + _fed(record, nodes),
        before=_looks(steps, trunk, first) if steps else tuple(_levels(trunk)) if end.n_draft_calls > 0 else (),
        beside=tuple(_branches(fork, branches, first)) if fork else (),
        hrad=sum(signal.source == "hrad" for signal in record.every(Signal)),
        fates=tuple(_fates(record)),
    )


def _fed(record: RoundRecord, nodes: Sequence[Node]) -> int:
    """Rows behind the root in the target's pass.

    Branches are judged by the row before them. A pending token is written as a node in the round it was drafted only,
    so it is counted by its verdict.
    """
    known = {node.node for node in nodes}
    judged = {verdict.node for verdict in record.verdicts.values() if verdict.status != "pruned"}
    return len({node.node for node in nodes if node.fed and node.branch is None} | (judged - known))


def _looks(steps: Sequence[DraftStep], trunk: Sequence[Node], first: tuple[int, ...]) -> tuple[DraftForward, ...]:
    """A draft stage: a forward a look. From the one that stopped it the branches' `first` tokens come."""
    born = {node.node for node in trunk}
    return tuple(
        DraftForward(1, (step.node,) if step.node is not None else first)
        for step in steps
        if step.node in born or step.stopped
    )


def _levels(nodes: Sequence[Node]) -> Iterator[DraftForward]:
    """A chain or a tree, level by level: a forward over the level's parents."""
    for depth in sorted({node.depth for node in nodes}):
        level = [node for node in nodes if node.depth == depth]
        yield DraftForward(len({node.parent for node in level}), tuple(node.node for node in level))


def _branches(fork: Fork, nodes: Sequence[Node], first: tuple[int, ...]) -> Iterator[DraftForward]:
    """Beside the target: the branch point's law if it was unknown, then a forward a position over the live branches."""
    if not fork.known and fork.k:
        yield DraftForward(1, first)
    for pos in sorted({node.pos for node in nodes if node.pos > fork.pos}):
        here = tuple(node.node for node in nodes if node.pos == pos)
        yield DraftForward(len(here), here)


def _fates(record: RoundRecord) -> Iterator[tuple[int, str]]:
    """As the drafter settled them; where a draft is settled by its own round, as the verdicts say."""
    settled = record.every(Settle)
    if settled or Fork in record.by_kind:
        for settle in settled:
            yield from settle.fates
        return
    fillers = {node.node for node in record.nodes.values() if node.filler}
    for verdict in record.verdicts.values():
        if verdict.status in _FATES and verdict.node not in fillers:
            yield verdict.node, _FATES[verdict.status]
