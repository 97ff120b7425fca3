"""`chain` records: the joint ratios of sampled chains, whatever the verifier, so that others can be compared offline.

One record per node of every candidate that begins at the root: the chain itself, each of several chains, the main and
the first side chains of a caterpillar. Candidates that begin further down start again from weight 1 (verification.md
3.7), so a ratio from the root on says nothing about them. Point masses have no ratios worth showing: none is written.
"""

from collections.abc import Iterator

from specviz.engine.decode.round import RoundResult
from specviz.events import Chain, six
from specviz.events.base import ZERO
from specviz.probability.rows import CertainRows
from specviz.verifiers import _joint
from specviz.verifiers._candidates import candidates


def chain_records(done: RoundResult) -> Iterator[Chain]:
    """The records of a finished round, candidate by candidate, from the root on."""
    draft, rows = done.draft, done.target_probs
    if not draft.is_drawn or rows is None or isinstance(rows, CertainRows):
        return
    for path in candidates(draft):
        if path.shared == 0 and any(draft.row_of[node] >= 0 for node in path.nodes):
            part = _joint.chain(draft, path.nodes, rows)
            for node, position in zip(path.nodes, _joint.records(part), strict=True):
                yield _record(draft.ids[node], position)


def _record(node: int, at: _joint.Position) -> Chain:
    return Chain(
        node=node,
        log_r=_log(at.log_r),
        cap_at=at.cap_at,
        log_c=_log(at.log_c),
        d_pq=_six(at.d_pq),
        d_qp=_six(at.d_qp),
        dhat_pq=_six(at.dhat_pq),
        dhat_qp=_six(at.dhat_qp),
        h=at.h,
        credit_token=six(at.credit_token),
        credit_hsd=six(at.credit_hsd),
        credit_naive=six(at.credit_naive),
    )


def _log(x: float) -> float:
    return max(ZERO, six(x))


def _six(x: float | None) -> float | None:
    return None if x is None else six(x)
