"""Nothing is drafted, and nobody is told (fault 15)."""

from specviz.judge.evidence import RoundsCounted
from specviz.judge.finding import Finding
from specviz.judge.registry import detector
from specviz.names import DraftEnd
from specviz.numerals import plural
from specviz.text import running

_WHY: dict[DraftEnd, str] = {
    "no_match": "a lookup found no match",
    "low_conf": "a threshold was above the draft's confidence",
    "depth": "the depth in force is 0",
    "width": "no row was left",
    "budget": "no budget was left",
    "no_exit_layer": "no layer was sure enough to stop at",
    "signal": "a classifier said to draft nothing",
    "full": "the draft length in force is 0",
    "length": "the text was about to end",
    "stop_token": "the text was about to end",
}
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
    why, times = counted.tally.texts.idle.most_common(1)[0]
    if why == "pausing":  # no fault: it was said when it began, and fault 12 tells what drafting cost
        return None
    claim += f" Why, in {times} of {plural(counted.tally.texts.idle.total(), 'round')} without a draft: {_WHY[why]}."
    return Finding(
        "nothing_drafted",
        15,
        "nothing is drafted",
        claim,
        next_step="See the warnings (w), and the knobs that stop a draft: a threshold nothing reaches, a depth of 0.",
        evidence=counted.places([since]),
    )
