"""The backward scan over one chain, shared by all joint rules. Not a verifier.

States: `("scan", t)` for t = gamma..1 tests whether the first t tokens are kept; the first success stops, a failure
goes on with t - 1. `("stop", t)` draws the closing token: from the residual row of the branch below position t, from
the target behind the whole chain, or not at all when the last token has no row (a drafted stop token).
"""

from collections.abc import Callable
from typing import Any

from specviz.probability.draft import ROOT, Carry, Draft
from specviz.probability.plan import Draw, Plan, PlanStop, State, Step, Test
from specviz.probability.rows import Rows
from specviz.verifiers import _candidates, _joint

CarryOf = Callable[[_joint.JointChain, _joint.WeighedChain, int, int], Carry | None]  # (.., tokens kept, token drawn)


def nodes_of(draft: Draft) -> tuple[int, ...]:
    """The judged nodes of a draft that is one path, from the root on."""
    out: list[int] = []
    node = ROOT
    while children := draft.children.get(node, ()):
        node = children[0]
        out.append(node)
    return tuple(out)


def misfit(draft: Draft) -> str | None:
    """Why a draft is not one chain to be judged jointly; None when it is."""
    if any(len(children) > 1 for children in draft.children.values()):
        return "it judges one chain and the draft has branches; walk, tokenwise, multi_hsd and multi_traversal take it"
    return _candidates.misfit(draft)


def scan(
    draft: Draft,
    target_probs: Rows,
    *,
    capped: bool = True,
    last: Callable[[_joint.WeighedChain], Any] | None = None,
    carry: CarryOf | None = None,
) -> Plan:
    """The plan of a backward scan. `capped`: weights c_t, else r_t; `last`: another chance for the last test."""
    nodes = nodes_of(draft)
    gamma = len(nodes)
    part = _joint.chain(draft, nodes, target_probs)
    weighed = _joint.weigh(part, capped=capped)

    def test(t: int) -> Test:
        node = nodes[t - 1]
        chance = last(weighed) if last and t == gamma else weighed.keep(t)
        law = None if draft.row_of[node] < 0 else weighed.q[t - 1]
        return Test(node, chance, ("stop", t), ("scan", t - 1) if t > 1 else ("stop", 0), weighed.p[t - 1], law)

    def stop(t: int) -> Step:
        node = nodes[t - 1] if t else ROOT
        if t < gamma:
            return closing(node, part, weighed, t, carry)
        return (
            Draw(node, lambda: target_probs[node + 1], {}, "target", "bonus") if draft.has_row(node) else PlanStop(node)
        )

    def open_step(state: State) -> Step:
        kind, t = state
        return test(t) if kind == "scan" else stop(t)

    return Plan(draft, ("scan", gamma) if gamma else ("stop", 0), open_step)


def closing(
    node: int, part: _joint.JointChain, weighed: _joint.WeighedChain, t: int, carry: CarryOf | None = None
) -> Draw:
    """The draw after the first t tokens of a chain, the rest of which failed.

    A residual without mass (rows that coincide up to rounding) is reached by rounding only: the required row stands in.
    """
    mass = weighed.lack[t]
    fallback = not mass > 0

    def row() -> Any:
        return part.rows[t] if fallback else _joint.residual(part, weighed, t)

    handed = None if carry is None else lambda token: carry(part, weighed, t, token)
    return Draw(node, row, {}, "residual", "recovered", fallback, mass, handed)
