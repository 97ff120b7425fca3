"""`Tally`: folds events into running sums, from which `summary()` works out every metric at any moment.

Its size does not grow with the run (`specviz.metrics.sums`); the last, unfinished block and query are kept open.

An aborted round has no `round_end` and leaves nothing. A *block* is a round and the carried rounds after it. Rounds in
which a token of the draft had a sibling are trees; that, and everything per position and depth, needs level `summary`.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from functools import singledispatchmethod
from typing import Any

import msgspec

from specviz.events import Chain, Commit, Event, Header, Node, Prefill, RoundEnd, RoundStart, Span, Verify
from specviz.metrics.pipelined import Cells
from specviz.metrics.registry import RATIOS, Metrics, summarize
from specviz.metrics.replay_rules import Replay, links, replay, single_chain
from specviz.metrics.run_sums import RoundFigures, RunSums, Spot
from specviz.metrics.sums import Median


class Pending(msgspec.Struct):
    """What a round has shown before its end."""

    start: RoundStart | None = None
    verdicts: list[Verify] = []
    nodes: list[Node] = []
    chains: dict[int, Chain] = {}
    parents: list[int] = []
    spans: list[Span] = []
    rejected: bool = False


class Tally(RunSums):
    """Give it every record of a run in order (`add`, `add_all`), ask for `summary()` whenever it pleases.

    `on_draft` is told what every rule would have done with each sampled chain.
    """

    def __init__(self, on_draft: Callable[[Replay], None] | None = None) -> None:
        super().__init__()
        self._seed: int | None = None
        self._positions: dict[int, int] = {}
        self._began: int | None = None
        self._open_run = 0
        self._query: int | None = None  # of the last finished round
        self._on_draft = on_draft
        self._pending = Pending()

    def add_all(self, events: Iterable[Event]) -> "Tally":
        """Folds events; returns itself."""
        for event in events:
            self.add(event)
        return self

    def summary(self) -> Metrics:
        """Every metric of the rounds finished so far."""
        return summarize(self)

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
        self.prefill_ns.add(event.dur_ns)

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
            self.first_commit_ns.add(event.t - self._began)
            self._began = None
        self._pending.rejected = "recovered" in event.kinds

    @_fold.register
    def _(self, event: RoundEnd) -> None:
        pending, self._pending = self._pending, Pending()
        if pending.start is None:
            return
        self._note_runs(event, pending.rejected)
        carried = pending.start.carry is not None and event.q == self._query
        self._count(event, pending, carried)
        self._note_chain(pending)
        for span in pending.spans:
            self._note_span(span)

    def _count(self, end: RoundEnd, pending: Pending, carried: bool) -> None:
        """A round into the sums. `carried`: it goes on with the block of the round before."""
        assert pending.start is not None
        self.n_rounds += 1
        self.n_queries += end.q != self._query
        self._query = end.q
        if not carried:
            self.blocks[self.open_block] += self.n_blocks > 0
            self.n_blocks, self.open_block = self.n_blocks + 1, (0, 0, 0)
        accepted, emitted, deep = self.open_block
        depth = self._note_spots(pending)
        self.open_block = (accepted + end.n_accepted, emitted + end.n_emitted, deep + depth)
        self.has_trees = self.has_trees or len(set(pending.parents)) < len(pending.parents)
        elapsed = end.t - pending.start.t
        ns = elapsed if elapsed > 0 else sum(end.stage_ns.values())
        self._note_times(end, ns)
        exits = self.exits.close(sum(node.fed for node in pending.nodes))
        cost = self.ranks.close(end.n_emitted)
        self._note_ratios(RoundFigures(end, ns, not carried, self._cells(end), exits, cost))

    def _note_times(self, end: RoundEnd, ns: int) -> None:
        self.round_ns.add(ns)
        for name, took in end.stage_ns.items():
            self.stage_ns.setdefault(name, Median()).add(took)
        self.lost_ns[end.n_drafted] += end.stage_ns.get("draft", 0) * (end.n_drafted - end.n_accepted)
        for name in ("n_drafted", "n_tested", "n_accepted", "n_emitted", "n_draft_calls", "n_syncs", "cut"):
            self.totals[name] += getattr(end, name)
        self.totals["ns"] += ns

    def _note_ratios(self, figures: RoundFigures) -> None:
        for name, spec in RATIOS.items():
            terms = spec.terms(figures)
            if terms is not None:
                unit = self.n_blocks if spec.per == "block" else self.n_rounds
                self.ratios[name].add(unit, figures.end.q, *terms)

    def _note_chain(self, pending: Pending) -> None:
        """What three verifiers would have done with this draft, when it is one sampled chain."""
        start = pending.start
        assert start is not None
        nodes = single_chain(pending.nodes, start.n - 1)
        if not nodes:
            return
        key = None if self._seed is None else (self._seed, start.r)
        verdicts = {verdict.node: verdict for verdict in pending.verdicts}
        own = self.header.verifier_traits.replays_as if self.header is not None else None
        found = replay(start.q, links(nodes, verdicts, pending.chains, own, key))
        self.drafts.add(found)
        if self._on_draft is not None:
            self._on_draft(found)

    def _note_runs(self, event: RoundEnd, rejected: bool) -> None:
        self._open_run += event.n_accepted
        if rejected and (event.n_drafted or event.n_tested):
            self.runs.add(self.n_rounds, event.q, self._open_run, 1)
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
