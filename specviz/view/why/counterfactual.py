"""`Flip`: how little another u would have changed a verdict. Re-decides from the record alone, no model.

It speaks of this one decision with everything before it as it was. What comes after a flipped decision is other
text, so nothing is claimed about it.
"""

from specviz.traits import TOKENWISE
from specviz.view.frame.parts import Flip
from specviz.view.why.node_context import Case
from specviz.view.why.values_text import span
from specviz.view.words.numbers import fine, prob


def flip(case: Case) -> Flip | None:
    """The flip of a tested node; None for an untested one, and where u plays no part (temperature 0)."""
    verdict, v = case.verdict, case.values
    if verdict is None or verdict.order is None or case.greedy or v.u is None or verdict.implied:
        return None
    kept = verdict.status == "accepted"
    if verdict.kind == "draw":
        return _draw(v.u, v.lo, v.hi, kept)
    return None if v.thr is None else _test(case, v.u, v.thr, kept)


def _test(case: Case, u: float, thr: float, kept: bool) -> Flip:
    lo, hi = 0.0, min(1.0, max(0.0, thr))
    if hi >= 1:
        return Flip("no u rejects it", lo, hi, 0.0, "")
    if hi <= 0:
        return Flip("no u keeps it", lo, hi, 0.0, "")
    if kept:
        return Flip(f"rejected from u ≥ {fine(thr)}", lo, hi, thr - u)
    slack = f", or slack ≥ {prob(u - thr)} (lossy rule: no guarantee)" if _ratio_test(case) else ""
    return Flip(f"kept below u < {fine(thr)}{slack}", lo, hi, thr - u)


def _ratio_test(case: Case) -> bool:
    """`slack` is added to p/q, so it speaks to a first test of a drawn token on a chain."""
    return case.drawn and case.n_failed == 0 and case.n_siblings == 0 and case.rule.replays_as == TOKENWISE


def _draw(u: float, lo: float | None, hi: float | None, kept: bool) -> Flip | None:
    if lo is None or hi is None:
        return None
    if hi <= lo:
        return Flip("no u draws it", lo, hi, 0.0, "")
    if kept:
        delta = hi - u if hi - u <= u - lo else lo - u
        return Flip(f"another token for u outside {span(lo, hi)}", lo, hi, delta)
    return Flip(f"kept for u in {span(lo, hi)}", lo, hi, lo - u if u < lo else hi - u)
