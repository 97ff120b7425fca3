"""Nothing is drafted, and nobody is told (fault 15)."""

from specviz.judge.evidence import RoundsCounted
from specviz.judge.finding import Finding
from specviz.judge.registry import detector
from specviz.numerals import plural
from specviz.text import running

IDLE = 12  # rounds in a row without a draft


@detector(RoundsCounted, 10)
def nothing_drafted(counted: RoundsCounted) -> Finding | None:
    """Nothing was drafted, or nothing any more."""
    tally, run = counted.tally.confidence, counted.run
    n, n_idle, since = counted.metrics.n_rounds, tally.n_idle, tally.idle_since
    if run.method_traits.plain or since is None or n_idle < min(IDLE, n):
        return None
    method = running(run.header.method) if run.header is not None else "the method"
    calls = (
        "its drafter is not even asked"
        if not counted.metrics.n_draft_calls
        else "what it costs to draft is paid all the same"
    )
    if n_idle == n:
        claim = f"In {plural(n, 'round')} not one token was drafted: this is plain decoding, called {method}; {calls}."
    else:
        claim = f"In the last {plural(n_idle, 'round')} nothing was drafted: since then {method} decodes plainly."
    return Finding(
        "nothing_drafted",
        15,
        "nothing is drafted",
        claim,
        next_step="See the warnings (w), and the knobs that stop a draft: a threshold nothing reaches, a depth of 0.",
        evidence=counted.places([since]),
    )
