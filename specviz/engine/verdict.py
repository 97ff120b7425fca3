"""From a finished round to its `verify` and `closing` records: what was tested, drawn, kept, and why not.

One record per node whose parent has a target row. Numbers leave the device in a few gathers over all nodes, never one
by one.
"""

from dataclasses import dataclass
from typing import Any

import torch

from specviz.draft import ROOT, Draft
from specviz.engine.round import Round
from specviz.events import Closing, Level, Verify, log6, six
from specviz.events.round import Status, Why
from specviz.keys import interval
from specviz.laws import Certain, CertainRows, at, dense
from specviz.plan import DrawResult, TestResult

CLOSING_TOP = 20


@dataclass(slots=True)
class _Fate:
    """What the trace says of one node."""

    order: int | None = None
    test: TestResult | None = None
    draw: DrawResult | None = None
    thr: float | None = None  # of a draw: p / mass left, in id order


def verify_records(done: Round, level: Level, topk: int) -> list[Verify]:
    """The verdict on every node, in id order."""
    draft = done.draft
    if not draft.nodes or done.outcome is None:
        return []
    fates = _fates(done)
    place = {node: k for k, node in enumerate(draft.ids)}
    numbers = _numbers(done, level, topk)
    out: list[Verify] = []
    for node in draft.nodes:
        index = place.get(node.id)
        if index is None:
            parent = place.get(node.parent)
            if node.parent == ROOT or (parent is not None and draft.has_row(parent)):
                out.append(_pruned(done, node.id))
            continue
        out.append(_record(done, index, fates, numbers[index]))
    return out


def _fates(done: Round) -> dict[int, _Fate]:
    """Follow the walk's trace; a draw judges all children of its place at once, shown in id order."""
    draft, order = done.draft, 0
    fates = {node: _Fate() for node in range(len(draft))}
    assert done.outcome is not None
    for result in done.outcome.trace:
        if isinstance(result, TestResult):
            fates[result.step.node].order, fates[result.step.node].test = order, result
            order += 1
            continue
        row, left = result.step.row(), 1.0
        for child in (c for c in draft.judged if draft.tokens[c] in result.step.edges and _follows(draft, c, result)):
            p = at(row, draft.tokens[child])
            kept_before = any(fates[c].draw is result and draft.tokens[c] == result.drawn.token for c in fates)
            fates[child].draw = result
            if kept_before:
                continue
            fates[child].thr = min(1.0, p / left) if left > 1e-12 else 0.0
            fates[child].order, order = order, order + 1
            left -= p
    return fates


def _follows(draft: Draft, child: int, result: DrawResult) -> bool:
    """Whether the child continues the text the draw was made at."""
    parent = draft.parents[child]
    here = result.step.node
    return parent == here or (parent != ROOT and here != ROOT and draft.path(parent) == draft.path(here))


def _record(done: Round, node: int, fates: dict[int, _Fate], numbers: dict[str, Any]) -> Verify:
    draft, fate = done.draft, fates[node]
    assert done.outcome is not None
    status, why = _status(done, node, fates)
    common: dict[str, Any] = {"node": draft.ids[node], "order": fate.order, "status": status, "why": why, **numbers}
    if fate.draw is not None:
        drawn = fate.draw.drawn
        low, high = interval(fate.draw.step.row(), draft.tokens[node]) if drawn.u is not None else (None, None)
        edges = None if low is None or high is None else (low, high)
        margin = numbers["margin"] if _certain(done) else _distance(drawn.u, edges)
        return Verify(**{**common, "kind": "draw", "thr": fate.thr, "u": drawn.u, "interval": edges, "margin": margin})
    if fate.test is not None:
        step = fate.test.step
        margin = six(abs(fate.test.u - float(step.threshold)))
        logp = log6(float(step.p))  # of the row that was required here, a residual after failed siblings
        return Verify(
            **{**common, "kind": "test", "thr": float(step.threshold), "u": fate.test.u, "margin": margin, "logp": logp}
        )
    kind = "draw" if any(isinstance(r, DrawResult) and r.step.edges for r in done.outcome.trace) else "test"
    return Verify(**{**common, "kind": kind, "thr": None, "u": None, "margin": None})


def _certain(done: Round) -> bool:
    return isinstance(done.target_probs, CertainRows)


def _distance(u: float | None, edges: tuple[float, float] | None) -> float | None:
    return None if u is None or edges is None else six(min(abs(u - edges[0]), abs(u - edges[1])))


def _status(done: Round, node: int, fates: dict[int, _Fate]) -> tuple[Status, Why]:
    draft, outcome, fate = done.draft, done.outcome, fates[node]
    assert outcome is not None
    if node in outcome.accepted[: done.n_accepted]:
        return "accepted", "kept"
    if node in outcome.accepted:  # kept by the walk, dropped by the cut
        return "untested", "length" if done.finish in ("length", "context") else "after_stop"
    if fate.test is not None:
        return "rejected", "target_zero" if fate.test.step.p <= 0 else "u_above"
    if fate.draw is not None:
        if fate.order is None:
            return "untested", "sibling_kept"
        row = fate.draw.step.row()
        return "rejected", "target_zero" if at(row, draft.tokens[node]) <= 0 else "not_drawn"
    return "untested", _untested(done, node, fates)


def _untested(done: Round, node: int, fates: dict[int, _Fate]) -> Why:
    """Why the walk never came here: the nearest ancestor (or itself) that was passed over, tells."""
    draft, outcome = done.draft, done.outcome
    assert outcome is not None
    parent = draft.parents[node]
    if parent == ROOT or parent in outcome.accepted:
        return "sibling_kept"
    status, why = _status(done, parent, fates)
    if status == "rejected":
        return "parent_rejected"
    return "prefix_rejected" if why == "parent_rejected" else why


def _pruned(done: Round, node_id: int) -> Verify:
    return Verify(
        node=node_id, order=None, kind="draw", logp=None, logq=None, thr=None, u=None, status="pruned", why="budget"
    )


def _numbers(done: Round, level: Level, topk: int) -> dict[int, dict[str, Any]]:
    """Per node: masses under target and draft law, the logit margin at T = 0, and at level full the context."""
    draft, logits = done.draft, done.logits
    assert logits is not None
    assert done.target_probs is not None
    nodes = range(len(draft))
    rows = [draft.parents[i] + 1 for i in nodes]
    tokens = [draft.tokens[i] for i in nodes]
    target = [log6(at(done.target_probs[r], t)) for r, t in zip(rows, tokens, strict=True)] if _certain(done) else [
        log6(p) for p in done.target_probs[rows, tokens].tolist()
    ]  # fmt: skip
    drawn = [
        None if draft.row_of[i] < 0 else log6(at(draft.law_rows[draft.row_of[i]], tokens[i])) for i in nodes
    ]  # fmt: skip
    margins: list[float | None] = [None] * len(logits)
    if _certain(done):
        two = logits.topk(2, -1).values
        margins = [six(m) for m in (two[:, 0] - two[:, 1]).tolist()]
    out = {
        i: {"logp": target[k], "logq": drawn[k], "margin": margins[rows[k]]} for k, i in enumerate(nodes)
    }  # fmt: skip
    if level == "full":
        for i, extra in zip(nodes, _context(done, rows, tokens, topk), strict=True):
            out[i].update(extra)
    return out


def shown_rows(done: Round) -> torch.Tensor:
    """`[n_fed + 1, V]` target rows for display: the law at T > 0, the plain softmax at T = 0."""
    assert done.logits is not None
    return done.logits.softmax(-1) if _certain(done) else done.target_probs  # type: ignore[return-value]


def _context(done: Round, rows: list[int], tokens: list[int], topk: int) -> list[dict[str, Any]]:
    draft = done.draft
    probs = shown_rows(done)
    top = probs.topk(min(topk, probs.shape[-1]), -1)
    tops = [
        [(t, log6(p)) for t, p in zip(ids, values, strict=True) if p > 0]
        for ids, values in zip(top.indices.tolist(), top.values.tolist(), strict=True)
    ]
    entropy = torch.special.entr(probs).sum(-1).tolist()
    mine = probs[rows, tokens]
    ranks = ((probs[rows] > mine[:, None]).sum(-1) + 1).tolist()
    by_id = {node.id: node for node in draft.nodes}
    out = []
    for k, row in enumerate(rows):
        raw = by_id[draft.ids[k]].raw
        law = draft.law_rows[draft.row_of[k]] if draft.row_of[k] >= 0 else None
        out.append(
            {
                "argmax_p": tops[row][0][0],
                "rank_p": ranks[k],
                "rank_q": None if raw is None else int((raw > raw[tokens[k]]).sum()) + 1,
                "entropy_p": six(entropy[row]),
                "tv_pq": None if law is None else six(float((probs[row] - law).abs().sum()) / 2),
                "top": tops[row] if rows.index(row) == k else None,
            }
        )
    return out


def closing_record(done: Round, text: str | None, level: Level) -> Closing:
    """The last draw of the round, or `none` when a node without a row, or the cut, closed it."""
    outcome, draft = done.outcome, done.draft
    assert outcome is not None
    dropped = outcome.closing is None or done.n_accepted == len(done.tokens)
    stop = ROOT if outcome.stop == ROOT else draft.ids[outcome.stop]
    last = outcome.trace[-1] if outcome.trace else None
    if dropped or not isinstance(last, DrawResult) or outcome.kind is None:
        return Closing(node=stop, kind="none", token=None, text=None, u=None)
    drawn, row = last.drawn, last.step.row()
    children = draft.children.get(outcome.stop, ())
    plain = shown_rows(done)[outcome.stop + 1]
    record = Closing(
        node=stop, kind=outcome.kind, token=drawn.token, text=text, u=drawn.u,
        interval=None if drawn.lo is None or drawn.hi is None else (drawn.lo, drawn.hi),
        mass=_mass(done, last), logp=log6(at(done.target_probs[outcome.stop + 1], drawn.token)),  # type: ignore[index]
        rank_p=int((plain > plain[drawn.token]).sum()) + 1,
        equals_drafted=any(draft.tokens[c] == drawn.token for c in children), fallback=last.step.fallback,
    )  # fmt: skip
    if level == "full":
        record.row = _row_table(done, last, row)
    return record


def _mass(done: Round, last: DrawResult) -> float | None:
    """Share of the target's row that the children left over: what a recovered token is drawn from."""
    if last.step.kind == "bonus":
        return 1.0
    if last.step.mass is not None:
        return float(last.step.mass)
    row = last.step.row()
    total = 1.0 if isinstance(row, Certain) else float(row.sum())
    return max(0.0, 1.0 - sum(at(row, token) for token in last.step.edges) / total)


def _row_table(done: Round, last: DrawResult, row: Any) -> list[tuple[int, float, float | None, float, float]]:
    """The largest entries of the row drawn from: id, target, draft, weight, probability."""
    if isinstance(row, Certain):
        return [(row.token, 1.0, None, 1.0, 1.0)]
    draft, here = done.draft, last.step.node
    weights = torch.as_tensor(dense(row))
    top = weights.topk(min(CLOSING_TOP, len(weights)))
    plain = done.target_probs[here + 1]  # type: ignore[index]
    first = next((c for c in draft.children.get(here, ()) if draft.row_of[c] >= 0), None)
    law = None if first is None else draft.law_rows[draft.row_of[first]]
    total = float(weights.sum())
    return [
        (t, six(at(plain, t)), None if law is None else six(at(law, t)), six(w), six(w / total))
        for w, t in zip(top.values.tolist(), top.indices.tolist(), strict=True)
        if w > 0
    ]
