"""From a finished round to its `verify` and `closing` records: what was tested, drawn, kept, and why not.

One record per node whose parent has a target row. Numbers leave the device in a few gathers over all nodes, never one
by one.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from specviz.draft import ROOT
from specviz.engine.round import Round
from specviz.events import Closing, Level, Verify, log6, six
from specviz.events.round import Status, Why
from specviz.keys import intervals
from specviz.laws import Certain, CertainRows, at, dense
from specviz.plan import DrawResult, TestResult
from specviz.verifiers.spelling import Spelling

CLOSING_TOP = 20
Numbers = dict[str, Any]


@dataclass(slots=True)
class Fate:
    """What the trace says of one node."""

    order: int | None = None
    test: TestResult | None = None
    draw: DrawResult | None = None
    thr: float | None = None  # of a draw: p / mass left, in id order
    edges: tuple[float, float] | None = None


class Verdict:
    """A finished round, judged. `fates` follow the walk's trace; a draw judges all children of its place at once."""

    def __init__(self, done: Round) -> None:
        assert done.outcome is not None
        self.done, self.draft, self.outcome = done, done.draft, done.outcome
        self.fates = [Fate() for _ in range(len(self.draft))]
        self.n_tested = 0
        spelling = Spelling(self.draft) if len(self.draft) else None
        for result in self.outcome.trace:
            if isinstance(result, TestResult):
                self._tested(self.fates[result.step.node]).test = result
            elif spelling and result.step.edges:
                self._drawn(result, list(spelling.candidates(result.step.node)))

    def _tested(self, fate: Fate) -> Fate:
        fate.order = self.n_tested
        self.n_tested += 1
        return fate

    def _drawn(self, result: DrawResult, children: list[int]) -> None:
        """Shown as tests in id order: sibling by sibling, until the drawn one is met."""
        row, left, met = result.step.row(), 1.0, False
        tokens = [self.draft.tokens[c] for c in children]
        edges = [None] * len(tokens) if result.drawn.u is None else intervals(row, tokens)
        for child, token, edge in zip(children, tokens, edges, strict=True):
            fate, p = self.fates[child], at(row, token)
            fate.draw, fate.edges = result, edge
            if not met:
                self._tested(fate).thr = min(1.0, p / left) if left > 1e-12 else 0.0
            met, left = met or token == result.drawn.token, left - p

    @cached_property
    def certain(self) -> bool:
        """Temperature 0: rows are one-hot."""
        return isinstance(self.done.target_probs, CertainRows)

    @cached_property
    def shown_rows(self) -> torch.Tensor:
        """`[n_fed + 1, V]` target rows for display: the law at T > 0, the plain softmax at T = 0."""
        assert self.done.logits is not None
        return self.done.logits.softmax(-1) if self.certain else self.done.target_probs  # type: ignore[return-value]

    def records(self, level: Level, topk: int) -> list[Verify]:
        """The verdict on every node, in id order."""
        place = {node: k for k, node in enumerate(self.draft.ids)}
        numbers = self._numbers(level, topk) if place else []
        out: list[Verify] = []
        for node in self.draft.nodes:
            index = place.get(node.id)
            if index is not None:
                out.append(self._record(index, numbers[index]))
            elif node.parent == ROOT or (node.parent in place and self.draft.has_row(place[node.parent])):
                out.append(_pruned(node.id))
        return out

    def _record(self, node: int, numbers: Numbers) -> Verify:
        fate = self.fates[node]
        status, why = self.status(node)
        own: Numbers = {"kind": "draw" if self._by_draw else "test", "thr": None, "u": None, "margin": None}
        if fate.draw is not None:
            u, margin = fate.draw.drawn.u, numbers["margin"] if self.certain else _distance(fate)
            own = {"kind": "draw", "thr": fate.thr, "u": u, "interval": fate.edges, "margin": margin}
        elif fate.test is not None:
            u, thr = fate.test.u, float(fate.test.step.threshold)
            # The row required here is a residual after failed siblings: its own mass, not the plain row's.
            logp = log6(float(fate.test.step.p))
            own = {"kind": "test", "thr": thr, "u": u, "margin": six(abs(u - thr)), "logp": logp}
        return Verify(
            **{**numbers, "node": self.draft.ids[node], "order": fate.order, "status": status, "why": why, **own}
        )

    @cached_property
    def _by_draw(self) -> bool:
        return any(isinstance(result, DrawResult) and result.step.edges for result in self.outcome.trace)

    def status(self, node: int) -> tuple[Status, Why]:
        """What became of a node, and why."""
        fate, accepted = self.fates[node], self.outcome.accepted
        if node in accepted:
            if node in accepted[: self.done.n_accepted]:
                return "accepted", "kept"
            return "untested", "length" if self.done.finish in ("length", "context") else "after_stop"  # cut off
        if fate.test is not None:
            return "rejected", "target_zero" if fate.test.step.p <= 0 else "u_above"
        if fate.draw is not None and fate.order is not None:
            zero = at(fate.draw.step.row(), self.draft.tokens[node]) <= 0
            return "rejected", "target_zero" if zero and not self.certain else "not_drawn"
        return "untested", self._untested(node)

    def _untested(self, node: int) -> Why:
        """Why the walk never came here: the nearest ancestor (or itself) that was passed over tells."""
        parent = self.draft.parents[node]
        if parent == ROOT or parent in self.outcome.accepted:
            return "sibling_kept"
        status, why = self.status(parent)
        if status == "rejected":
            return "parent_rejected"
        return "prefix_rejected" if why == "parent_rejected" else why

    def _numbers(self, level: Level, topk: int) -> list[Numbers]:
        """Per node: masses under target and draft law, the logit margin at T = 0, and at level full the context."""
        draft, done = self.draft, self.done
        assert done.logits is not None
        assert done.target_probs is not None
        rows, tokens = [parent + 1 for parent in draft.parents], list(draft.tokens)
        if self.certain:
            target = [at(done.target_probs[r], t) for r, t in zip(rows, tokens, strict=True)]
            margins = self._margins(done.logits)
        else:
            target, margins = done.target_probs[rows, tokens].tolist(), [None] * len(done.logits)
        out = [
            {"logp": log6(p), "logq": None, "margin": margins[row]} for p, row in zip(target, rows, strict=True)
        ]  # fmt: skip
        drawn = [node for node in range(len(draft)) if draft.row_of[node] >= 0]
        if drawn:
            q = draft.law_rows[[draft.row_of[n] for n in drawn], [tokens[n] for n in drawn]].tolist()
            for node, mass in zip(drawn, q, strict=True):
                out[node]["logq"] = log6(mass)
        if level == "full":
            self._add_context(out, rows, tokens, drawn, topk)
        return out

    def _margins(self, logits: torch.Tensor) -> list[float | None]:
        """Highest minus second highest logit of every row up to the last one drawn from; the rest are not shown."""
        drawn_from = [self.draft.parents[node] + 1 for node, fate in enumerate(self.fates) if fate.draw is not None]
        upto = max(drawn_from, default=-1) + 1
        two = logits[:upto].topk(2, -1).values
        return [six(m) for m in (two[:, 0] - two[:, 1]).tolist()] + [None] * (len(logits) - upto)

    def _add_context(self, out: list[Numbers], rows: list[int], tokens: list[int], drawn: list[int], topk: int) -> None:
        draft, probs = self.draft, self.shown_rows
        tops, entropy = top_lists(probs, topk), entropies(probs)
        ranks = ranks_of(probs, rows, tokens)
        first: set[int] = set()
        for node, row in enumerate(rows):
            out[node].update(argmax_p=tops[row][0][0], rank_p=ranks[node], entropy_p=six(entropy[row]))
            if row not in first:
                first.add(row)
                out[node]["top"] = tops[row]
        by_id = {node.id: node for node in draft.nodes}
        scored = [n for n in range(len(draft)) if by_id[draft.ids[n]].raw is not None]
        if scored:
            raws = {id(by_id[draft.ids[n]].raw): by_id[draft.ids[n]].raw for n in scored}
            number = {key: k for k, key in enumerate(raws)}
            at_rows = [number[id(by_id[draft.ids[n]].raw)] for n in scored]
            stacked = torch.stack(list(raws.values()))
            for node, rank in zip(scored, ranks_of(stacked, at_rows, [tokens[n] for n in scored]), strict=True):
                out[node]["rank_q"] = rank
        if drawn:
            laws = rows_of(draft.law_rows, [draft.row_of[n] for n in drawn])
            gaps = (rows_of(probs, [rows[n] for n in drawn]) - laws).abs().sum(-1).div(2).tolist()
            for node, gap in zip(drawn, gaps, strict=True):
                out[node]["tv_pq"] = six(gap)

    def closing(self, text: str | None, level: Level) -> Closing:
        """The last draw of the round, or `none` when a node without a row, or the cut, closed it."""
        outcome, draft, done = self.outcome, self.draft, self.done
        stop = ROOT if outcome.stop == ROOT else draft.ids[outcome.stop]
        last = outcome.trace[-1] if outcome.trace else None
        dropped = outcome.closing is None or done.n_accepted == len(done.tokens)
        if dropped or not isinstance(last, DrawResult) or outcome.kind is None:
            return Closing(node=stop, kind="none", token=None, text=None, u=None)
        drawn, row = last.drawn, last.step.row()
        assert done.target_probs is not None
        record = Closing(
            node=stop, kind=outcome.kind, token=drawn.token, text=text, u=drawn.u,
            interval=None if drawn.lo is None or drawn.hi is None else (drawn.lo, drawn.hi), mass=_mass(last),
            logp=log6(at(done.target_probs[outcome.stop + 1], drawn.token)), fallback=last.step.fallback,
            equals_drafted=any(draft.tokens[c] == drawn.token for c in draft.children.get(outcome.stop, ())),
        )  # fmt: skip
        if level == "full":
            record.rank_p = ranks_of(self.shown_rows, [outcome.stop + 1], [drawn.token])[0]
            record.row = self._row_table(last, row)
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
        first = next((c for c in draft.children.get(here, ()) if draft.row_of[c] >= 0), None)
        laws = [None] * len(ids) if first is None else draft.law_rows[draft.row_of[first]][top.indices].tolist()
        return [
            (token, six(p), None if q is None else six(q), six(weight), six(weight / total))
            for token, p, q, weight in zip(ids, plain, laws, top.values.tolist(), strict=True)
            if weight > 0
        ]


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
    total = 1.0 if isinstance(row, Certain) else float(row.sum())
    return max(0.0, 1.0 - sum(at(row, token) for token in last.step.edges) / total)


def top_lists(probs: torch.Tensor, topk: int) -> list[list[tuple[int, float]]]:
    """`[[(id, log probability), ..], ..]` of rows `[n, V]`, one copy off the device."""
    top = probs.topk(min(topk, probs.shape[-1]), -1)
    return [
        [(token, log6(p)) for token, p in zip(ids, values, strict=True) if p > 0]
        for ids, values in zip(top.indices.tolist(), top.values.tolist(), strict=True)
    ]


def rows_of(table: torch.Tensor, rows: list[int]) -> torch.Tensor:
    """`[n, V]`: some rows of a table; a list as subscript costs twice as much."""
    return table.index_select(0, torch.tensor(rows, device=table.device))


def entropies(probs: torch.Tensor) -> list[float]:
    """Entropy of every row `[n, V]`, in nats; `special.entr` takes twice as long."""
    tiny = torch.finfo(probs.dtype).tiny
    out: list[float] = probs.clamp_min(tiny).log_().mul_(probs).sum(-1).neg_().tolist()
    return out


def ranks_of(scores: torch.Tensor, rows: list[int], tokens: list[int]) -> list[int]:
    """Rank (1 = highest) of `tokens[i]` in row `rows[i]` of `[n, V]`."""
    picked = rows_of(scores, rows)
    mine = picked.gather(-1, torch.tensor(tokens, device=scores.device)[:, None])
    ranks: list[int] = ((picked > mine).sum(-1) + 1).tolist()
    return ranks
