"""Drafts that are never kept: the wrong layers are read, or what drafts was never loaded (faults 1, 3, 5)."""

from specviz.judge.evidence import LEAST_ROUNDS, RoundsCounted
from specviz.judge.finding import Finding
from specviz.judge.registry import detector
from specviz.numerals import plural

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
    return Finding(
        "never_kept",
        3,
        "the draft is never kept" if not kept else "the draft is hardly ever kept",
        f"Of {n:,} drafted tokens {kept:,} were kept, in {tally.n_kept} of {plural(tally.n_drafting, 'round')} that "
        "drafted: drafter and target do not agree, and every round pays for a draft that is thrown away.",
        next_step="Draft with a model of the same family and tokenizer, with parts that were trained for this target, "
        "or with the target itself in fewer bits.",
        others=(1, 5),
        evidence=counted.places(tally.empty),
    )
