"""What would have had to be another for a node whose own u decided nothing: at temperature 0, never tested, pruned.

The nearest change that the record knows; None where it knows none. A node that was tested has a `Flip`.
"""

import math

from specviz.numerals import number
from specviz.runlog.fold import Run
from specviz.runlog.tree import RoundTree
from specviz.view.why.node_context import NodeContext, case
from specviz.view.why.values_text import flip
from specviz.view.words.numbers import apart, fine, span


def otherwise(run: Run, tree: RoundTree, facts: NodeContext) -> str | None:
    """In words, without a full stop."""
    verdict = facts.verdict
    if not facts.node.kept or (verdict is not None and verdict.status == "pruned"):
        if (cut := facts.cut) is not None:  # of a place further on nobody knows: those between have looks of their own
            here = cut.pos == facts.node.pos and cut.bound is not None and cut.conf > 0
            return f"verified with a bound of {fine(math.floor(cut.conf * 1000) / 1000)}" if here else None
        return None if facts.budget is None else f"sent with a node budget above {facts.budget}"
    if verdict is None:
        return None
    if facts.greedy and verdict.order is not None:
        return _greedy(tree, facts)
    if verdict.status == "untested":
        return _never_tested(run, tree, facts)
    return None


def _greedy(tree: RoundTree, facts: NodeContext) -> str | None:
    """By how much the target's logits would have to move: the difference of two logs of one row."""
    verdict = facts.verdict
    assert verdict is not None
    if verdict.status == "accepted":
        lead = verdict.margin
        return None if lead is None else f"rejected if the target's next best logit were {_higher(lead)} higher"
    top = tree.top(facts.node.node)
    if not top:
        return None
    best, own = top[0][1], next((log for token, log in top if token == facts.node.token), None)
    if own is not None and math.isfinite(best - own):
        return f"kept if its logit in the target were {_higher(best - own)} higher"
    return f"kept if its logit in the target were more than {number(best - top[-1][1])} higher"


def _higher(lead: float) -> str:
    """A tie turns on any difference."""
    return number(lead) if lead else "the least bit"


def _never_tested(run: Run, tree: RoundTree, facts: NodeContext) -> str | None:
    """What stood in its way: a token above it that fell, or a sibling that was kept."""
    node = facts.node.node
    above = [i for i in tree.ancestors(node) if i in tree.record.verdicts and i not in tree.accepted]
    tested = [i for i in above if tree.record.verdicts[i].order is not None]
    if tested:
        return _if_flipped(run, tree, tested[-1], "tested if")
    kept = tree.kept_sibling(above[-1] if above else node)
    return None if kept is None else _if_flipped(run, tree, kept, "its turn comes if")


def _if_flipped(run: Run, tree: RoundTree, node: int, words: str) -> str | None:
    """`tested if n7 "▁mat" is kept: u < .293`."""
    facts = case(run, tree, node)
    stretch, verdict = flip(facts), facts.verdict
    if stretch is None or verdict is None:
        more = otherwise(run, tree, facts)
        return None if more is None else f"{words} n{node} {facts.token} is {more}"
    if stretch.hi <= stretch.lo or (stretch.lo == 0 and stretch.hi == 1):
        return f"no u of n{node} {facts.token} changes that"
    lost, drawn = verdict.status == "accepted", verdict.kind == "draw"
    fate = "not drawn" if lost and drawn else "rejected" if lost else "drawn" if drawn else "kept"
    where = f"u {'outside' if lost else 'in'} {span(stretch.lo, stretch.hi)}"
    if not drawn:
        where = f"u {'≥' if lost else '<'} {apart(verdict.u, stretch.hi)[1]}"
    return f"{words} n{node} {facts.token} is {fate}: {where}"
