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
SELDOM = 0.25  # share of rounds that draft, below which a run is mostly plain decoding
LITTLE = 0.15  # share of rounds that keep anything, below which drafting can bring no speed-up to speak of


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


@detector(RoundsCounted, 11)
def hardly_drafted(counted: RoundsCounted) -> Finding | None:
    """A round drafts now and then, and next to nothing comes of it."""
    tally, n = counted.tally.confidence, counted.metrics.n_rounds
    if counted.run.method_traits.plain or nothing_drafted(counted) is not None or not tally.n_drafting:
        return None
    why = counted.tally.texts.idle.most_common(1)
    if not why or why[0][0] == "pausing":
        return None
    return hardly(n, tally.n_drafting, tally.n_kept, f" Why, mostly: {_WHY[why[0][0]]}.")


def hardly(n: int, n_drafting: int, n_kept: int, why: str) -> Finding | None:
    """Of `n` rounds so few draft, and so few keep anything, that no speed-up can come of it."""
    from specviz.metrics import wilson_interval

    if wilson_interval(n_drafting, n)[1] >= SELDOM or wilson_interval(n_kept, n)[1] >= LITTLE:
        return None
    return Finding(
        "hardly_drafted",
        15,
        "hardly anything is drafted",
        f"In {n_drafting:,} of {plural(n, 'round')} something was drafted, and in {n_kept:,} kept: nearly all of it is "
        f"plain decoding.{why}",
        "likely",
        next_step="See what keeps drafts from being made: a threshold, a limit, a lookup in text that does not repeat.",
        decides="The same prompts with a drafter that needs no match, or with a lower threshold.",
    )
