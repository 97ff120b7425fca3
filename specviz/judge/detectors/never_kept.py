"""Drafts that are never kept: the wrong layers are read, or what drafts was never loaded (faults 1, 3, 5)."""

from specviz.judge.evidence import LEAST_ROUNDS, RoundsCounted
from specviz.judge.finding import Finding
from specviz.judge.registry import detector
from specviz.numerals import plural

CHANCE = 0.005  # of first tokens kept, which a drafter without its weights does not reach
SELDOM = 0.1  # the same, above which a draft may only be weak
HOPELESS = 0.25  # share of rounds that keep anything, below which a draft is as good as never kept


@detector(RoundsCounted, 20)
def never_kept(counted: RoundsCounted) -> Finding | None:
    """Dead drafting: tokens are drafted and never kept."""
    from specviz.metrics import wilson_interval

    tally, n, kept = counted.tally.confidence, counted.metrics.n_drafted, counted.metrics.n_accepted
    if tally.n_drafting < LEAST_ROUNDS:
        return None
    most = wilson_interval(tally.n_kept, tally.n_drafting)[1]
    if most >= HOPELESS:
        return None
    first = (counted.metrics.position_acceptance or {}).get(1)
    some = first is not None and first.interval is not None and first.interval[0] > CHANCE
    return Finding(
        "never_kept",
        1 if some else 3,
        "the draft is never kept" if not kept else "the draft is hardly ever kept",
        f"Of {n:,} drafted tokens {kept:,} were kept, in {tally.n_kept} of {plural(tally.n_drafting, 'round')} that "
        "drafted: drafter and target do not agree, and every round pays for a draft that is thrown away. "
        + (
            "That is more than chance: it reads its target wrongly, or was trained badly."
            if some
            else "That is no more than chance: its weights may not be loaded."
        ),
        "likely" if most < SELDOM or not kept else "cannot tell",
        next_step="Draft with a model of the same family and tokenizer, with parts that were trained for this target, "
        "or with the target itself in fewer bits.",
        decides="The folders (specviz check TARGET DRAFT), and the engine's lines about what it loaded.",
        others=(3, 5) if some else (1, 5),
        evidence=counted.places(tally.empty),
    )
