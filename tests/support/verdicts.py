"""Verdicts and closings of synthetic rounds, read off the walk of the real verifiers."""

from typing import Any

import numpy as np

from specviz import events as ev
from specviz.probability.draft import ROOT, Draft
from specviz.probability.draws import Keys, interval
from specviz.probability.plan import DrawResult, Outcome, Plan, Test, TestResult
from specviz.probability.rows import at, dense
from specviz.verifiers import _joint, get_verifier
from support.table import TEXTS, Run, V, entropy, full, rank, softmax, top_of


def verdicts(
    run: Run, draft: Draft, rows: Any, outcome: Outcome, n_emitted: int, cut: bool, plan: Plan, keys: Keys
) -> list[ev.Verify]:
    by_node: dict[int, dict[str, Any]] = {}
    for result in outcome.steps:
        _judge(by_node, draft, result)
    for node in outcome.accepted:
        if node not in by_node and get_verifier(run.recipe.rule).traits.backward:
            by_node[node] = _implied(run, draft, plan, keys, node)
    out = []
    for i in range(len(draft)):
        facts = by_node.get(i) or _unjudged(by_node, draft, i)
        if cut and draft.depths[i] > n_emitted:
            facts = {"order": None, "status": "untested", "why": "after_stop"}
        by_node[i] = facts
        out.append(verify_of(run, draft, rows, i, facts))
    return out


def _implied(run: Run, draft: Draft, plan: Plan, keys: Keys, node: int) -> dict[str, Any]:
    """Kept because a longer prefix passed; what its own test would have been is recorded too."""
    test = plan.step(("scan", draft.depths[node]))
    assert isinstance(test, Test), test
    u = keys.uniform("accept", len(run.tokens) - 1 + draft.depths[node])
    return {
        "order": None,
        "kind": "test",
        "thr": float(test.threshold),
        "u": u,
        "status": "accepted",
        "implied": True,
        "why": "implied",
    }


def chains(draft: Draft, rows: Any) -> list[ev.Chain]:
    """The joint ratios of a drawn chain."""
    nodes = tuple(range(len(draft)))
    if not nodes or not draft.is_chain or any(row < 0 for row in draft.row_of):
        return []
    records = _joint.records(_joint.chain(draft, nodes, rows))
    return [
        ev.Chain(
            node=draft.ids[node],
            cap_at=p.cap_at,
            log_r=ev.six(p.log_r),
            log_c=ev.six(p.log_c),
            **{name: None if (value := getattr(p, name)) is None else ev.six(value) for name in _CHAIN},
        )
        for node, p in zip(nodes, records, strict=True)
    ]


_CHAIN = ("d_pq", "d_qp", "dhat_pq", "dhat_qp", "h", "credit_token", "credit_hsd", "credit_naive")


def _judge(by_node: dict[int, dict[str, Any]], draft: Draft, result: TestResult | DrawResult) -> None:
    order = sum(f["order"] is not None for f in by_node.values())
    if isinstance(result, TestResult):
        why = "kept" if result.passed else "target_zero" if result.step.threshold == 0 else "u_above"
        status = "accepted" if result.passed else "rejected"
        by_node[result.step.node] = {
            "order": order,
            "kind": "test",
            "thr": float(result.step.threshold),
            "u": result.u,
            "status": status,
            "why": why,
        }
        return
    children = draft.children.get(result.step.node, ())
    row, left = result.step.row(), 1.0
    for child in children if not any(c in by_node for c in children) else ():
        held = interval(row, draft.tokens[child]) if result.drawn.lo is not None else None
        kept = child == result.kept
        status, why = ("accepted", "kept") if kept else ("rejected", "not_drawn")
        p = float(at(row, draft.tokens[child]) / dense(row).sum())
        thr = min(1.0, p / left) if left > 1e-12 else 0.0
        by_node[child] = {
            "order": order,
            "kind": "draw",
            "thr": thr,
            "u": result.drawn.u,
            "interval": held,
            "status": status,
            "why": why,
        }
        order, left = order + 1, left - p
        if kept:
            break


def _unjudged(by_node: dict[int, dict[str, Any]], draft: Draft, i: int) -> dict[str, Any]:
    parent = by_node.get(draft.parents[i], {"status": "accepted", "why": "kept"})
    why = {"accepted": "sibling_kept", "rejected": "parent_rejected"}.get(parent["status"])
    if why is None:
        why = "sibling_kept" if parent["why"] == "sibling_kept" else "prefix_rejected"
    return {"order": None, "status": "untested", "why": why}


def verify_of(run: Run, draft: Draft, rows: Any, i: int, facts: dict[str, Any]) -> ev.Verify:
    n, parent, token = len(run.tokens), draft.parents[i], draft.tokens[i]
    last = run.tokens[-1] if parent < 0 else draft.tokens[parent]
    raw = softmax(run.table.logits(last, n - 1 + draft.depths[i], "target"))
    raw_q = softmax(run.table.logits(last, n - 1 + draft.depths[i], "draft"))
    drawn = draft.row_of[i] >= 0
    return ev.Verify(
        **{
            "node": draft.ids[i],
            "kind": "draw" if run.recipe.rule == "walk" else "test",
            "thr": None,
            "u": None,
            "logp": ev.log6(at(rows[parent + 1], token)),
            "logq": ev.log6(at(draft.law(i, V), token)) if drawn else None,
            "argmax_p": full(run, int(raw.argmax())),
            "rank_p": full(run, rank(raw, token)),
            "top": top_of(run, raw) if draft.parents.index(parent) == i else None,  # siblings share it
            "rank_q": full(run, rank(raw_q, token)),
            "entropy_p": full(run, ev.six(entropy(raw))),
            "tv_pq": full(run, ev.six(float(np.abs(raw - raw_q).sum() / 2))),
            **facts,
        }
    )


def closing_of(run: Run, draft: Draft, rows: Any, outcome: Outcome, cut: bool) -> ev.Closing:
    stop = outcome.stop
    node = ROOT if stop == ROOT else draft.ids[stop]
    last = outcome.steps[-1] if outcome.steps else None
    if cut or outcome.closing is None or not isinstance(last, DrawResult):
        return ev.Closing(node=node, kind="none", token=None, text=None, u=None)
    token, row = outcome.closing, dense(last.step.row())
    target = rows[stop + 1]
    order = np.argsort(-row, kind="stable")[:8]
    below = next((c for c in draft.children.get(stop, ()) if draft.row_of[c] >= 0), None)
    law = draft.law(below, V) if below is not None else draft.law_rows[0] if draft.carry is not None else None
    table = [
        (
            int(y),
            ev.six(at(target, int(y))),
            None if law is None else ev.six(at(law, int(y))),
            ev.six(float(row[y])),
            ev.six(float(row[y] / row.sum())),
        )
        for y in order
        if row[y] > 0
    ]
    return ev.Closing(
        node=node,
        kind=outcome.kind or "none",
        token=token,
        text=TEXTS[token],
        u=last.drawn.u,
        mass=float(row.sum() if last.step.mass is None else last.step.mass),
        interval=None if last.drawn.lo is None or last.drawn.hi is None else (last.drawn.lo, last.drawn.hi),
        logp=ev.log6(at(target, token)),
        rank_p=rank(dense(target), token),
        equals_drafted=token in [draft.tokens[c] for c in draft.children.get(stop, ())],
        fallback=last.step.fallback,
        row=full(run, table),
    )
