"""FLy (vLLM `rejection_sample_method: fly`): let a rejection pass where the target is unsure and what follows fits.

A token that the lossless test rejects is kept where the entropy of the row's `top_k` largest masses reaches the
threshold and the lossless test keeps the next `window` tokens, all of which must be drafted. A stop draws as the
lossless rule does.
"""

import math
from collections.abc import Sequence

from specviz.knobs import Knobs, real, whole
from specviz.verifiers.lossy._rule import ChainToken, Judged, LossyRule, RowComparison

_WINDOW = 6
_WHY = "a token that is let pass moves the law of all in its window, and by how much takes whole rows"


def judge(places: Sequence[ChainToken], knobs: Knobs) -> Judged:
    """The lossless test of a token, and where it fails, whether that is let pass."""
    gamma = knobs["gamma"]
    planned = gamma if isinstance(gamma, int) and gamma > 0 else len(places)
    window = knobs["fly_window_size"] or max(1, min(_WINDOW, planned - 1))
    compared: list[RowComparison] = []
    for k, place in enumerate(places):
        compared.append(place.exact())
        if compared[-1].passed:
            continue
        compared[-1] = _deferred(compared[-1], place, places[k + 1 : k + 1 + window], window, knobs)
        if not compared[-1].passed:
            break
    kept = sum(test.passed for test in compared)
    if all(place.certain for place in places):
        return Judged(kept, tuple(compared), tuple(1 - place.mass() for place in places[:kept]))
    return Judged(kept, tuple(compared), None, _WHY, residual=True)


def _deferred(
    failed: RowComparison, place: ChainToken, behind: Sequence[ChainToken], window: int, knobs: Knobs
) -> RowComparison:
    """What lets a rejected token pass, or what does not."""
    if len(behind) < window or not (place.certain or place.mass() > 0):
        return failed
    masses = place.masses(knobs["fly_entropy_top_k"])
    entropy = -math.fsum(p * math.log(p) for p in masses if p > 0)
    bound = knobs["fly_entropy_threshold"]
    if not place.reaches(entropy, bound):
        return RowComparison("entropy", entropy, "<", bound, False)
    fits = all(follower.exact().passed for follower in behind)
    return RowComparison("entropy", entropy, "≥", bound, True) if fits else failed


RULE = LossyRule(
    name="fly",
    engine="vLLM",
    help="let a rejection pass where the target is unsure and the next tokens fit; not lossless",
    judge=judge,
    knobs=(
        whole(
            "fly_window_size", 0, 64, 0, "FLy: tokens behind that must fit; 0: six, or one less than drafted", text="L"
        ),
        real("fly_entropy_threshold", 0, 10, 0.3, "FLy: least entropy of the target's likeliest masses", text="L"),
        whole("fly_entropy_top_k", 1, 1000, 3, "FLy: how many of the largest masses that entropy is of", text="L"),
    ),
)
