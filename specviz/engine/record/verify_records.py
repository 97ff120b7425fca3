"""The records of a finished round: `verify` and `closing` from the steps of its walk, `chain` from its draft.

One `verify` record per node whose parent has a target row: what was tested, drawn, kept, and why not. Numbers leave the
device in a few gathers over all nodes, never one by one. A prefix that a backward scan kept with a longer one was not
tested; what its test would have been is shown all the same.

`chain` records hold the joint ratios of sampled chains, whatever the verifier, so that others can be compared offline:
one per node of every candidate that begins at the root. Candidates that begin further down start again from weight 1,
so a ratio from the root on says nothing about them; for point masses none is written.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import torch

from specviz.engine.decode.round import RoundResult
from specviz.engine.model.compiled.rows import RowFacts, RowKernel, addresses
from specviz.engine.record.draft_rows import DraftRows
from specviz.engine.row_stats import (
    distances,
    entries,
    facts_of,
    largest,
    leads,
    picked,
    ranks_of,
    rows_of,
)
from specviz.events import Chain, Closing, Level, Verify, log6, six
from specviz.events.base import ZERO
from specviz.events.round import Status, Why
from specviz.probability.draft import ROOT
from specviz.probability.draws import intervals
from specviz.probability.plan import DrawResult, TestResult
from specviz.probability.rows import Certain, CertainRows, at, dense
from specviz.verifiers import _joint
from specviz.verifiers._candidates import candidates

CLOSING_TOP = 20


@dataclass(slots=True)
class NodeOutcome:
    """What the walk did about one node. `implied`: kept with a longer prefix; a `test` it has then was never made.

    The test is `test.step.node`'s, which may be a twin of this node.
    """

    order: int | None = None
    test: TestResult | None = None
    draw: DrawResult | None = None
    thr: float | None = None  # of a draw: p / mass left, in id order
    edges: tuple[float, float] | None = None
    implied: bool = False


class VerifyRecorder:
    """Writes the verdicts of a finished round. `outcomes[i]`: of node i; `certain`: temperature 0."""

    def __init__(
        self, done: RoundResult, level: Level, topk: int, drafted: DraftRows, kernel: RowKernel | None = None
    ) -> None:
        assert done.outcome is not None
        assert done.plan is not None
        assert done.keys is not None
        self.done, self.draft, self.outcome, self.level, self.topk = done, done.draft, done.outcome, level, topk
        self.drafted, self.kernel = drafted, kernel
        self.certain = isinstance(done.target_probs, CertainRows)
        self.outcomes = [NodeOutcome() for _ in self.draft.tokens]
        order = 0
        for result in self.outcome.steps:
            if isinstance(result, TestResult):
                outcome = self.outcomes[result.shown]
                outcome.order, outcome.test = order, result
                order += 1
            elif result.judged:
                self._drawn(result, order)
                order += result.n_tested
        for node, test in done.plan.untested(self.outcome, done.keys, done.n).items():
            self.outcomes[node].implied, self.outcomes[node].test = True, test

    def _drawn(self, result: DrawResult, order: int) -> None:
        """A draw, shown as tests in id order: sibling by sibling, until the drawn one is met."""
        tokens = [self.draft.tokens[node] for node in result.judged]
        row = None if self.certain else result.step.row()
        masses = [float(token == result.drawn.token) if row is None else at(row, token) for token in tokens]
        edges = [None] * len(tokens) if row is None or result.drawn.u is None else intervals(row, tokens)
        left = 1.0
        for k, node in enumerate(result.judged):
            p = 0.0 if tokens[k] in tokens[:k] else masses[k]  # a twin of a sibling that was passed over
            outcome = self.outcomes[node]
            outcome.draw, outcome.edges = result, edges[k]
            if k < result.n_tested:
                outcome.order, outcome.thr = order + k, min(1.0, p / left) if left > 1e-12 else 0.0
            left -= p

    @cached_property
    def shown_rows(self) -> torch.Tensor:
        """`[n_fed + 1, V]` target rows for display: the law at T > 0; the scores at T = 0, for their plain softmax."""
        rows = self.done.logits if self.certain else self.done.target_probs
        assert rows is not None
        return rows

    @cached_property
    def facts(self) -> RowFacts:
        """Of those rows, and of every node's token in its own; the last token is the one that closed the round."""
        rows, tokens = [parent + 1 for parent in self.draft.parents], list(self.draft.tokens)
        last = self.outcome.steps[-1] if self.outcome.steps else None
        if isinstance(last, DrawResult):
            rows.append(last.step.node + 1)
            tokens.append(last.drawn.token)
        return facts_of(self.kernel, self.shown_rows, self.topk, rows, tokens, shares=not self.certain)

    def records(self) -> list[Verify]:
        """The verdict on every node that could be kept: pending ones of earlier rounds first, then in id order."""
        judged = self._judged()
        if self.level == "full" and judged:
            self._add_context(judged)
        place = {node: k for k, node in enumerate(self.draft.ids)}
        out: list[Verify] = []
        for node in (*self.draft.pending, *self.draft.nodes):
            index = place.get(node.id)
            if index is not None:
                if not self.draft.n_judged <= index < self.draft.n_fed:  # those are fed only: nothing is decided there
                    out.append(judged[index])
            elif node.parent == ROOT or (node.parent in place and self.draft.has_row(place[node.parent])):
                out.append(
                    Verify(
                        node=node.id,
                        order=None,
                        kind="draw",
                        logp=None,
                        logq=None,
                        thr=None,
                        u=None,
                        status="pruned",
                        why="budget",
                    )
                )
        return out

    def _judged(self) -> list[Verify]:
        """The records of the nodes of the draft, by their numbers there."""
        draft = self.draft
        kind: Literal["draw", "test"] = "draw" if self.outcome.by_draw else "test"
        rows = [parent + 1 for parent in draft.parents]
        p, margins = self._target_masses(rows, draft.tokens), self._margins()
        drawn = [node for node, row in enumerate(draft.row_of) if row >= 0]
        numbers, tokens = [draft.row_of[node] for node in drawn], [draft.tokens[node] for node in drawn]
        q = dict(zip(drawn, picked(draft.law_rows, numbers, tokens), strict=True)) if drawn else {}
        out: list[Verify] = []
        for node, (outcome, (status, why)) in enumerate(zip(self.outcomes, self._statuses(p), strict=True)):
            record = Verify(
                node=draft.ids[node],
                order=outcome.order,
                kind=kind,
                logp=log6(p[node]),
                logq=log6(q[node]) if node in q else None,
                thr=None,
                u=None,
                status=status,
                why=why,
                implied=outcome.implied,
            )
            if outcome.draw is not None:
                u = outcome.draw.drawn.u
                record.kind, record.thr, record.u, record.interval = "draw", outcome.thr, u, outcome.edges
                if self.certain:
                    record.margin = margins[rows[node]]
                elif u is not None and outcome.edges is not None:
                    record.margin = six(min(abs(u - outcome.edges[0]), abs(u - outcome.edges[1])))
            elif outcome.test is not None:
                self._add_test(record, outcome.test, node)
            out.append(record)
        return out

    def _add_test(self, record: Verify, result: TestResult, node: int) -> None:
        """Its numbers. After failed siblings the row required is a residual: what that gives stands beside p."""
        step, u, thr = result.step, result.u, float(result.step.threshold)
        record.kind, record.thr, record.u, record.margin = "test", thr, u, six(abs(u - thr))
        if step.residual:
            record.log_left = log6(float(step.p))
        if step.q is not None:
            record.logq = log6(float(step.q))
        if step.node != node:
            record.judged = self.draft.ids[step.node]

    def _statuses(self, p: Sequence[float]) -> list[tuple[Status, Why]]:
        """What became of every node, and why; parents come before their children. `p`: the target's own masses."""
        accepted, done = self.outcome.accepted, self.done
        out: list[tuple[Status, Why]] = []
        for node, outcome in enumerate(self.outcomes):
            parent = self.draft.parents[node]
            if node in accepted[: done.n_accepted]:
                out.append(("accepted", "implied" if outcome.implied else "kept"))
            elif node in accepted:  # cut off
                out.append(("untested", "length" if done.finish in ("length", "context") else "after_stop"))
            elif outcome.test is not None:  # not: nothing left after failed siblings
                out.append(("rejected", "target_zero" if p[node] <= 0 else "u_above"))
            elif outcome.draw is not None and outcome.order is not None:
                out.append(("rejected", "target_zero" if p[node] <= 0 and not self.certain else "not_drawn"))
            # The walk never came here: the nearest ancestor (or itself) that was passed over tells why.
            elif parent == ROOT or parent in accepted:
                out.append(("untested", "sibling_kept"))
            elif out[parent][0] == "rejected":
                out.append(("untested", "parent_rejected"))
            else:
                why = out[parent][1]
                out.append(("untested", "prefix_rejected" if why == "parent_rejected" else why))
        return out

    def _target_masses(self, rows: Sequence[int], tokens: Sequence[int]) -> list[float]:
        probs = self.done.target_probs
        if isinstance(probs, CertainRows):
            return [1.0 if token == probs.tokens[row] else 0.0 for row, token in zip(rows, tokens, strict=True)]
        return picked(probs, rows, tokens)

    def _margins(self) -> list[float]:
        """At temperature 0, highest minus second highest logit of every row up to the last one drawn from."""
        upto = max((self.draft.parents[node] + 2 for node, facts in enumerate(self.outcomes) if facts.draw), default=0)
        if not self.certain or not upto:
            return []
        logits = self.done.logits
        assert logits is not None
        if self.level == "full" and self.facts.leads:
            return self.facts.leads
        where = None if self.kernel is None else addresses(logits)
        if self.kernel is not None and where is not None:
            facts = self.kernel.facts(where[:upto], logits.shape[-1], -1, (), ())
            if facts is not None:
                return facts.leads
        return [six(gap) for gap in leads(logits[:upto])]

    def _add_context(self, judged: list[Verify]) -> None:
        """What level full knows besides: the likeliest tokens of both models, ranks, entropies, distances."""
        draft, facts, ranks = self.draft, self.facts, self.drafted.ranks
        rows, first = [parent + 1 for parent in draft.parents], set[int]()
        for record, row, rank in zip(judged, rows, facts.ranks, strict=False):
            top = facts.tops[row]
            record.argmax_p, record.rank_p, record.entropy_p = top[0][0], rank, facts.entropies[row]
            record.rank_q = ranks.get(record.node)
            if row not in first:
                first.add(row)
                record.top = top
        drawn = [n for n, row in enumerate(draft.row_of) if row >= 0]
        if drawn:
            laws = rows_of(draft.law_rows, [draft.row_of[n] for n in drawn])
            gaps = distances(rows_of(self.shown_rows, [rows[n] for n in drawn]), laws)
            for n, gap in zip(drawn, gaps, strict=True):
                judged[n].tv_pq = six(gap)

    def closing(self, text: str | None) -> Closing:
        """The last draw of the round, or `none` when a node without a row, or the cut, closed it."""
        outcome, draft, done = self.outcome, self.draft, self.done
        stop = ROOT if outcome.stop == ROOT else draft.ids[outcome.stop]
        last = outcome.steps[-1] if outcome.steps else None
        dropped = outcome.closing is None or done.n_accepted == len(done.tokens)
        if dropped or not isinstance(last, DrawResult) or outcome.kind is None:
            return Closing(node=stop, kind="none", token=None, text=None, u=None)
        drawn, here = last.drawn, last.step.node
        record = Closing(
            node=stop,
            kind=outcome.kind,
            token=drawn.token,
            text=text,
            u=drawn.u,
            interval=None if drawn.lo is None or drawn.hi is None else (drawn.lo, drawn.hi),
            mass=_mass(last),
            logp=log6(self._target_masses([here + 1], [drawn.token])[0]),
            fallback=last.step.fallback,
            equals_drafted=drawn.token in [draft.tokens[node] for node in draft.candidates(here)],
        )
        if self.level == "full":
            judged = len(draft)  # without a node nothing else is wanted of the rows
            record.rank_p = (self.facts.ranks if judged else ranks_of(self.shown_rows, [here + 1], [drawn.token]))[-1]
            record.row = self._row_table(here, last.step.row())
        return record

    def _row_table(self, here: int, row: Any) -> list[tuple[int, float, float | None, float, float]]:
        """The largest entries of the row drawn from after node `here`: id, target, draft, weight, probability."""
        if isinstance(row, Certain):
            return [(row.token, 1.0, None, 1.0, 1.0)]
        draft = self.draft
        ids, weights_there, total = largest(self.kernel, torch.as_tensor(dense(row)), CLOSING_TOP)
        plain = entries(self.done.target_probs[here + 1], ids)  # type: ignore[index]
        drawn = [draft.row_of[node] for node in draft.candidates(here) if draft.row_of[node] >= 0]
        if not drawn and draft.carry is not None and not isinstance(draft.law_rows, CertainRows):
            drawn = [0]
        laws = entries(draft.law_rows[drawn[0]], ids) if drawn else []
        columns = [plain, weights_there, [weight / total for weight in weights_there], *([laws] if drawn else [])]
        n, rounded = len(ids), [six(number) for column in columns for number in column]
        target, held, share = (rounded[k : k + n] for k in (0, n, 2 * n))
        q: Sequence[float | None] = rounded[3 * n :] if drawn else [None] * n
        lines = zip(ids, target, q, held, share, weights_there, strict=True)
        return [line[:5] for line in lines if line[5] > 0]


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


def chain_records(done: RoundResult) -> Iterator[Chain]:
    """The records of a finished round, candidate by candidate, from the root on."""
    draft, rows = done.draft, done.target_probs
    if not draft.is_drawn or rows is None or isinstance(rows, CertainRows):
        return
    for path in candidates(draft):
        if path.shared == 0 and any(draft.row_of[node] >= 0 for node in path.nodes):
            part = _joint.chain(draft, path.nodes, rows)
            for node, position in zip(path.nodes, _joint.records(part), strict=True):
                yield _record(draft.ids[node], position)


def _record(node: int, at: _joint.Position) -> Chain:
    return Chain(
        node=node,
        log_r=_log(at.log_r),
        cap_at=at.cap_at,
        log_c=_log(at.log_c),
        d_pq=_six(at.d_pq),
        d_qp=_six(at.d_qp),
        dhat_pq=_six(at.dhat_pq),
        dhat_qp=_six(at.dhat_qp),
        h=at.h,
        credit_token=six(at.credit_token),
        credit_hsd=six(at.credit_hsd),
        credit_naive=six(at.credit_naive),
    )


def _log(x: float) -> float:
    return max(ZERO, six(x))


def _six(x: float | None) -> float | None:
    return None if x is None else six(x)
