"""What a draft says of itself, and what is too good to be true (fault 16)."""

from typing import Literal

from specviz.check.findings import FAULTS
from specviz.judge.evidence import RoundsCounted
from specviz.judge.finding import Finding
from specviz.judge.registry import detector
from specviz.numerals import plural, prob

LEAST_TOKENS = 20  # of a band of confidence
TOO_SURE = 0.1  # by which the draft's probability is above the target's
LEAST_LOOPING = 100  # tests, before a loop in the text says anything
LOOPING = 0.95  # the same where most answers end in a loop
TOO_GOOD = 0.97  # share of the tested tokens kept, above which a drafter is hardly another model than the target


@detector(RoundsCounted, 90)
def overconfident_draft(counted: RoundsCounted) -> Finding | None:
    """Where the draft is sure, the target is not."""
    wrong = [
        band
        for band in counted.confidence
        if band.lo >= 0.5
        and band.n >= LEAST_TOKENS
        and band.gap.interval is not None
        and band.gap.interval[0] > TOO_SURE
    ]
    if not wrong:
        return None
    band = max(wrong, key=lambda band: band.gap.value)
    symbol = counted.run.method_traits.threshold_symbol
    of = f"{prob(band.lo)} or more" if band.hi == 1 else f"{prob(band.lo)} to {prob(band.hi)}"
    advice = (
        f"A threshold on its confidence lets too much through: a higher {symbol} stops earlier."
        if symbol
        else "Its probabilities cannot be taken at their word: a threshold on them lets too much through."
    )
    return Finding(
        "overconfident_draft",
        0,
        "the draft is too sure of itself",
        f"Tokens that the draft gives {of} ({prob(band.q)} on average, n {band.n}) get {prob(band.p)} from the "
        f"target, and {prob(band.kept.value)} of them are kept.",
        "likely",
        next_step=advice,
        evidence=counted.places(counted.tally.confidence.surest_lost),
    )


@detector(RoundsCounted, 100)
def too_good(counted: RoundsCounted) -> Finding | None:
    """Nearly every tested token is kept: the target drafts for itself, or the text is a loop or a copy."""
    from specviz.metrics import wilson_interval

    n, kept = counted.metrics.n_tested, counted.metrics.n_accepted
    # A backward scan keeps what it never tests; so may counts of another engine.
    if counted.metrics.test_acceptance_rate is None or not 0 < kept <= n:
        return None
    looping = counted.tally.texts.n_looping
    most = LOOPING if 2 * looping > counted.metrics.n_queries and n >= LEAST_LOOPING else TOO_GOOD
    itself = _drafts_for_itself(counted)
    is_same = itself == "as it is"
    if wilson_interval(kept, n)[0] <= most or (itself == "in other bits" and not looping):
        return None  # the target in fewer bits does agree so often
    why = (
        "By their weights draft and target are one model."
        if is_same
        else f"{looping} of {plural(counted.metrics.n_queries, 'answer')} end in a loop, which any drafter guesses."
        if looping
        else "A smaller model hardly ever agrees so often: the target may draft for itself, or the text may be a loop "
        "or a copy. The counts cannot tell which."
    )
    return Finding(
        "too_good",
        16,
        f"{FAULTS[15]}?",
        f"Of {n:,} tested tokens {kept:,} were kept. {why}",
        "sure" if is_same else "likely",
        next_step="Read the text for repetition; see that target and draft are two models: specviz check TARGET DRAFT.",
        decides="" if is_same else "The text, and the two folders.",
    )


def _drafts_for_itself(counted: RoundsCounted) -> Literal["", "as it is", "in other bits"]:
    """Whether the draft model is the target, by shape and weights."""
    header = counted.run.header
    target, draft = (None, None) if header is None else (header.models.target, header.models.draft)
    if target is None or draft is None or not target.n_params:
        return ""
    if target.hash is not None and target.hash == draft.hash:
        return "as it is"
    shapes = [(model.arch, model.n_layers, model.width, model.n_params) for model in (target, draft)]
    return "in other bits" if shapes[0] == shapes[1] and target.dtype != draft.dtype else ""
