"""What the draft model thought, on record: likeliest tokens and entropies of rows, shares and ranks of nodes."""

from dataclasses import dataclass

from specviz.engine.decode.round import RoundResult
from specviz.engine.model.compiled.rows import RowKernel
from specviz.engine.row_stats import facts_of
from specviz.events import Top, six


@dataclass(frozen=True, slots=True)
class DraftRows:
    """`confidences`: by node, the log of the raw draft softmax. At level full also `ranks`, by node, 1 the likeliest;
    and `tops`: likeliest tokens and entropy of the rows that nodes came from, by the identity of a row."""

    confidences: dict[int, float]
    ranks: dict[int, int]
    tops: dict[int, tuple[Top, float]]


def draft_rows(done: RoundResult, topk: int, kernel: RowKernel | None) -> DraftRows:
    """Of all nodes of a round that have a row, the pending ones among them. `topk`: 0 below level full, where what the
    drafter left out is worked out and nothing more."""
    nodes = done.draft.nodes
    known = {node.id: six(node.log_conf) for node in nodes if node.log_conf is not None}
    wanted = (*done.draft.pending, *nodes) if topk else nodes
    left = [node for node in wanted if node.raw is not None and (topk or node.id not in known)]
    if not left:
        return DraftRows(known, {}, {})
    rows = {id(node.raw): node.raw for node in left}
    place = {key: k for k, key in enumerate(rows)}
    of, tokens = [place[id(node.raw)] for node in left], [node.token for node in left]
    facts = facts_of(kernel, list(rows.values()), topk, of, tokens)
    numbers = [node.id for node in left]
    confidences = dict(zip(numbers, facts.logs, strict=True)) | known
    if not topk:
        return DraftRows(confidences, {}, {})
    tops = dict(zip(rows, zip(facts.tops, facts.entropies, strict=True), strict=True))
    return DraftRows(confidences, dict(zip(numbers, facts.ranks, strict=True)), tops)
