"""From a finished round to its `verify` and `closing` records: what was tested, drawn, kept, and why not.

One record per node whose parent has a target row. Numbers leave the device in a few gathers over all nodes, never one
by one.

What a walk's trace says of every node of a draft: tested or drawn, in which order, implied, or never looked at.

A test or a draw decides about a text. Where several nodes spell it (parallel chains), it is shown on the node of the
candidate that was kept, with the number of the node that was judged: its uniform is keyed by that one. A prefix that a
backward scan kept with a longer one was not tested; what its test would have been is worked out all the same, so that
"would have failed" can be shown.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from specviz.engine.decode.round import Round
from specviz.engine.record.device_stats import entropies, leads, picked, ranks_of, rows_of, top_lists
from specviz.events import Closing, Level, Verify, log6, six
from specviz.events.round import Status, Why
from specviz.probability.draft import ROOT
from specviz.probability.draws import intervals
from specviz.probability.plan import DrawResult, Test, TestResult
from specviz.probability.rows import Certain, CertainRows, at, dense
from specviz.verifiers._scan import Spelling


@dataclass(slots=True)
class Fate:
    """What the trace says of one node. `implied`: kept with a longer prefix; a `test` it has then was never made.

    The test is `test.step.node`'s, which may be a twin of this node.
    """

    order: int | None = None
    test: TestResult | None = None
    draw: DrawResult | None = None
    thr: float | None = None  # of a draw: p / mass left, in id order
    edges: tuple[float, float] | None = None
    implied: bool = False


class Fates:
    """`nodes[i]`: the fate of node i. `by_draw`: drawn tokens decide, also about nodes never reached."""

    def __init__(self, done: Round) -> None:
        assert done.outcome is not None
        self.done, self.draft, self.accepted = done, done.draft, done.outcome.accepted
        self.nodes = [Fate() for _ in self.draft.tokens]
        self.n_tested = 0
        self.by_draw = False
        for result in done.outcome.trace:
            if isinstance(result, TestResult):
                self._tested(self._shown(result)).test = result
            elif result.step.edges:
                self.by_draw = True
                self._drawn(result)

    @cached_property
    def _spelling(self) -> Spelling:
        return Spelling(self.draft)

    def _tested(self, node: int) -> Fate:
        fate = self.nodes[node]
        fate.order = self.n_tested
        self.n_tested += 1
        return fate

    def _shown(self, result: TestResult) -> int:
        """The node a test is shown on: its own, or the kept one that spells the same."""
        node, depth = result.step.node, self.draft.depths[result.step.node]
        if self.draft.is_chain or not result.passed or depth > len(self.accepted):
            return node
        kept = self.accepted[depth - 1]
        return kept if self._spelling.first(kept) == self._spelling.first(node) else node

    def candidates(self, node: int) -> Sequence[int]:
        """The judged nodes that follow the text of a node, in id order; in a chain no two nodes spell the same."""
        return self.draft.children.get(node, ()) if self.draft.is_chain else self._spelling.candidates(node)

    def _named(self, result: DrawResult) -> Sequence[int]:
        """The nodes a draw judges; of those the drawn token names, only the kept one."""
        children, drawn = self.candidates(result.step.node), result.drawn.token
        if self.draft.is_chain:
            return children
        named = [child for child in children if self.draft.tokens[child] == drawn]
        shown = next((child for child in named if child in self.accepted), named[0] if named else None)
        return [child for child in children if child == shown or child not in named]

    def _drawn(self, result: DrawResult) -> None:
        """Shown as tests in id order: sibling by sibling, until the drawn one is met."""
        children, drawn = self._named(result), result.drawn
        tokens = [self.draft.tokens[child] for child in children]
        row = None if isinstance(self.done.target_probs, CertainRows) else result.step.row()
        masses = [float(token == drawn.token) if row is None else at(row, token) for token in tokens]
        edges = [None] * len(tokens) if row is None or drawn.u is None else intervals(row, tokens)
        left, met = 1.0, False
        struck: set[int] = set()
        for child, token, mass, edge in zip(children, tokens, masses, edges, strict=True):
            p = 0.0 if token in struck else mass  # a twin of a sibling that was passed over
            struck.add(token)
            fate = self.nodes[child]
            fate.draw, fate.edges = result, edge
            if not met:
                self._tested(child).thr = min(1.0, p / left) if left > 1e-12 else 0.0
            met, left = met or token == drawn.token, left - p

    def imply(self) -> None:
        """Mark what was kept untested, with the tests a scan would have gone on to: u is a function of its key."""
        if self.by_draw or all(self.nodes[node].test for node in self.accepted):
            return
        assert self.done.outcome is not None
        for node in self.accepted:
            self.nodes[node].implied = self.nodes[node].test is None
        for result in self.done.outcome.trace:
            if isinstance(result, TestResult) and result.passed:
                self._go_on(result)

    def _go_on(self, result: TestResult) -> None:
        """The tests that would have followed had this one failed, as far as they are about shorter prefixes of it."""
        plan, keys = self.done.plan, self.done.keys
        assert plan is not None
        assert keys is not None
        node, step = result.step.node, plan.step(result.step.failed)
        while isinstance(step, Test) and step.node == self.draft.parents[node]:
            node = step.node
            pos = self.done.n - 1 + self.draft.depths[node]
            tested = keys.passes(pos, step.threshold, step.ordinal)
            would = TestResult(step, pos, tested.u, tested.passed)
            fate = self.nodes[self._shown(TestResult(step, pos, tested.u, True))]
            if fate.implied and fate.test is None:
                fate.test = would
            step = plan.step(step.failed)


CLOSING_TOP = 20


class Verdict:
    """A finished round, judged: `fates` say what the walk did, this adds the numbers. `certain`: temperature 0."""

    def __init__(self, done: Round) -> None:
        assert done.outcome is not None
        self.done, self.draft, self.outcome = done, done.draft, done.outcome
        self.certain = isinstance(done.target_probs, CertainRows)
        self.judgement = Fates(done)
        self.fates, self.n_tested, self.by_draw = self.judgement.nodes, self.judgement.n_tested, self.judgement.by_draw

    @cached_property
    def shown_rows(self) -> torch.Tensor:
        """`[n_fed + 1, V]` target rows for display: the law at T > 0, the plain softmax at T = 0."""
        assert self.done.logits is not None
        return self.done.logits.softmax(-1) if self.certain else self.done.target_probs  # type: ignore[return-value]

    def records(self, level: Level, topk: int) -> list[Verify]:
        """The verdict on every node that could be kept: pending ones of earlier rounds first, then in id order."""
        self.judgement.imply()
        judged = self._judged()
        if level == "full" and judged:
            self._add_context(judged, topk)
        place = {node: k for k, node in enumerate(self.draft.ids)}
        out: list[Verify] = []
        for node in (*self.draft.pending, *self.draft.nodes):
            index = place.get(node.id)
            if index is not None:
                if not self.draft.n_judged <= index < self.draft.n_fed:  # those are fed only: nothing is decided there
                    out.append(judged[index])
            elif node.parent == ROOT or (node.parent in place and self.draft.has_row(place[node.parent])):
                out.append(_pruned(node.id))
        return out

    def _judged(self) -> list[Verify]:
        """The records of the nodes of the draft, by their numbers there."""
        rows = [parent + 1 for parent in self.draft.parents]
        p, q, margins = self._target_masses(rows, self.draft.tokens), self._draft_masses(), self._margins()
        found: list[Verify] = []
        for node, (fate, (status, why)) in enumerate(zip(self.fates, self._statuses(p), strict=True)):
            mass = q[node]
            record = Verify(
                node=self.draft.ids[node], order=fate.order, kind="draw" if self.by_draw else "test",
                logp=log6(p[node]), logq=None if mass is None else log6(mass), thr=None, u=None, status=status, why=why,
            )  # fmt: skip
            if fate.draw is not None:
                record.kind, record.thr, record.u, record.interval = "draw", fate.thr, fate.draw.drawn.u, fate.edges
                record.margin = margins[rows[node]] if self.certain else _distance(fate)
            elif fate.test is not None:
                _add_test(record, fate.test)
                tested = fate.test.step.node
                record.judged = self.draft.ids[tested] if tested != node else None
            record.implied = fate.implied
            found.append(record)
        return found

    def _statuses(self, p: Sequence[float]) -> list[tuple[Status, Why]]:
        """What became of every node, and why; parents come before their children. `p`: the target's own masses."""
        out: list[tuple[Status, Why]] = []
        for node in range(len(self.fates)):
            out.append(self._status(node, p[node], out))
        return out

    def _status(self, node: int, p: float, before: list[tuple[Status, Why]]) -> tuple[Status, Why]:
        fate, accepted = self.fates[node], self.outcome.accepted
        if node in accepted:
            if node in accepted[: self.done.n_accepted]:
                return "accepted", "implied" if fate.implied else "kept"
            return "untested", "length" if self.done.finish in ("length", "context") else "after_stop"  # cut off
        if fate.test is not None:
            return "rejected", "target_zero" if p <= 0 else "u_above"  # not: nothing left after failed siblings
        if fate.draw is not None and fate.order is not None:
            return "rejected", "target_zero" if p <= 0 and not self.certain else "not_drawn"
        # The walk never came here: the nearest ancestor (or itself) that was passed over tells why.
        parent = self.draft.parents[node]
        if parent == ROOT or parent in accepted:
            return "untested", "sibling_kept"
        status, why = before[parent]
        if status == "rejected":
            return "untested", "parent_rejected"
        return "untested", "prefix_rejected" if why == "parent_rejected" else why

    def _target_masses(self, rows: Sequence[int], tokens: Sequence[int]) -> list[float]:
        probs = self.done.target_probs
        if isinstance(probs, CertainRows):
            return [1.0 if token == probs.tokens[row] else 0.0 for row, token in zip(rows, tokens, strict=True)]
        return picked(probs, rows, tokens)

    def _draft_masses(self) -> list[float | None]:
        """Of every node, in the law it was drawn from; None for a point mass."""
        draft = self.draft
        out: list[float | None] = [None] * len(draft.tokens)
        drawn = [node for node, row in enumerate(draft.row_of) if row >= 0]
        if drawn:
            rows, tokens = [draft.row_of[n] for n in drawn], [draft.tokens[n] for n in drawn]
            for node, mass in zip(drawn, picked(draft.law_rows, rows, tokens), strict=True):
                out[node] = mass
        return out

    def _margins(self) -> list[float]:
        """At temperature 0, highest minus second highest logit of every row up to the last one drawn from."""
        upto = max((self.draft.parents[node] + 2 for node, fate in enumerate(self.fates) if fate.draw), default=0)
        if not self.certain or not upto:
            return []
        assert self.done.logits is not None
        return [six(gap) for gap in leads(self.done.logits[:upto])]

    def _add_context(self, judged: list[Verify], topk: int) -> None:
        """What level full knows besides: the likeliest tokens of both models, ranks, entropies, distances."""
        draft, probs = self.draft, self.shown_rows
        rows, tokens = [parent + 1 for parent in draft.parents], draft.tokens
        tops, entropy = top_lists(probs, topk), entropies(probs)
        first: set[int] = set()
        for record, row, rank in zip(judged, rows, ranks_of(probs, rows, tokens), strict=True):
            record.argmax_p, record.rank_p, record.entropy_p = tops[row][0][0], rank, six(entropy[row])
            if row not in first:
                first.add(row)
                record.top = tops[row]
        by_id = {node.id: node for node in (*draft.pending, *draft.nodes)}
        raws = [by_id[i].raw for i in draft.ids]
        scored = [n for n, raw in enumerate(raws) if raw is not None]
        if scored:
            table = {id(raws[n]): raws[n] for n in scored}
            number = {key: k for k, key in enumerate(table)}
            at_rows = [number[id(raws[n])] for n in scored]
            stacked = torch.stack(list(table.values()))
            for n, rank in zip(scored, ranks_of(stacked, at_rows, [tokens[n] for n in scored]), strict=True):
                judged[n].rank_q = rank
        drawn = [n for n, row in enumerate(draft.row_of) if row >= 0]
        if drawn:
            laws = rows_of(draft.law_rows, [draft.row_of[n] for n in drawn])
            gaps = (rows_of(probs, [rows[n] for n in drawn]) - laws).abs().sum(-1).div(2).tolist()
            for n, gap in zip(drawn, gaps, strict=True):
                judged[n].tv_pq = six(gap)

    def closing(self, text: str | None, level: Level) -> Closing:
        """The last draw of the round, or `none` when a node without a row, or the cut, closed it."""
        outcome, draft, done = self.outcome, self.draft, self.done
        stop = ROOT if outcome.stop == ROOT else draft.ids[outcome.stop]
        last = outcome.trace[-1] if outcome.trace else None
        dropped = outcome.closing is None or done.n_accepted == len(done.tokens)
        if dropped or not isinstance(last, DrawResult) or outcome.kind is None:
            return Closing(node=stop, kind="none", token=None, text=None, u=None)
        drawn = last.drawn
        record = Closing(
            node=stop, kind=outcome.kind, token=drawn.token, text=text, u=drawn.u,
            interval=None if drawn.lo is None or drawn.hi is None else (drawn.lo, drawn.hi), mass=_mass(last),
            logp=log6(self._target_masses([last.step.node + 1], [drawn.token])[0]), fallback=last.step.fallback,
            equals_drafted=drawn.token in [draft.tokens[c] for c in self.judgement.candidates(last.step.node)],
        )  # fmt: skip
        if level == "full":
            record.rank_p = ranks_of(self.shown_rows, [last.step.node + 1], [drawn.token])[0]
            record.row = self._row_table(last, last.step.row())
        return record

    def _row_table(self, last: DrawResult, row: Any) -> list[tuple[int, float, float | None, float, float]]:
        """The largest entries of the row drawn from: id, target, draft, weight, probability."""
        if isinstance(row, Certain):
            return [(row.token, 1.0, None, 1.0, 1.0)]
        draft, here = self.draft, last.step.node
        weights = torch.as_tensor(dense(row))
        top = weights.topk(min(CLOSING_TOP, len(weights)))
        ids, total = top.indices.tolist(), float(weights.sum())
        plain = self.done.target_probs[here + 1][top.indices].tolist()  # type: ignore[index]
        drawn = [draft.row_of[c] for c in self.judgement.candidates(here) if draft.row_of[c] >= 0]
        asked = drawn[:1] or ([0] if draft.carry is not None and hasattr(draft.law_rows, "shape") else [])
        laws = draft.law_rows[asked[0]][top.indices].tolist() if asked else [None] * len(ids)
        return [
            (token, six(p), None if q is None else six(q), six(weight), six(weight / total))
            for token, p, q, weight in zip(ids, plain, laws, top.values.tolist(), strict=True)
            if weight > 0
        ]


def _add_test(record: Verify, made: TestResult) -> None:
    """Its numbers. After failed siblings the row required is a residual: what that gives stands beside p."""
    u, thr = made.u, float(made.step.threshold)
    record.kind, record.thr, record.u, record.margin = "test", thr, u, six(abs(u - thr))
    if made.step.residual:
        record.log_left = log6(float(made.step.p))
    if made.step.q is not None:
        record.logq = log6(float(made.step.q))


def _distance(fate: Fate) -> float | None:
    """Distance of u to the nearest edge of the node's interval."""
    if fate.draw is None or fate.draw.drawn.u is None or fate.edges is None:
        return None
    return six(min(abs(fate.draw.drawn.u - fate.edges[0]), abs(fate.draw.drawn.u - fate.edges[1])))


def _pruned(node_id: int) -> Verify:
    return Verify(
        node=node_id, order=None, kind="draw", logp=None, logq=None, thr=None, u=None, status="pruned", why="budget"
    )


def _mass(last: DrawResult) -> float:
    """Share of the target's row that the children left over: what a recovered token is drawn from."""
    if last.step.kind == "bonus":
        return 1.0
    if last.step.mass is not None:
        return float(last.step.mass)
    row = last.step.row()
    if isinstance(row, Certain):
        return 0.0 if row.token in last.step.edges else 1.0
    return max(0.0, 1.0 - sum(at(row, token) for token in last.step.edges) / float(row.sum()))
