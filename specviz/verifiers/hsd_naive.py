"""`hsd_naive`: hierarchical speculative decoding without the cap. Lossless, and paid for with further target calls.

Prefixes are kept with the uncapped ratio r_t in place of c_t, so that more of a draft is kept than
by any rule that continues plainly. A prefix with r_t > 1 is refilled only in part at its own level; the rest comes from
its parent's residual. So after a stop at t the remaining planned - t positions follow the residual rows of the path
*being written*, `(R p - q)+` with R its joint ratio: the first is the closing token, the others are carried rounds, one
target and one draft call each and nothing drafted. In every golden case that is fewer tokens a target call than `hsd`.

How long a block is was fixed before a token was drawn (`Draft.planned`): a draft that a drafted stop token cut short
still has its whole block to follow on the other path.
"""

import math
from typing import Any

from specviz.probability.draft import ROOT, Carry, Draft
from specviz.probability.plan import Draw, Plan, Step, Verifier
from specviz.probability.rows import Row, Rows, at
from specviz.traits import NAIVE, VerifierTraits
from specviz.verifiers import _candidates, _joint
from specviz.verifiers._scan import closing, misfit, nodes_of, scan


def plan(draft: Draft, target_probs: Rows) -> Plan:
    """The naive plan, or that of a carried round. `target_probs` `[n_fed + 1, V]`: row 0 after the root."""
    if draft.carry is not None:
        step = _carried(draft.carry, draft.law_rows, target_probs)
        return Plan(draft, ROOT, lambda state: step)
    planned = len(nodes_of(draft)) if draft.planned is None else draft.planned

    def carry(part: _joint.JointChain, weighed: _joint.WeighedChain, t: int, token: int) -> Carry | None:
        return _after(_ratio(weighed, t, planned - t), part.rows[t], _joint.law_at(part, t), token)

    return scan(draft, target_probs, capped=False, carry=carry)


def _ratio(weighed: _joint.WeighedChain, t: int, left: int) -> Carry:
    """The joint ratio of the first t tokens, with `left` positions of the block still to write."""
    return Carry(weighed.log_w[t], left, weighed.w[t] if weighed.w else None)


def _carried(carry: Carry, laws: Rows | None, target_probs: Rows) -> Step:
    """One token of the tail, from `(R p - q)+`; from p when R is infinite."""
    if laws is None or carry.log_ratio == math.inf:
        endless = Carry(math.inf, carry.left)
        row = target_probs[0]
        return Draw(ROOT, lambda: row, {}, "residual", "recovered", carry=lambda y: _after(endless, row, None, y))
    part = _joint.below(target_probs, laws)
    weighed = _joint.weigh(part, capped=False, start=carry.log_ratio if carry.exact is None else carry.exact)

    def after(part: _joint.JointChain, weighed: _joint.WeighedChain, t: int, token: int) -> Carry | None:
        return _after(carry, part.rows[0], _joint.law_at(part, 0), token)

    return closing(ROOT, part, weighed, 0, after)


def _after(carry: Carry, row: Row, law: Row | None, token: int) -> Carry | None:
    """What the next carried round gets: the ratio times p(y)/q(y). `law` None: it was infinite and stays so."""
    if carry.left <= 1:
        return None
    q: Any = 0 if law is None else at(law, token)
    if not q > 0:
        return Carry(math.inf, carry.left - 1)
    p = at(row, token)
    exact = None if carry.exact is None else carry.exact * p / q
    return Carry(carry.log_ratio + _candidates.log_of(p) - _candidates.log_of(q), carry.left - 1, exact)


def refuses(draft: Draft) -> str | None:
    """Chains, and the empty draft of a carried round."""
    if draft.carry is None:
        return misfit(draft)
    return "a carried round drafts nothing" if len(draft) else None


VERIFIER = Verifier(
    name="hsd_naive",
    lossless=True,
    keeps_tokens=False,
    help="hierarchical, uncapped: keeps more, then writes the rest of the block one target call a token; one chain",
    traits=VerifierTraits(
        direction="backward", letter="r", capped=False, last_capped=False, replays_as=NAIVE, page="docs/papers/hsd.md"
    ),
    plan=plan,
    refuses=refuses,
    layouts=("chain",),
    carries=True,
)
