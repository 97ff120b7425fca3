"""Why a drafted tree has its shape, and why the round ended where it did: predicted bucket to width, trims, give-ups,
starts, pruning; then the rank of the token that was not there, and the width that would have had it.

From recorded fields only. Methods without rank buckets get the sentences that apply to them.
"""

import math
from collections import Counter
from collections.abc import Sequence

from specviz.events import Expansion
from specviz.numerals import number, plural, prob
from specviz.runlog.fold import Run
from specviz.runlog.run import RoundRecord
from specviz.runlog.tree import RoundTree
from specviz.text import quoted
from specviz.view.panels.ranks.facts import offering, true_token
from specviz.view.panels.ranks.model import BUCKETS, Confusion, ExpansionView, Outcome, RanksModel
from specviz.view.words.numbers import fine, ordinal
from specviz.view.words.palette import ROOT


def place(expansion: Expansion) -> str:
    """`block 2, slot 1`."""
    return f"block {expansion.block}, slot {expansion.slot}"


def none_judged(model: RanksModel) -> str:
    """Why a filter leaves nothing to count."""
    return f"No expansion has been judged yet for {model.filter_text}."


def unknown_words(table: Confusion) -> str:
    """What the table leaves out."""
    return f"{table.n_unknown:,} more hang below pruned nodes: their truth is unknown."


def rank_words(view: ExpansionView) -> str:
    """`rank of the target's best 3 · of what was written 3 · prefix right · entropy 2.1`, as far as it is known."""
    right = None if view.valid_prefix is None else "prefix right" if view.valid_prefix else "prefix wrong"
    parts = (
        None if view.true_rank is None else f"rank of the target's best {view.true_rank}",
        None if view.emitted_rank is None else f"of what was written {view.emitted_rank}",
        right,
        None if view.entropy is None else f"entropy {number(view.entropy)}",
    )
    return " · ".join(part for part in parts if part)


# One expansion ------------------------------------------------------------------------------------------------------


def width_words(run: Run, record: RoundRecord, expansion: Expansion) -> str:
    """Why the expansion got this many children."""
    predicted = f"rank {BUCKETS[expansion.bucket]} predicted" + (
        f" ({prob(expansion.rank_probs[expansion.bucket])})" if expansion.rank_probs else ""
    )
    got = plural(expansion.n_children, "child", "children")
    if expansion.width_reason == "beam":
        return f"The root's first slot gets k_max children whatever is predicted ({predicted}): {got}."
    if expansion.width_reason == "trim":
        return f"{_upper(predicted)}, but the draft is {prob(_sure(expansion))} sure of its first: trimmed to {got}."
    if expansion.width_reason == "override":
        why = _overrides(record)
        return f"{_upper(predicted)}, but {why}: {got}."
    if expansion.width_reason == "give_up":
        return _gave_up(record, expansion, predicted)
    return f"{_upper(predicted)}, which this preset gives {expansion.width}: {got}."


def offered_words(run: Run, record: RoundRecord, node: int) -> str:
    """Why the slot that made a node offered as many as it did."""
    makers = offering(record, node)
    return f"It comes from {place(makers[0])}. {width_words(run, record, makers[0])}" if makers else ""


def drawn(record: RoundRecord) -> bool:
    """Whether siblings are drawn from the draft's law, not its best tokens."""
    return record.knobs.get("siblings") == "sampled"


def _overrides(record: RoundRecord) -> str:
    """What set a width in place of the predicted bucket."""
    mode = record.knobs.get("width_mode")
    if mode in ("fixed", "oracle"):
        return "widths are fixed" if mode == "fixed" else "the true rank sets it"
    return "drawn siblings get what the budget still affords" if drawn(record) else "w_max caps it"


def _gave_up(record: RoundRecord, expansion: Expansion, predicted: str) -> str:
    """The slot that gave up, or one behind it."""
    mine = [other for other in record.expansions if other.start == expansion.start]
    first = next((other for other in mine if other.width_reason == "give_up"), expansion)
    spine = "only the main guess follows, and no block starts here"
    if first is expansion:
        return f"{_upper(predicted)}, which gets no siblings: the block stops widening, {spine}."
    return f"Slot {first.slot} of this block stopped widening (rank {BUCKETS[first.bucket]} predicted): {spine}."


def _sure(expansion: Expansion) -> float | None:
    return math.exp(min(0.0, expansion.top[0][1])) if expansion.top else None


def truth_words(run: Run, record: RoundRecord, expansion: Expansion, outcome: Outcome) -> str:
    """Where the target's token stood, and what width would have had it."""
    if expansion.true_bucket is None:
        return "The target never looked here: the parent was pruned."
    rank = expansion.true_rank_emitted if expansion.on_path else expansion.true_rank_argmax
    truth = true_token(record, expansion, expansion.on_path)
    what = "the token that was written" if expansion.on_path else "the target's best token"
    what += f", {run.name(truth)}," if truth is not None else ""
    if rank is None:
        return f"{_upper(what)} is not in the draft's vocabulary: no width offers it."
    if outcome in ("kept", "pruned"):
        tail = "; the budget pruned it" if outcome == "pruned" else ""
        return f"{_upper(what)} was its {ordinal(rank)} choice: among the children{tail}."
    if drawn(record):
        return f"{_upper(what)} is its {ordinal(rank)} choice, and not among the {expansion.n_children} siblings drawn."
    return f"{_upper(what)} was its {ordinal(rank)} choice: {reachable(rank, expansion)}."


def reachable(rank: int, expansion: Expansion) -> str:
    """Which width would have had it."""
    if rank <= expansion.n_children:
        return f"not among the {expansion.n_children} offered"
    if rank > 20:
        return f"{expansion.n_children} offered, and no width reaches that far"
    return f"{expansion.n_children} offered, {rank} would have had it"


def _upper(words: str) -> str:
    return words[:1].upper() + words[1:]


# The round ----------------------------------------------------------------------------------------------------------


def shape_words(run: Run, record: RoundRecord) -> str:
    """Why the tree of this round has its shape."""
    if record.tree is None:
        return ""
    tree, calls = record.tree, [block for block in record.blocks if block.dur_ns or block.start == 0]
    counted = f"{tree.n_raw} tokens offered"
    if tree.n_merged:
        counted += f", {tree.n_merged} of them a second time and merged"
    n_distinct = tree.n_raw - tree.n_merged
    if n_distinct > tree.n_kept:
        sent = "one with the likeliest path was" if tree.n_kept == 1 else f"{tree.n_kept} with the likeliest paths were"
        counted += f"; {n_distinct - tree.n_kept} pruned, the {sent} sent"
    else:
        counted += f"; all {tree.n_kept} were sent"
    return " ".join(filter(None, (_calls(run, record, len(calls)), _widths(record), f"{counted}.")))


def _calls(run: Run, record: RoundRecord, n_calls: int) -> str:
    if not record.blocks:
        return ""
    if run.method_traits.tree == "heads":
        return "One call of all heads; each head offers its best ranks at its depth, on the fixed paths of the tree."
    if not record.expansions:
        levels = Counter(block.block for block in record.blocks)
        fixed = run.method_traits.tree == "fixed"
        how = "the nodes that the fixed tree of ranks gives children" if fixed else "the likeliest nodes of the level"
        if len(levels) == 1:
            return "1 drafter call, at the root."
        return f"{len(levels)} drafter calls, one a level: each runs {how}."
    slots = 1 + max(expansion.slot for expansion in record.expansions)
    text = f"{plural(n_calls, 'drafter call')}: block 1 drafted {plural(slots, 'slot')}"
    for level in sorted({block.block for block in record.blocks} - {1}):
        n = sum(block.block == level for block in record.blocks)
        capped = " (as many as start_cap allows)" if n == record.knobs.get("start_cap") else ""
        text += f", block {level} went on at {plural(n, 'node')}{capped}"
    return f"{text}."


def _widths(record: RoundRecord) -> str:
    """Bucket to width, with the exceptions counted."""
    by: dict[str, list[Expansion]] = {}
    for expansion in record.expansions:
        by.setdefault(expansion.width_reason, []).append(expansion)
    if not by:
        return ""
    parts = []
    for bucket in sorted({expansion.bucket for expansion in by.get("bucket", [])}):
        mine = [expansion for expansion in by["bucket"] if expansion.bucket == bucket]
        parts.append(f"{len(mine)}× rank {BUCKETS[bucket]} → {mine[0].width}")
    if "beam" in by:
        parts.insert(0, f"the root's first slot {by['beam'][0].width} (k_max)")
    parts += [f"{len(by['trim'])}× trimmed where the draft was sure"] if "trim" in by else []
    parts += [f"{len(by['override'])}× capped or fixed"] if "override" in by else []
    if "give_up" in by:
        starts = len({expansion.start for expansion in by["give_up"]})
        parts.append(f"{plural(starts, 'block')} stopped widening")
    return f"Children by predicted rank: {', '.join(parts)}."


def ending_words(run: Run, tree: RoundTree) -> str:
    """Why the walk over the drafted tree stopped where it did; empty where nothing is to be said about ranks."""
    record = tree.record
    closing = record.closing
    if record.tree is None or closing is None or closing.kind == "none" or closing.token is None:
        return ""
    here = [expansion for expansion in record.expansions if expansion.parent == tree.stop]
    token = run.name(closing.token)
    below = [i for i in tree.children.get(tree.stop, ()) if tree.nodes[i].token == closing.token]
    if below:
        return _was_pruned(run, tree, below[0], token)
    if here:
        leaf = not any(tree.nodes[i].kept for i in tree.children.get(tree.stop, ()))
        note = " All its children were pruned, so the target found a leaf there." if leaf else ""
        return _not_offered(run, here, token, drawn(record)) + note
    if closing.kind == "bonus":
        return _no_children(tree)
    return _elsewhere(tree, closing.token, token)


def _was_pruned(run: Run, round_tree: RoundTree, node: int, token: str) -> str:
    born, tree = round_tree.nodes[node], round_tree.record.tree
    cum = born.src.get("cum")
    sent = [n.src["cum"] for n in round_tree.nodes.values() if n.kept and isinstance(n.src.get("cum"), int | float)]
    kept = tree.n_kept if tree is not None else len(sent)
    if not isinstance(cum, int | float) or not sent:
        return f"{token} was drafted there, but pruned before the target saw it."
    return (
        f"{token} was drafted there, but pruned: the draft gave its path {fine(_linear(cum))}, and the last of the "
        f"{kept} nodes sent has {fine(_linear(min(sent)))}."
    )


def _linear(log: float) -> float:
    return math.exp(min(0.0, log))


def _not_offered(run: Run, here: Sequence[Expansion], token: str, is_drawn: bool) -> str:
    """By every distribution that offered children there, the best rank first."""
    ranked = sorted(here, key=lambda expansion: (expansion.true_rank_emitted is None, expansion.true_rank_emitted or 0))
    expansion = ranked[0]
    rank = expansion.true_rank_emitted
    root = ", as k_max says at the root" if expansion.width_reason == "beam" else ""
    who = f"{place(expansion)} predicted rank {BUCKETS[expansion.bucket]} and offered {expansion.n_children}{root}"
    if rank is None:
        return f"{token} is not in the draft's vocabulary, so no width offers it ({who})."
    if is_drawn:
        return (
            f"{token} was not among the siblings drawn there ({place(expansion)}); the draft ranks it {ordinal(rank)}."
        )
    if rank <= expansion.n_children:  # the order of the law is not that of what is allowed
        offered = f"the {expansion.n_children} offered ({place(expansion)})"
        return f"{token} was not among {offered}: bans or penalties moved it down."
    more = f" {len(ranked) - 1} more offered there, none of them nearer." if len(ranked) > 1 else ""
    tail = f"a width of {rank} would have had it" if rank <= 20 else "no width reaches that far"
    return f"{token} was not among the siblings: {who}; it was the {ordinal(rank)} choice, {tail}.{more}"


def _no_children(tree: RoundTree) -> str:
    """A leaf at which nothing was offered."""
    record = tree.record
    depth, deepest = tree.depth.get(tree.stop, 0), tree.n_levels
    if tree.stop == ROOT:
        return ""
    if depth >= deepest:
        return f"The path was kept to the deepest level of this tree ({deepest}): nothing was drafted below."
    if not record.expansions:
        return "This node was not expanded: others of its level had likelier paths."
    last = max(block.block for block in record.blocks)
    if tree.nodes[tree.stop].src.get("block") == last:
        return f"It came from block {last}, the last of the round: nothing starts at a sibling of that block."
    return "No block started at it: a sibling gets children only where a later block starts, and likelier nodes did."


def _elsewhere(tree: RoundTree, written: int, token: str) -> str:
    """Without expansions: by the draft's row, which the first of the siblings carries."""
    siblings = [i for i in tree.children.get(tree.stop, ()) if tree.nodes[i].kept]
    top = next((tree.nodes[i].top for i in siblings if tree.nodes[i].top), None)
    rank = next((k for k, (other, _) in enumerate(top or [], 1) if other == written), None)
    offered = f"{plural(len(siblings), 'child was', 'children were')} sent there"
    if rank is not None:
        return f"{token} was the draft's {ordinal(rank)} choice; {offered}."
    if top:
        return f"{token} is not among the draft's best {len(top)}; {offered}."
    return f"{token} is not among them: {offered}."


def node_phrase(run: Run, tree: RoundTree, node: int) -> str:
    """A node as sentences name it: `n14 “ the”`, `the root`."""
    if node == ROOT:
        return "the root"
    born = tree.nodes[node]
    return f"n{node} {quoted(born.text, born.bytes)}"
