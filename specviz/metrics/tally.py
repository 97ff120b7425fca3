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
from specviz.metrics.exits import Exits, ExitTally
from specviz.metrics.modelled import ModelledTally
from specviz.metrics.pipelined import Cells, Pipeline
from specviz.metrics.ranks import AdaptTally, RankTally
from specviz.metrics.registry import Metrics, report
from specviz.metrics.replay_rules import DraftTally, Replay, links, replay, single_chain
from specviz.metrics.sums import Median, Ratio, Term

RATIOS = (  # name: what is added for a round, over what; of the first two the units are blocks
    "mean_acceptance_length", "mean_accepted", "draft_acceptance_rate", "test_acceptance_rate", "block_efficiency",
    "rollback_rate", "rollback_rate_tokens", "draft_calls_per_round", "modelled_speedup", "layer_calls", "cells",
    "head_tests", "exit_rate", "mean_exit_layer", "draft_precision", "wrong_exit_rate", "tokens_per_second",
    "drafting_share", "overhead",
)  # fmt: skip
_BLOCKWISE = 2
_S = 10**9  # nanoseconds
Block = tuple[int, int, int]  # n_accepted, n_emitted, depth (of its deepest judged position), over its rounds


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
    """Give it every record of a run in order (`add`, `add_all`), ask for `summary()` whenever it pleases.

    `on_draft` is told what every rule would have done with each sampled chain.
    """

    def __init__(self, on_draft: Callable[[Replay], None] | None = None) -> None:
        self.header: Header | None = None
        self.n_rounds = self.n_queries = self.n_blocks = 0
        self.totals: Counter[str] = Counter()  # fields of `round_end` by name, `cut` and `ns`
        self.ratios = {name: Ratio() for name in RATIOS}
        self.blocks: Counter[Block] = Counter()  # those that are over
        self.open_block: Block = (0, 0, 0)
        self.has_trees = False
        self.round_ns = Median()
        self.stage_ns: dict[str, Median] = {}
        self.lost_ns: Counter[int] = Counter()  # n_drafted -> draft stage ns x drafted tokens that were not kept
        self.spots: dict[int, Spot] = {}
        self.runs = Ratio()  # accepted tokens between rejections
        self.first_commit_ns = Median()  # per query, from the start of its prefill
        self.prefill_ns = Median()
        self.busy: Counter[str] = Counter()  # lane -> measured ns
        self.drafts = DraftTally()  # rounds whose draft was one sampled chain
        self.pipeline, self.exits, self.modelled = Pipeline(), ExitTally(), ModelledTally()
        self.ranks, self.adapted = RankTally(), AdaptTally()
        self.has_nodes = False
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
        return report(self)

    def add(self, event: Any) -> None:
        """Folds one event; records without numbers are passed over."""
        if isinstance(event, RoundStart):
            self.pipeline.begin()
            self.exits.begin()
            self.ranks.begin()
        for part in (self.pipeline, self.exits, self.modelled, self.ranks, self.adapted):
            part.add(event)
        _FOLDS(type(event))(self, event)

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
        self._note_ratios(end, ns, self._cells(end), exits, carried)

    def _note_times(self, end: RoundEnd, ns: int) -> None:
        self.round_ns.add(ns)
        for name, took in end.stage_ns.items():
            self.stage_ns.setdefault(name, Median()).add(took)
        self.lost_ns[end.n_drafted] += end.stage_ns.get("draft", 0) * (end.n_drafted - end.n_accepted)
        for name in ("n_drafted", "n_tested", "n_accepted", "n_emitted", "n_draft_calls", "n_syncs", "cut"):
            self.totals[name] += getattr(end, name)
        self.totals["ns"] += ns

    def _note_ratios(self, end: RoundEnd, ns: int, cells: Cells, exits: Exits, carried: bool) -> None:
        terms: dict[str, tuple[Term, Term]] = {
            "mean_acceptance_length": (end.n_emitted, int(not carried)),
            "mean_accepted": (end.n_accepted, int(not carried)),
            "draft_acceptance_rate": (end.n_accepted, end.n_drafted),
            "test_acceptance_rate": (end.n_accepted, end.n_tested),
            "block_efficiency": (end.n_emitted, 1),
            "rollback_rate": (cells.path_void, cells.path),
            "rollback_rate_tokens": (cells.cells_void, cells.cells),
            "draft_calls_per_round": (end.n_draft_calls, 1),
            "layer_calls": (exits.layer_calls, end.n_emitted),
            "cells": (exits.cells, end.n_emitted),
            "head_tests": (exits.head_tests, end.n_emitted),
            "exit_rate": (exits.stops, exits.rows),
            "mean_exit_layer": (exits.depth, exits.stops),
            "draft_precision": (exits.right, exits.judged),
            "wrong_exit_rate": (exits.judged - exits.right, exits.judged),
            "tokens_per_second": (end.n_emitted * _S, ns),
            "drafting_share": (end.stage_ns.get("draft", 0), ns),
            "overhead": (end.probe_ns, ns - end.probe_ns),
        }
        cost = self.ranks.close(end.n_emitted)
        if cost is not None:
            terms["modelled_speedup"] = (end.n_emitted, cost)
        for name in RATIOS:
            if name in terms:
                unit = self.n_blocks if name in RATIOS[:_BLOCKWISE] else self.n_rounds
                self.ratios[name].add(unit, end.q, *terms[name])

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


# The method's own look-up makes a wrapper for every call, which takes longer than what it wraps.
_FOLDS: Callable[[type], Callable[[Tally, Any], None]] = Tally.__dict__["_fold"].dispatcher.dispatch
