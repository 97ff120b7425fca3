"""Typical acceptance (Cai et al. 2024, Medusa): keep a token that the target's row does not find untypical.

Kept where its mass reaches `min(threshold, alpha exp(-entropy))`; a stop draws from the target's row. At temperature 0
that is an exact match.
"""

import math
from collections.abc import Sequence

from specviz.knobs import Knobs, real
from specviz.verifiers.lossy._rule import ChainToken, Judged, LossyRule, RowComparison, one_by_one


def judge(places: Sequence[ChainToken], knobs: Knobs) -> Judged:
    """Token by token."""

    def decide(place: ChainToken) -> RowComparison:
        p = place.mass()
        bound = min(knobs["posterior_threshold"], knobs["posterior_alpha"] * math.exp(-place.entropy()))
        kept = place.reaches(p, bound)
        return RowComparison("p", p, "≥" if kept else "<", bound, kept)

    return one_by_one(places, decide)


RULE = LossyRule(
    name="typical",
    engine="Medusa",
    help="keep a token whose mass reaches min(threshold, alpha exp(-entropy)) of the target's row; not lossless",
    judge=judge,
    knobs=(
        real("posterior_threshold", 0, 1, 0.09, "typical acceptance: a mass that is always enough", text="L"),
        real(
            "posterior_alpha", 0, 1, 0.3, "typical acceptance: times exp(-entropy), enough where that is less", text="L"
        ),
    ),
)
