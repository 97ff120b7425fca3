"""Sentences about one position of a backward scan: why its prefix passed, failed, or was kept with a longer one.

Only the first scan of a round starts from weight 1 at the root, so only there the joint ratio explains the threshold. A
later candidate is tested against a residual row: there the threshold alone is given.
"""

import math
from typing import TYPE_CHECKING

from specviz.numerals import percent
from specviz.traits import NAIVE
from specviz.view.words.numbers import apart, fine, joint

if TYPE_CHECKING:
    from specviz.metrics.replay_rules import ChainPosition
    from specviz.view.why.node_context import NodeContext


def scan_words(case: "NodeContext", kept: bool) -> str:
    """Why this position was kept or failed."""
    if case.verdict is not None and case.verdict.implied:
        return _implied(case)
    reason = _reason(case)
    if kept:
        return f"{reason} {_end(case, 'The scan stops here', reason)}{_carried(case)}"
    then = "a shorter prefix is tried" if case.depth > 1 else "nothing is kept"
    return f"{reason} {_end(case, then, reason)}"


def _implied(case: "NodeContext") -> str:
    v = case.values
    text = f"Kept with a longer prefix: the test at depth {case.stop_depth} passed."
    if v.u is None or v.thr is None:
        return text
    if v.u >= v.thr:
        return text + " Alone it would have failed: {} ≥ {}.".format(*apart(v.u, v.thr))
    return text


def _end(case: "NodeContext", then: str, reason: str) -> str:
    """The draw: `u .90 is not below it, so a shorter prefix is tried.` The chance again where it was told in fewer
    digits than show that."""
    v = case.values
    if v.u is None or v.thr is None:
        return f"{then[0].upper()}{then[1:]}."
    if v.thr <= 0 or v.thr >= 1:
        return f"{then[0].upper()}{then[1:]}."
    u, thr = apart(v.u, v.thr)
    it = "it" if thr in reason else thr
    return f"u {u} is below {it}. {then}." if v.u < v.thr else f"u {u} is not below {it}, so {then}."


def _carried(case: "NodeContext") -> str:
    if case.rule.capped or not case.n_carried:
        return ""
    if case.n_carried == 1:
        return " Its ratio is not capped, so one carried round follows, with a target and a draft call of its own."
    return f" Its ratio is not capped, so {case.n_carried} carried rounds follow, each with a target and a draft call."


def _reason(case: "NodeContext") -> str:
    """What makes the keep chance."""
    thr, link, name = case.values.thr, case.link, f"The prefix that ends in {case.token}"
    if thr is None or link is None or not _explains(case, link, thr):
        return _threshold(case, thr, name)
    if link.log_r == -math.inf:
        return f"A token at or before {case.token} is impossible under the target: no draw can keep this prefix."
    if not case.rule.capped:
        return _naive(case, link, name)
    if link.t == case.length:
        return _last(case, link, name)
    if link.log_c >= 0:
        grown = "the target wants it at least as much as the draft did" if not link.cap_at else "at its running maximum"
        return f"{name} has the ratio {joint(link.log_r)}, {grown}: kept for certain unless a longer one is."
    return f"{_weight(link, name)} {_masses(link, thr)}"


def _threshold(case: "NodeContext", thr: float | None, name: str) -> str:
    """A sentence with the keep chance alone, where the record lacks the numbers that it came from."""
    if thr != 0:
        return f"{name} has accept probability {percent(thr)}."
    if case.values.left == 0 and case.values.p:
        p = fine(case.values.p)
        return f"Earlier candidates left nothing of {case.token} (p {p}) in the target's row: no draw can keep it."
    return f"No draw can keep the prefix that ends in {case.token}."


def _explains(case: "NodeContext", link: "ChainPosition", thr: float) -> bool:
    """Whether the joint ratio, as recorded, is what the threshold came from: to every digit that is shown."""
    if not case.first_scan:
        return False
    from specviz.metrics.replay_rules import capped_keep, naive_keep

    last = link.t == case.length
    if _uncapped(case, link) or (last and not case.rule.capped):
        chance: float | None = math.exp(min(0.0, link.log_r))
    elif last:
        chance = math.exp(link.log_c)
    elif not case.rule.capped:
        chance = naive_keep(link.chain, link.log_r)
    else:
        chance = capped_keep(link.chain, link.log_c)
    return chance is not None and fine(chance) == fine(thr)


def _uncapped(case: "NodeContext", link: "ChainPosition") -> bool:
    """The last test of the reference code."""
    return case.rule.capped and not case.rule.last_capped and link.t == case.length


def _weight(link: "ChainPosition", name: str) -> str:
    c = fine(math.exp(link.log_c))
    if not link.cap_at:
        return f"{name} has the joint ratio {joint(link.log_r)}, so it carries weight {c}."
    return f"The ratio peaked at {_peak(link)} (position {link.cap_at}) and is now {joint(link.log_r)}: weight {c}."


def _peak(link: "ChainPosition") -> str:
    return joint(link.log_r - link.log_c)


def _masses(link: "ChainPosition", thr: float) -> str:
    chain = link.chain
    assert chain is not None, "a keep chance without its masses explains nothing"
    assert chain.d_pq is not None, chain
    plus, minus = fine(chain.d_pq), fine(chain.d_qp)
    if chain.d_pq <= 0:
        return "Its branch lacks no target mass, so a shorter prefix can do without it: keep chance 0."
    return (
        f"Its branch lacks {plus} of target mass and has {minus} too much draft mass: keep chance "
        f"{plus}/{minus} = {fine(thr)}."
    )


def _last(case: "NodeContext", link: "ChainPosition", name: str) -> str:
    c = fine(math.exp(link.log_c))
    if _uncapped(case, link):
        r = fine(math.exp(min(0.0, link.log_r)))
        if link.log_c == min(0.0, link.log_r):
            return f"Last position: the keep chance is the joint ratio {r}, here the same with and without the cap."
        return (
            f"Last position: this rule takes the uncapped ratio {r} where a lossless one takes c {c}, "
            "so it keeps drafts it should not."
        )
    if link.log_c >= 0:
        return f"{name} is the whole draft and its ratio is at its maximum, {joint(link.log_r)}: kept for certain."
    peak = f" (it peaked at {_peak(link)}, position {link.cap_at})" if link.cap_at else ""
    return f"Last position: the keep chance is the capped ratio, {c}{peak}."


def _naive(case: "NodeContext", link: "ChainPosition", name: str) -> str:
    if link.log_r >= 0:
        return f"{name} has the joint ratio {joint(link.log_r)}, not below 1: kept for certain unless a longer one is."
    chain, keep = link.chain, fine(link.keep[NAIVE])
    if link.t == case.length or chain is None or chain.dhat_pq is None or chain.dhat_qp is None:
        return f"Last position: the keep chance is the uncapped joint ratio, {keep}."
    return (
        f"{name} has the joint ratio {joint(link.log_r)}; its branch lacks {fine(chain.dhat_pq)} of target mass "
        f"and has {fine(chain.dhat_qp)} too much draft mass: keep chance {keep}."
    )
