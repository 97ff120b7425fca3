"""Where the nodes of a round's tree came from, and what every slot said: block, slot, rank, starts, merges."""

import math
from collections.abc import Mapping, Sequence

from specviz.events import Expansion, Node, prob
from specviz.numerals import number
from specviz.runlog.fold import Run
from specviz.runlog.run import RoundRecord
from specviz.runlog.tree import RoundTree
from specviz.view.frame.parts import WhyRow
from specviz.view.frame.steps import Moment, node_text, root_text
from specviz.view.panels.ranks.facts import offering, true_token
from specviz.view.panels.ranks.model import BUCKETS, ExpansionView, OfferedToken, Outcome
from specviz.view.panels.ranks.text import node_phrase, truth_words, width_words
from specviz.view.words.numbers import fine
from specviz.view.words.palette import CLOSING, ROOT, RankCost


def badges(tree: RoundTree) -> dict[int, str]:
    """Of every drafted node where it came from, and which choice it was there: `b1·s0 #1 +2 ◎`, `level 2 #3`,
    `head 0 #1`. `+2`: offered twice more, `◎`: a block starts there."""
    out = {}
    for id, node in tree.nodes.items():
        merged = f"+{len(node.src['merged'])}" if node.src.get("merged") else ""
        starts = "◎" if _int(node.src.get("start")) is not None else ""
        if place := _place(node):
            out[id] = " ".join(filter(None, (place, merged, starts)))
    return out


def _place(node: Node) -> str:
    """`b1·s0 #1`; "" where it is not on record."""
    src, rank = node.src, _int(node.src.get("rank"))
    if rank is None:
        return ""
    if "block" in src:
        return f"b{src['block']}·s{src.get('slot', '?')} #{rank}"
    return f"head {src['head']} #{rank}" if "head" in src else f"level {node.depth} #{rank}"


def drafted_rows(tree: RoundTree, id: int) -> tuple[WhyRow, ...]:
    """Which block and slot, level or head drafted a node, and as which choice."""
    node = tree.nodes[id]
    text, src, cum = _place(node), node.src, node.src.get("cum")
    if not text:
        return ()
    notes = ["spine" if src.get("spine") else "sibling"] if "spine" in src else []
    level = next((block.block for block in tree.record.blocks if block.start == src.get("start") and block.start), 0)
    notes += [f"block {level} starts here"] if level else []
    notes += [f"offered {len(src['merged']) + 1}×"] if src.get("merged") else []
    rows = [WhyRow("drafted", text, None, ", ".join(notes))]
    if isinstance(cum, int | float):
        rows.append(WhyRow("path chance", fine(math.exp(min(0.0, cum))), None, "by the draft, root to here"))
    return tuple(rows)


def tree_text(round_tree: RoundTree, now: Moment) -> str:
    """`102 offered · 12 merged · 30 pruned · 60 sent · 4 accepted`."""
    tree, n = round_tree.record.tree, len(round_tree.nodes)
    n_kept = sum(node.kept for node in round_tree.nodes.values())
    parts = [f"{tree.n_raw} offered", f"{tree.n_merged} merged"] if tree is not None else [f"{n} drafted"]
    parts += [f"{n - n_kept} pruned", f"{n_kept} sent"]
    if now.all_tested:
        parts.append(f"{len(round_tree.accepted)} accepted")
    return " · ".join(parts)


def _int(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


Children = dict[int, dict[int, bool]]
_PHI = (*(f"log p{k} of 20" for k in range(1, 11)), "gap 1–2", "gap 1–3", "gap 1–5", "p1 of 20", "entropy of 20")


def cost_of(bucket: int, true: int | None, gives_up: bool) -> RankCost | None:
    """Which side of the diagonal; a slot that gave up too early is not wide, it has no siblings at all."""
    if true is None:
        return None
    if true >= bucket:
        return "right" if true == bucket else "narrow"
    return "gave_up" if gives_up else "wide"


def expansion_views(run: Run, tree: RoundTree, judged: bool) -> tuple[ExpansionView, ...]:
    """All of the round; what is true stays unknown until it may be told."""
    children = _offers(tree)
    return tuple(
        _view(run, tree, expansion, judged, children.get(expansion.id, {})) for expansion in tree.record.expansions
    )


def _view(run: Run, tree: RoundTree, expansion: Expansion, judged: bool, children: Mapping[int, bool]) -> ExpansionView:
    true = expansion.true_bucket if judged else None
    best, written = (expansion.true_rank_argmax, expansion.true_rank_emitted) if judged else (None, None)
    outcome = _outcome(tree.record, expansion, children) if judged else "unknown"
    words = width_words(run, tree.record, expansion)
    if judged:
        words += f" {truth_words(run, tree.record, expansion, outcome)}"
    return ExpansionView(
        id=expansion.id,
        parent=expansion.parent,
        parent_shown=(
            root_text(run, tree.record)
            if expansion.parent == ROOT or expansion.parent not in tree.nodes
            else node_text(run, tree, expansion.parent)
        ),
        block=expansion.block,
        slot=expansion.slot,
        start=expansion.start,
        bucket=expansion.bucket,
        bucket_text=BUCKETS[expansion.bucket],
        probs=tuple(expansion.rank_probs or ()),
        width=expansion.width,
        reason=expansion.width_reason,
        n_children=expansion.n_children,
        true_rank=best,
        emitted_rank=written,
        true_bucket=true,
        outcome=outcome,
        cost=cost_of(expansion.bucket, true, expansion.width_reason == "give_up"),
        on_path=judged and expansion.on_path,
        valid_prefix=expansion.valid_prefix if judged else None,
        entropy=expansion.entropy,
        offers=tuple(
            OfferedToken(
                rank, token, run.word(token), prob(log), rank <= expansion.n_children, rank == best, rank == written
            )
            for rank, (token, log) in enumerate(expansion.top or (), 1)
        ),
        phi=tuple(WhyRow(label, number(value)) for label, value in zip(_PHI, expansion.phi or (), strict=False)),
        words=words,
    )


def _offers(tree: RoundTree) -> Children:
    """By expansion: the tokens it offered, and whether they were sent. A merged node was offered by several."""
    out: Children = {}
    record = tree.record
    places = {(expansion.parent, expansion.block, expansion.slot): expansion.id for expansion in record.expansions}
    for node in tree.nodes.values():
        src = node.src
        maker = src.get("expansion", places.get((node.parent, src.get("block", -1), src.get("slot", -1)), -1))
        for id in (maker, *(src.get("merged") or ())):
            out.setdefault(id, {})[node.token] = node.kept
    return out


def _outcome(record: RoundRecord, expansion: Expansion, children: Mapping[int, bool]) -> Outcome:
    """Whether the target's token was among the children, and survived the pruning; by rank where no token is known."""
    if expansion.true_bucket is None:
        return "unknown"
    token = true_token(record, expansion, expansion.on_path)
    if token is not None:
        return "outside" if token not in children else "kept" if children[token] else "pruned"
    rank = expansion.true_rank_emitted if expansion.on_path else expansion.true_rank_argmax
    return "kept" if rank is not None and rank <= expansion.n_children else "outside"


def chosen(
    run: Run, tree: RoundTree, views: Sequence[ExpansionView], selected: int | None
) -> tuple[str, tuple[ExpansionView, ...]]:
    """The expansions to look at for a selected node, with a title: those behind it, else those that offered it.

    The closing token was drawn at the node before it, so what was offered there is what matters.
    """
    node = ROOT if selected is None else tree.stop if selected == CLOSING else selected
    behind = tuple(view for view in views if view.parent == node)
    if behind or node not in tree.nodes:
        return f"offered after {node_phrase(run, tree, node)}", behind
    ids = {expansion.id for expansion in offering(tree.record, node)}
    return f"that offered {node_phrase(run, tree, node)}", tuple(view for view in views if view.id in ids)
