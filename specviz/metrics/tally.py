"""`Tally`: rounds as running sums, from which `summary()` works out every metric at any moment.

Its size does not grow with the run (`specviz.metrics.estimate`); the last, unfinished block and query are kept open.

An aborted round has no `round_end` and leaves nothing. A *block* is a round and the carried rounds after it. Rounds in
which a token of the draft had a sibling are trees; that, and everything per position and depth, needs level `summary`.
"""

from array import array
from collections import Counter
from collections.abc import Callable, Iterable

from specviz.events import Adapt, Calibration, Event, Header, Node, RoundEnd
from specviz.metrics.draft_confidence import TokenPosition
from specviz.metrics.estimate import Median
from specviz.metrics.registry import RATIOS, DepthCounts, Metrics, RoundFigures, RunSums, summarize
from specviz.metrics.replay_rules import DraftReplay, argmax_chain, links, replay, single_chain
from specviz.metrics.tallies import PathCounts
from specviz.runlog.fold import Run
from specviz.runlog.run import RoundRecord

_SUMMED = ("n_drafted", "n_tested", "n_accepted", "n_emitted", "n_draft_calls", "n_syncs", "cut")
_FATES = ("accepted", "rejected", "untested")


class Tally(RunSums):
    """Counts finished rounds: those of a `Run` (`follow`), one by one (`begin`, `take`, `learn`), or from a stream of
    events of which nothing else is kept (`add`, `add_all`). `summary()` may be called at any time.

    `on_draft` is called with what every rule would have done with each sampled chain.
    """

    def __init__(self, on_draft: Callable[[DraftReplay], None] | None = None) -> None:
        super().__init__()
        self._began: int | None = None
        self._open_run = 0
        self._query: int | None = None  # of the last round
        self._on_draft = on_draft
        self._next = 0  # index of the round of a run that is counted next
        self._run: Run | None = None
        self._fates = array("q", [0] * len(_FATES))  # of nodes

    def summary(self) -> Metrics:
        """Every metric of the rounds finished so far."""
        return summarize(self)

    # What is counted ------------------------------------------------------------------------------------------------

    def add_all(self, events: Iterable[Event]) -> "Tally":
        """Count a stream; returns itself."""
        for event in events:
            self.add(event)
        return self

    @property
    def run(self) -> Run | None:
        """Header, knobs and findings of the stream that was counted (`add`); None before its first record."""
        return self._run

    def add(self, event: Event) -> None:
        """Count what ends with this record of a stream."""
        if self._run is None:
            self._run = Run(whole=False)
        self._run.apply(event)
        if not event.inside_round:
            self.follow(self._run)

    def follow(self, run: Run, stop: int | None = None) -> bool:
        """Count what came to its end since the last call: rounds (before index `stop`), what was learnt, and costs.

        False when that is nothing.
        """
        before = self.n_rounds, self.adapted.n, self.costs
        if run.header is not None:
            self.begin(run.header, run.calibration)
        self._next = max(self._next, run.rounds.n_gone)
        stop = len(run.rounds) if stop is None else stop
        while self._next < stop:
            record = run.rounds[self._next]
            if record.complete:
                self.take(record)
            elif record is run.rounds.last:  # it may end yet
                break
            self._next += 1
        missed = run.n_learnt - self.adapted.n
        for decision in run.learnt[-missed:] if missed else ():
            self.learn(decision)
        return before != (self.n_rounds, self.adapted.n, self.costs)

    def begin(self, header: Header, calibration: Calibration | None = None) -> None:
        """What is written once, before the first round."""
        if header is not self.header:
            self.header, self.backward = header, header.verifier_traits.backward
            self.counted = header.outside is not None and header.outside.known == "counts" and header.outside.chains
            self.has_nodes = header.level != "none" or self.counted
            self.pipeline.begin(header)
            self.exits.begin(header)
            self.plain.begin(header)
        self.modelled.calibration = calibration or self.modelled.calibration

    @property
    def fates(self) -> dict[str, int]:
        """Nodes by what became of them, as verdicts say; nothing where none is on record."""
        return dict(zip(_FATES, self._fates, strict=True)) if any(self._fates) else {}

    @property
    def costs(self) -> Calibration | None:
        """What passes cost on the machine that wrote the run, where that is on record."""
        return self.modelled.calibration

    def learn(self, decision: Adapt) -> None:
        """What a drafter made of a query that is over."""
        self.adapted.add(decision)

    def take(self, record: RoundRecord) -> None:
        """Count a finished round; rounds come in order."""
        end = record.end
        assert end is not None
        if record.index == record.query.first:
            self._note_query(record)
        carried = record.start.carry is not None and end.q == self._query
        self.n_rounds += 1
        self.n_queries += end.q != self._query
        self._query = end.q
        ns = record.took_ns
        self._note_times(record, end, ns)
        if not self.tells_tokens:
            return
        if not carried:
            if self.open_block is not None:
                self.blocks[self.open_block] += 1
            self.n_blocks, self.open_block = self.n_blocks + 1, None
        accepted, emitted, deep = self.open_block or (0, 0, 0)
        deepest = self._note_counts(end) if self.counted else self._note_spots(record)
        self.open_block = (accepted + end.n_accepted, emitted + end.n_emitted, deep + deepest)
        nodes = [node for node in record.nodes.values() if node.kept]
        parents = [node.parent for node in nodes if not node.filler]
        self.has_trees = self.has_trees or len(set(parents)) < len(parents)
        self._note_commit(record, end)
        self._note_ratios(record, end, ns, carried)
        self._note_chain(record, nodes)
        self.modelled.take(record)
        self.plain.take(record, end, ns)
        self.confidence.take(record, end.n_drafted, end.n_accepted)
        self.texts.take(record)
        here = TokenPosition(record.q, record.r)
        self.along.take(here, end.n_drafted, end.n_accepted)
        if end.n_drafted:
            self.collapse.take(here, record.start.n, int(end.n_accepted > 0))
        if not self.ours:
            self.outside.take(record)
        for verdict in record.verdicts.values():
            if verdict.status in _FATES:
                self._fates[_FATES.index(verdict.status)] += 1

    # The parts of a round -------------------------------------------------------------------------------------------

    def _note_query(self, record: RoundRecord) -> None:
        """Count a query once its first round has ended."""
        prefill, self._open_run = record.query.prefill, 0
        if prefill is not None and (prefill.dur_ns or self.ours):  # else the prompt's pass was not timed
            self._began = prefill.t - prefill.dur_ns
            self.prefill_ns.add(prefill.dur_ns)

    def _note_commit(self, record: RoundRecord, end: RoundEnd) -> None:
        commit = record.commit
        if commit is not None and commit.tokens and self._began is not None:
            self.first_commit_ns.add(commit.t - self._began)
            self._began = None
        self._open_run += end.n_accepted
        rejected = commit is not None and "recovered" in commit.kinds
        if rejected and (end.n_drafted or end.n_tested):
            self.runs.add(self.n_rounds, end.q, self._open_run, 1)
            self._open_run = 0

    def _note_times(self, record: RoundRecord, end: RoundEnd, ns: int) -> None:
        if ns or self.ours:
            self.round_ns.add(ns)
        for name, took in end.stage_ns.items():
            self.stage_ns.setdefault(name, Median()).add(took)
        self.lost_ns[end.n_drafted] += end.stage_ns.get("draft", 0) * (end.n_drafted - end.n_accepted)
        for name in _SUMMED:
            self.totals[name] += getattr(end, name)
        self.totals["ns"] += ns
        for span in record.spans:
            if span.clock != "model":  # never in one number with a measured clock
                self.busy[span.lane] += span.dur_ns

    def _note_ratios(self, record: RoundRecord, end: RoundEnd, ns: int, carried: bool) -> None:
        exits = self.exits.take(record)
        void = end.n_drafted - end.n_accepted
        # a pipelined drafter says what became of its tokens; every other draft is settled by its own round
        cells = self.pipeline.take(record, end) or PathCounts(end.n_drafted, void, end.n_drafted, void)
        cost = self.ranks.take(record, end.n_emitted)
        figures = RoundFigures(record, end, ns, not carried, cells, exits, cost)
        for name, spec in RATIOS.items():
            terms = spec.terms(figures)
            if terms is not None:
                unit = self.n_blocks if spec.per == "block" else self.n_rounds
                self.ratios[name].add(unit, end.q, *terms)

    def _note_chain(self, record: RoundRecord, nodes: list[Node]) -> None:
        """What three verifiers would have done with this draft, when it is one sampled chain."""
        chain = single_chain(nodes, record.start.n - 1)
        outside = not self.ours  # its draws are not keyed as ours are
        if not chain:
            if outside and (chain := argmax_chain(nodes, record.start.n - 1)):
                self.outside.follow(chain, record, sure=True)
            return
        prefill = record.query.prefill
        if outside:
            self.outside.follow(chain, record)
        key = None if prefill is None or outside else (prefill.seed, record.r)
        verdicts = {number: verdict for number, verdict in record.verdicts.items() if verdict.status != "pruned"}
        own = self.header.verifier_traits.replays_as if self.header is not None else None
        linked = links(chain, verdicts, record.chains, own, key)
        if outside and len(linked) < len(chain):
            self.drafts.leave_out()  # p is known as far as was tested: whole drafts alone would be those that did well
            return
        replayed = replay(record.q, linked)
        self.drafts.add(replayed)
        if self._on_draft is not None:
            self._on_draft(replayed)

    def _note_counts(self, end: RoundEnd) -> int:
        """The same of a chain of which only counts are known: each token is tested if all before it were kept."""
        for depth in range(1, min(end.n_drafted, end.n_accepted + 1) + 1):
            spot = self.spots.setdefault(depth, DepthCounts())
            kept = depth <= end.n_accepted
            spot.tested, spot.accepted = spot.tested + 1, spot.accepted + kept
            spot.rounds_tested, spot.rounds_accepted = spot.rounds_tested + 1, spot.rounds_accepted + kept
        return end.n_drafted

    def _note_spots(self, record: RoundRecord) -> int:
        """Counts verdicts by their depth below this round's root; returns the deepest."""
        tested: Counter[int] = Counter()
        accepted: Counter[int] = Counter()
        deepest = 0
        for verdict in record.verdicts.values():
            node = record.node(verdict.node) if verdict.status != "pruned" else None
            if node is None or node.filler:
                continue
            depth = node.pos - record.start.n + 1
            deepest = max(deepest, depth)
            tested[depth] += verdict.order is not None
            accepted[depth] += verdict.order is not None and verdict.status == "accepted"
        for depth in range(1, deepest + 1):
            spot = self.spots.setdefault(depth, DepthCounts())
            spot.tested, spot.accepted = spot.tested + tested[depth], spot.accepted + accepted[depth]
            spot.rounds_tested += tested[depth] > 0
            spot.rounds_accepted += accepted[depth] > 0
        return deepest


def measure(events: Iterable[Event]) -> Metrics:
    """The metrics of a whole stream."""
    return Tally().add_all(events).summary()
