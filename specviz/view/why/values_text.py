"""The *why* of every drafted node in one or two sentences, for a student and an engineer alike.

Filled from recorded fields only: what decided, with the numbers that decided it, and nothing the trace does not hold.
"""

import math
from collections.abc import Callable

from specviz.events import DraftStep
from specviz.numerals import percent, plural, times
from specviz.traits import TOKENWISE
from specviz.view.frame.parts import Flip
from specviz.view.why.node_context import NodeContext
from specviz.view.why.scan_text import scan_words
from specviz.view.words.numbers import apart, fine, within

_CAVEAT = "this token only"

_FATES = {
    "branch_lost": "Another branch begins with the target's token, so this one is invalidated.",
    "branch_void": "The text did not reach it: a token before was rejected, or no branch begins with the target's.",
    "trimmed": "Its branch goes on, but was cut before this token, where the draft model was unsure.",
    "orphaned": "A token before it was rejected, so the text never got here.",
    "unverified_at_end": "The text ended before the target could judge it.",
}
_NOTHING = "The trace does not say what became of it."
ENDED = {
    "eos": "the end-of-text token came",
    "stop": "a stop text was complete",
    "length": "the length limit was reached",
    "context": "the model's context is full",
}


def node_words(case: NodeContext) -> str:
    """Why this node is kept, rejected, untested or pruned; and of several that spell one text, which was judged."""
    if case.judged is None:
        return _node_words(case)
    return f"{_node_words(case)} Its twin n{case.judged} spells the same text, and is the node that was judged."


def _node_words(case: NodeContext) -> str:
    verdict = case.verdict
    if not case.node.kept or (verdict and verdict.status == "pruned"):
        return _pruned(case)
    if verdict is None and (case.ahead or case.fate in _FATES):
        return _beside(case)
    if verdict is None:
        return _blocked(case) if case.blocker else _NOTHING
    if verdict.status == "untested":
        sentence = _UNTESTED.get(verdict.why)
        return sentence(case) if sentence else _NOTHING
    kept = verdict.status == "accepted"
    if case.elsewhere and (words := _told_elsewhere(case, kept)):
        return words
    if case.backward:
        return scan_words(case, kept)
    if case.greedy:
        return (
            f"{case.token} is the target's most likely token here, as the draft guessed.{_TIED if _tie(case) else ''}"
            if kept
            else _greedy_rejected(case)
        )
    if verdict.kind == "draw":
        return _drawn_kept(case) if kept else _drawn_rejected(case)
    return _test_kept(case) if kept else _test_rejected(case)


def _told_elsewhere(case: NodeContext, kept: bool) -> str:
    """The sentence where another engine decided by a rule of its own, or by numbers missing from the record."""
    verdict, done = case.verdict, "kept" if kept else "refused"
    if case.node.token < 0:
        return f"The engine {done} what it had drafted here; which token that was is not on record."
    if case.how and case.values.thr is None:
        return f"{case.how[:1].upper()}{case.how[1:]}. The engine {done} it."
    if verdict is None or verdict.kind != "test" or (case.greedy and not case.backward):
        return ""
    if case.values.p is None:
        return f"The engine {done} it. What the target gave it is not on record, so its test cannot be shown."
    if case.backward and case.values.thr is None:
        return f"The engine {done} it. Of its joint test not all numbers are on record, so it cannot be shown."
    if case.values.thr is None and not case.backward:
        broken = case.values.u is not None and (case.values.q is not None or case.values.point_mass)
        why = "which its numbers do not bear out: see the warnings" if broken else "its numbers are not all on record"
        return f"The engine {done} it; {why}."
    return ""


def _beside(case: NodeContext) -> str:
    """A token of a branch that the target has not judged in this round."""
    where = f"Drafted on branch {case.node.branch}, beside the target's pass"
    if case.fate is None:
        return f"{where}: the target's token is on this branch, so the next round judges what follows."
    return f"{where}. {_FATES[case.fate]}"


# Temperature 0: the target's row is one token -----------------------------------------------------------------------


_TIED = " Another token is exactly as likely: a tie."


def _tie(case: NodeContext) -> bool:
    """Whether this token shares the first place of the target's row with another one."""
    return case.verdict is not None and case.verdict.margin == 0 and case.verdict.rank_p == 1


def _greedy_rejected(case: NodeContext) -> str:
    if case.taker is None:
        return f"{case.token} is not the target's most likely token here."
    if _tie(case):
        taken = case.taker.token
        return f"{taken} and {case.token} are equally likely to the target: a tie, of which it takes {taken}."
    return f"The target's most likely token here is {case.taker.token}, not {case.token}."


# kind draw: the target draws a token and follows it -----------------------------------------------------------------


def _drawn_kept(case: NodeContext) -> str:
    return f"The target drew {case.token} itself{_falls(case.values.u, _own(case))}; the draft had it ready."


def _drawn_rejected(case: NodeContext) -> str:
    zero = f" {case.token} has no chance here at all." if case.verdict and case.verdict.why == "target_zero" else ""
    if case.taker is None:
        return f"The target drew another token than {case.token}.{zero}"
    drew = f"The target drew {case.taker.token}{_falls(case.values.u, case.taker.interval)}"
    if case.taker.by == "sibling":
        return f"{drew}, a sibling of {case.token}.{zero}"
    none = "no drafted child is that token" if case.n_siblings else f"the draft had only {case.token} here"
    return f"{drew}; {none}.{zero}"


def _own(case: NodeContext) -> tuple[float, float] | None:
    v = case.values
    return (v.lo, v.hi) if v.lo is not None and v.hi is not None else None


def _falls(u: float | None, held: tuple[float, float] | None) -> str:
    if u is None or held is None:
        return ""
    return " (u {} falls in {})".format(*within(u, *held))


# kind test: u against a threshold -----------------------------------------------------------------------------------


def _test_kept(case: NodeContext) -> str:
    chance = _without_slack(case)
    if chance is not None and chance < 1:
        return f"{_with_slack(case, chance)} This u accepts it."
    if not case.drawn:
        return f"{_named(case)} {_u_is(case, 'below', 'so it stays', 'it stayed')}"
    if case.values.thr is not None and case.values.thr >= 1:
        v, who, inequality = case.values, "The target", ""
        if case.n_failed:
            who = f"What the target has left after {_failed(case)}"
        elif v.p is not None and v.q is not None:
            inequality = f" (p {fine(v.p)} ≥ q {fine(v.q)})"
        return f"{who} wants {case.token} at least as much as the draft did{inequality}, so no draw can reject it."
    return f"{_too_sure(case)} Accept probability {percent(case.values.thr)}; this u accepts it."


def _test_rejected(case: NodeContext) -> str:
    chance = _without_slack(case)
    if chance is not None:
        return f"{_with_slack(case, chance)} This u rejects it."
    if case.verdict and (case.verdict.why == "target_zero" or case.values.thr == 0):
        return _no_chance(case)
    if not case.drawn:
        return f"{_named(case)} {_u_is(case, 'not below', 'so it goes', 'it went')}"
    return f"{_too_sure(case)} Accept probability {percent(case.values.thr)}; this u rejects it."


def _without_slack(case: NodeContext) -> float | None:
    """What the lossy rule adds its slack to: p/q, of a point mass p; None under another rule."""
    if not case.rule.adds_slack:
        return None
    return case.values.ratio if case.drawn else case.values.p


def _with_slack(case: NodeContext, ratio: float) -> str:
    """The lossy rule says what it adds, and what a lossless one would have done."""
    v, name = case.values, "p/q" if case.drawn else "p"
    plain = "would" if v.u is not None and v.u < min(1.0, ratio) else "would not"
    return (
        f"{name} is {fine(min(1.0, ratio))}, and slack makes that a keep chance of {fine(v.thr)} (not lossless: "
        f"without slack it {plain} be kept)."
    )


def _u_is(case: NodeContext, sign: str, then: str, came: str) -> str:
    """The number against its threshold; of other engines it may not be on record."""
    if case.values.u is None:
        return f"What was drawn is not on record; {came}."
    u, thr = apart(case.values.u, case.values.thr)
    return f"u {u} is {sign} {thr}, {then}."


def _named(case: NodeContext) -> str:
    """A point mass: the draft gave a token and no odds."""
    chance = percent(case.values.thr)
    if case.n_failed:
        return f"After {_failed(case)} the target has {chance} left for {case.token}; that is its chance to stay."
    return f"The draft only names {case.token}; the target gives it {chance}, and that is its chance to stay."


def _too_sure(case: NodeContext) -> str:
    left, q = case.mass, case.values.q
    after = f" of what is left after {_failed(case)}" if case.n_failed else ""
    if not left or not q:
        return f"The draft was too sure{after}."
    if q / left < 1.1:
        return f"The draft was slightly too sure{after}: {fine(q)} against the target's {fine(left)}."
    return f"The draft was {times(q / left)} too sure{after}."


def _no_chance(case: NodeContext) -> str:
    if case.n_failed:
        return f"Nothing of {case.token} is left in the target's row after {_failed(case)}: no draw can keep it."
    cut = " once its unlikely tokens are cut" if case.cuts else ""
    return f"The target gives {case.token} no chance here{cut}: no draw can keep it."


def _failed(case: NodeContext) -> str:
    return "its sibling failed" if case.n_failed == 1 else f"its {case.n_failed} siblings failed"


# Never tested -------------------------------------------------------------------------------------------------------


def _blocked(case: NodeContext) -> str:
    blocker = case.blocker
    if blocker is None:
        return "The token before it was not kept, so the text never got here."
    who = f"Its parent {blocker.token}" if blocker.levels == 1 else f"{blocker.token}, {blocker.levels} levels up,"
    lost = f"lost its place to {blocker.taker.token}" if blocker.taker else "was not kept"
    return f"{who} {'was rejected' if blocker.rejected else lost}, so the text never got here."


def _sibling_kept(case: NodeContext) -> str:
    if case.own_test is not None and case.own_test.u is not None and case.own_test.thr is not None:
        sign = "below" if case.own_test.u < case.own_test.thr else "not below"  # one that came along with a longer one
        u, thr = apart(case.own_test.u, case.own_test.thr)
        return f"Its text was judged here: u {u} is {sign} {thr}. The text goes on from its twin {case.twin}."
    if case.blocker is not None:
        return _blocked(case)
    if case.twin is not None:
        return f"Its twin {case.twin}, which spells the same text, was kept in its place."
    if case.taker is None:
        return "Another token was kept at this place."
    token = case.taker.token
    kept = f"Its sibling {token} was kept" if case.taker.by == "sibling" else f"{token} was drawn"
    return f"{kept} at this place, and a text has one token per place."


def _pruned(case: NodeContext) -> str:
    if case.cut is not None:
        return _behind_cut(case.cut, case.node.pos - case.cut.pos)
    budget = f"the node budget ({case.budget})" if case.budget is not None else "the node budget"
    if case.blocker is not None or case.verdict is None or case.verdict.why == "budget":
        cum = case.node.src.get("cum")
        chance = f" The draft gave its path {fine(math.exp(min(0.0, cum)))}." if isinstance(cum, int | float) else ""
        return f"Pruned before the target saw it: {budget} went to likelier nodes.{chance}"
    return "Pruned before the target saw it."


def _behind_cut(cut: DraftStep, n: int) -> str:
    """Of a place that was filled with those before it, and lies `n` places behind where the draft ended."""
    where = "here" if not n else f"{plural(n, 'place')} before it"
    if cut.bound is None:
        return f"Filled with those before it, and not verified: the draft ended {where}."
    conf, bound = apart(cut.conf, cut.bound)
    return (
        f"Filled with those before it, and not verified: the draft ended {where}, where its confidence {conf} is below "
        f"the bound {bound}."
    )


_UNTESTED: dict[str, Callable[[NodeContext], str]] = {
    "parent_rejected": _blocked,
    "sibling_kept": _sibling_kept,
    "prefix_rejected": lambda case: _blocked(case) if case.blocker else "No prefix that reaches it passed.",
    "after_stop": lambda case: f"The text ended before it: {ENDED.get(case.finish or '', 'a stop came')}.",
    "length": lambda case: "The text reached its length limit before it.",
    "budget": _pruned,
    "not_drawn": _sibling_kept,
}


def flip(case: NodeContext) -> Flip | None:
    """The flip of a tested node; None for an untested one, and where u plays no part (temperature 0)."""
    verdict, v = case.verdict, case.values
    if verdict is None or verdict.order is None or case.greedy or v.u is None or verdict.implied:
        return None
    kept = verdict.status == "accepted"
    if verdict.kind == "draw":
        return _draw(v.u, v.lo, v.hi, kept)
    return None if v.thr is None else _test(case, v.u, v.thr, kept)


def _test(case: NodeContext, u: float, thr: float, kept: bool) -> Flip:
    lo, hi = 0.0, min(1.0, max(0.0, thr))
    if hi >= 1:
        return Flip("no u rejects it", lo, hi)
    if hi <= 0:
        return Flip("no u accepts it", lo, hi)
    shown = apart(u, thr)[1]
    if kept:
        return Flip(f"rejected from u ≥ {shown}", lo, hi, _CAVEAT)
    slack = f", or slack ≥ {apart(u - thr, least=2)[0]} (lossy rule: no guarantee)" if _ratio_test(case) else ""
    return Flip(f"would be accepted for u < {shown}{slack}", lo, hi, _CAVEAT)


def _ratio_test(case: NodeContext) -> bool:
    """`slack` is added to p/q, so it only affects the first test of a sampled token on a chain."""
    return case.drawn and case.n_failed == 0 and case.n_siblings == 0 and case.rule.replays_as == TOKENWISE


def _draw(u: float, lo: float | None, hi: float | None, kept: bool) -> Flip | None:
    if lo is None or hi is None:
        return None
    if hi <= lo:
        return Flip("no u draws it", lo, hi)
    stretch = within(u, lo, hi)[1]
    if kept:
        return Flip(f"another token for u outside {stretch}", lo, hi, _CAVEAT)
    return Flip(f"would be accepted for u in {stretch}", lo, hi, _CAVEAT)
