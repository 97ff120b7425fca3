"""`Tally`: folds events into one row per finished round, from which `summary()` works out every metric at any moment.

An aborted round has no `round_end` and leaves nothing. A *block* is a round and the carried rounds after it. Rounds in
which a token of the draft had a sibling are trees; that, and everything per position and depth, needs level `summary`.
"""

from collections import Counter
from collections.abc import Iterable
from functools import singledispatchmethod
from typing import Any

import msgspec

from specviz.events import Chain, Commit, Event, Header, Node, Prefill, RoundEnd, RoundStart, Span, Verify
from specviz.metrics.adapted import AdaptTally
from specviz.metrics.chains import links, single_chain
from specviz.metrics.exits import Exits, ExitTally
from specviz.metrics.modelled import ModelledTally
from specviz.metrics.pipelined import Cells, Pipeline
from specviz.metrics.ranks import RankTally
from specviz.metrics.report import Metrics, report
from specviz.metrics.same_draft import Replay, replay


class Row(msgspec.Struct):
    """One finished round."""

    q: int
    block: int  # number of the block it belongs to, over the run
    n_drafted: int
    n_tested: int
    n_accepted: int
    n_emitted: int
    n_draft_calls: int
    n_syncs: int
    cut: bool
    ns: int
    probe_ns: int
    stage_ns: dict[str, int]
    cells: Cells = msgspec.field(default_factory=Cells)
    exits: Exits = msgspec.field(default_factory=Exits)
    depth: int = 0  # deepest judged position
    tree: bool = False


class Pending(msgspec.Struct):
    """What a round has shown before its end."""

    start: RoundStart | None = None
    verdicts: list[Verify] = []
    nodes: list[Node] = []
    chains: dict[int, Chain] = {}
    parents: list[int] = []
    spans: list[Span] = []
    rejected: bool = False


class Spot(msgspec.Struct):
    """Counts of one depth: nodes, and rounds in which any node there was tested or kept."""

    tested: int = 0
    accepted: int = 0
    rounds_tested: int = 0
    rounds_accepted: int = 0


class Tally:
    """Give it every record of a run in order (`add`, `add_all`), ask for `summary()` whenever it pleases."""

    def __init__(self) -> None:
        self.header: Header | None = None
        self.rows: list[Row] = []
        self.spots: dict[int, Spot] = {}
        self.runs: list[int] = []  # accepted tokens between rejections
        self.first_commit_ns: list[int] = []  # per query, from the start of its prefill
        self.prefill_ns: list[int] = []
        self.busy: Counter[str] = Counter()  # lane -> measured ns
        self.replays: list[Replay] = []  # of rounds whose draft was one sampled chain
        self.pipeline, self.exits, self.modelled = Pipeline(), ExitTally(), ModelledTally()
        self.ranks, self.adapted = RankTally(), AdaptTally()
        self.has_nodes = False
        self._seed: int | None = None
        self._positions: dict[int, int] = {}
        self._began: int | None = None
        self._open_run = 0
        self._block = -1
        self._pending = Pending()

    def add_all(self, events: Iterable[Event]) -> "Tally":
        """Folds events; returns itself."""
        for event in events:
            self.add(event)
        return self

    def summary(self) -> Metrics:
        """Every metric of the rounds finished so far."""
        return report(self)

    def add(self, event: Any) -> None:
        """Folds one event; records without numbers are passed over."""
        if isinstance(event, RoundStart):
            self.pipeline.begin()
            self.exits.begin()
            self.ranks.begin()
        for part in (self.pipeline, self.exits, self.modelled, self.ranks, self.adapted):
            part.add(event)
        self._fold(event)

    @singledispatchmethod
    def _fold(self, event: Any) -> None:
        """The records that every method writes."""

    @_fold.register
    def _(self, event: Header) -> None:
        self.header = event
        self.has_nodes = event.level != "none"

    @_fold.register
    def _(self, event: Prefill) -> None:
        self._positions, self._open_run, self._seed = {}, 0, event.seed
        self._began = event.t - event.dur_ns
        self.prefill_ns.append(event.dur_ns)

    @_fold.register
    def _(self, event: RoundStart) -> None:
        self._pending = Pending(start=event)

    @_fold.register
    def _(self, event: Node) -> None:
        is_filler = "window" in event.src  # fed by Lookahead, never a candidate
        if not is_filler:
            self._positions[event.node] = event.pos
        if event.kept:
            self._pending.parents += [] if is_filler else [event.parent]
            self._pending.nodes.append(event)

    @_fold.register
    def _(self, event: Verify) -> None:
        if event.status != "pruned":
            self._pending.verdicts.append(event)

    @_fold.register
    def _(self, event: Chain) -> None:
        self._pending.chains[event.node] = event

    @_fold.register
    def _(self, event: Span) -> None:
        if self._pending.start is None:  # a device's clock is read a round late
            self._note_span(event)
        else:
            self._pending.spans.append(event)

    @_fold.register
    def _(self, event: Commit) -> None:
        if self._began is not None and event.tokens:
            self.first_commit_ns.append(event.t - self._began)
            self._began = None
        self._pending.rejected = "recovered" in event.kinds

    @_fold.register
    def _(self, event: RoundEnd) -> None:
        pending, self._pending = self._pending, Pending()
        if pending.start is None:
            return
        if pending.start.carry is None or self._block < 0 or self.rows[-1].q != event.q:
            self._block += 1
        self._note_runs(event, pending.rejected)
        elapsed = event.t - pending.start.t
        self.rows.append(Row(
            q=event.q, block=self._block, n_drafted=event.n_drafted, n_tested=event.n_tested,
            n_accepted=event.n_accepted, n_emitted=event.n_emitted, n_draft_calls=event.n_draft_calls,
            n_syncs=event.n_syncs, cut=event.cut, ns=elapsed if elapsed > 0 else sum(event.stage_ns.values()),
            probe_ns=event.probe_ns, stage_ns=event.stage_ns, cells=self._cells(event),
            exits=self.exits.close(sum(node.fed for node in pending.nodes)),
            depth=self._note_spots(pending), tree=len(set(pending.parents)) < len(pending.parents),
        ))  # fmt: skip
        self.ranks.close(event.n_emitted)
        self._note_chain(pending)
        for span in pending.spans:
            self._note_span(span)

    def _note_chain(self, pending: Pending) -> None:
        """What three verifiers would have done with this draft, when it is one sampled chain."""
        start = pending.start
        assert start is not None
        nodes = single_chain(pending.nodes, start.n - 1)
        if not nodes:
            return
        key = None if self._seed is None else (self._seed, start.r)
        verdicts = {verdict.node: verdict for verdict in pending.verdicts}
        verifier = self.header.verifier if self.header is not None else ""
        self.replays.append(replay(start.q, links(nodes, verdicts, pending.chains, verifier, key)))

    def _note_runs(self, event: RoundEnd, rejected: bool) -> None:
        self._open_run += event.n_accepted
        if rejected and (event.n_drafted or event.n_tested):
            self.runs.append(self._open_run)
            self._open_run = 0

    def _cells(self, event: RoundEnd) -> Cells:
        """A pipelined drafter says what became of its tokens; every other draft is settled by its own round."""
        void = event.n_drafted - event.n_accepted
        return self.pipeline.close(event) or Cells(event.n_drafted, void, event.n_drafted, void)

    def _note_spots(self, pending: Pending) -> int:
        """Counts verdicts by their depth below this round's root; returns the deepest."""
        assert pending.start is not None
        tested: Counter[int] = Counter()
        accepted: Counter[int] = Counter()
        deepest = 0
        for verdict in pending.verdicts:
            if verdict.node not in self._positions:
                continue
            depth = self._positions[verdict.node] - pending.start.n + 1
            deepest = max(deepest, depth)
            tested[depth] += verdict.order is not None
            accepted[depth] += verdict.order is not None and verdict.status == "accepted"
        for depth in range(1, deepest + 1):
            spot = self.spots.setdefault(depth, Spot())
            spot.tested, spot.accepted = spot.tested + tested[depth], spot.accepted + accepted[depth]
            spot.rounds_tested += tested[depth] > 0
            spot.rounds_accepted += accepted[depth] > 0
        return deepest

    def _note_span(self, span: Span) -> None:
        if span.clock == "model":  # never in one number with a measured clock
            return
        self.busy[span.lane] += span.dur_ns


def measure(events: Iterable[Event]) -> Metrics:
    """The metrics of a whole stream."""
    return Tally().add_all(events).summary()
