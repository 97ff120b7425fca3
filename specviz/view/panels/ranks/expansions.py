"""The expansions of a round as views: what was predicted, offered and true, each with its sentence."""

from collections.abc import Mapping, Sequence

from specviz.events import Expansion, prob
from specviz.runlog.fold import Run
from specviz.runlog.run import RoundRecord
from specviz.runlog.tree import Family
from specviz.view.frame.frame import ROOT
from specviz.view.frame.parts import WhyRow
from specviz.view.panels.ranks.facts import offering, true_token
from specviz.view.panels.ranks.model import BUCKETS, ExpansionView, Offered, Outcome
from specviz.view.panels.ranks.text import node_phrase, truth_words, width_words
from specviz.view.tree.nodes import node_text, root_text
from specviz.view.words.numbers import number
from specviz.view.words.palette import CLOSING, RankCost

Children = dict[int, dict[int, bool]]
_PHI = (*(f"log p{k} of 20" for k in range(1, 11)), "gap 1–2", "gap 1–3", "gap 1–5", "p1 of 20", "entropy of 20")


def cost_of(bucket: int, true: int | None, gives_up: bool) -> RankCost | None:
    """Which side of the diagonal; a slot that gave up too early is not wide, it has no siblings at all."""
    if true is None:
        return None
    if true >= bucket:
        return "right" if true == bucket else "narrow"
    return "gave_up" if gives_up else "wide"


def expansion_views(run: Run, family: Family, judged: bool) -> tuple[ExpansionView, ...]:
    """All of the round; what is true stays unknown until it may be told."""
    children = _offers(family)
    return tuple(_view(run, family, each, judged, children.get(each.id, {})) for each in family.record.expansions)


def _view(
    run: Run, family: Family, each: Expansion, judged: bool, children: Mapping[int, bool]
) -> ExpansionView:  # fmt: skip
    true = each.true_bucket if judged else None
    best, written = (each.true_rank_argmax, each.true_rank_emitted) if judged else (None, None)
    outcome = _outcome(family.record, each, children) if judged else "unknown"
    words = width_words(run, family.record, each)
    if judged:
        words += f" {truth_words(run, family.record, each, outcome)}"
    return ExpansionView(
        id=each.id, parent=each.parent, parent_shown=_shown(run, family, each.parent), block=each.block,
        slot=each.slot, start=each.start, bucket=each.bucket, bucket_text=BUCKETS[each.bucket],
        probs=tuple(each.rank_probs or ()), width=each.width, reason=each.width_reason, n_children=each.n_children,
        true_rank=best, emitted_rank=written, true_bucket=true, outcome=outcome,
        cost=cost_of(each.bucket, true, each.width_reason == "give_up"),
        on_path=judged and each.on_path, valid_prefix=each.valid_prefix if judged else None, entropy=each.entropy,
        offers=tuple(
            Offered(rank, token, run.word(token), prob(log), rank <= each.n_children, rank == best, rank == written)
            for rank, (token, log) in enumerate(each.top or (), 1)
        ),
        phi=tuple(WhyRow(label, number(value)) for label, value in zip(_PHI, each.phi or (), strict=False)),
        words=words,
    )  # fmt: skip


def _shown(run: Run, family: Family, node: int) -> str:
    if node == ROOT or node not in family.nodes:
        return root_text(run, family.record)
    return node_text(run, family, node)


def _offers(family: Family) -> Children:
    """By expansion: the tokens it offered, and whether they were sent. A merged node was offered by several."""
    out: Children = {}
    record = family.record
    places = {(each.parent, each.block, each.slot): each.id for each in record.expansions}
    for node in family.nodes.values():
        src = node.src
        maker = src.get("expansion", places.get((node.parent, src.get("block", -1), src.get("slot", -1)), -1))
        for id in (maker, *(src.get("merged") or ())):
            out.setdefault(id, {})[node.token] = node.kept
    return out


def _outcome(record: RoundRecord, each: Expansion, children: Mapping[int, bool]) -> Outcome:
    """Whether the target's token was among the children, and survived the pruning; by rank where no token is known."""
    if each.true_bucket is None:
        return "unknown"
    token = true_token(record, each, each.on_path)
    if token is not None:
        return "outside" if token not in children else "kept" if children[token] else "pruned"
    rank = each.true_rank_emitted if each.on_path else each.true_rank_argmax
    return "kept" if rank is not None and rank <= each.n_children else "outside"


def chosen(
    run: Run, family: Family, views: Sequence[ExpansionView], selected: int | None
) -> tuple[str, tuple[ExpansionView, ...]]:  # fmt: skip
    """The expansions to look at for a selected node, with a title: those behind it, else those that offered it.

    The closing token was drawn at the node before it, so what was offered there is what matters.
    """
    node = ROOT if selected is None else family.stop if selected == CLOSING else selected
    behind = tuple(view for view in views if view.parent == node)
    if behind or node not in family.nodes:
        return f"offered after {node_phrase(run, family, node)}", behind
    ids = {each.id for each in offering(family.record, node)}
    return f"that offered {node_phrase(run, family, node)}", tuple(view for view in views if view.id in ids)
