"""Relaxed acceptance (TensorRT-LLM, for thinking): keep a token among the target's likeliest.

Kept where it is one of the `topk` likeliest and at most `delta` less probable than the first; a stop takes the target's
own token.
"""

from collections.abc import Sequence

from specviz.knobs import Knobs, real, whole
from specviz.verifiers.lossy._rule import ChainToken, Judged, LossyRule, RowComparison, one_by_one


def judge(places: Sequence[ChainToken], knobs: Knobs) -> Judged:
    """Token by token."""
    most = knobs["relaxed_topk"]

    def decide(place: ChainToken) -> RowComparison:
        rank = place.rank()
        if rank > most:
            return RowComparison("rank", rank, ">", most, False)
        bound = place.masses(1)[0] - knobs["relaxed_delta"]
        p, known = place.likely(bound)
        if not known:
            return RowComparison("p at most", p, "<", bound, False)
        kept = rank == 1 or place.reaches(p, bound)
        return RowComparison("p", p, "≥" if kept else "<", max(0.0, bound), kept)

    return one_by_one(places, decide)


RULE = LossyRule(
    name="relaxed",
    engine="TensorRT-LLM",
    help="keep a token among the target's topk likeliest, at most delta below the first; not lossless",
    judge=judge,
    knobs=(
        whole(
            "relaxed_topk", 1, 1000, 10, "relaxed acceptance: how many of the target's likeliest may be kept", text="L"
        ),
        real("relaxed_delta", 0, 1, 0.6, "relaxed acceptance: how far below the likeliest one may lie", text="L"),
    ),
)
