"""Accepted, yet slower: what drafting, exact rows and recording cost (fault 12)."""

from specviz.judge.evidence import RoundsCounted
from specviz.judge.finding import Finding
from specviz.judge.registry import detector
from specviz.numerals import number, percent, plural, times

DEAR_RECORDING = 0.25
DEAR_WIDTH = 2.5  # times: a pass over the usual number of rows over one of a single row
DEAR_ROWS = 1.25  # times: a pass of exact rows over one that need not be


@detector(RoundsCounted, 30)
def dearer_than_it_pays(counted: RoundsCounted) -> Finding | None:
    """The run is slower than plain decoding would be."""
    speed, length = counted.speed, counted.metrics.mean_acceptance_length
    trusted = None if speed is None else speed.trusted
    if speed is None or trusted is None or length is None or not trusted.value:
        return None
    most = trusted.interval[1] if trusted.interval is not None else trusted.value
    if most >= 1:
        return None
    share, recording = counted.metrics.drafting_share, counted.metrics.overhead
    part = None if share is None else min(1.0, share.value * (1 + (0.0 if recording is None else recording.value)))
    drafting = f" Drafting is {percent(part)} of a round without its recording." if part is not None else ""
    how = "" if speed.measured else " (modelled)"
    stages = counted.metrics.stage_ms or {}
    target, draft = (took.value if (took := stages.get(name)) is not None else 0.0 for name in ("target", "draft"))
    plain = speed.own_ms or speed.plain_ms or 0.0
    verifying = bool(plain) and target - plain > draft  # what its further rows take is more than drafting them does
    passes = f" The target's pass alone takes as long as {number(target / plain, 1)} over one row." if verifying else ""
    return Finding(
        "dearer_than_it_pays",
        13 if verifying else 12,
        f"slower than plain decoding: {times(trusted.value)}",
        f"A round costs as much as {number(length.value / trusted.value, 1)} plain rounds{how} and brings "
        f"{number(length.value, 1)} tokens.{drafting}{passes}",
        "sure" if speed.measured else "likely",
        next_step=counted.shorter("A shorter draft")
        or "A cheaper drafter, or one that is right more often, would pay.",
        decides="" if speed.measured else "A pass of the target over one row, timed in this run.",
        others=(12, 14) if verifying else (13, 14),
        time=1 - trusted.value,
        evidence=counted.places(counted.tally.confidence.empty),
    )


@detector(RoundsCounted, 33)
def dear_verifying(counted: RoundsCounted) -> Finding | None:
    """A pass over a draft's rows costs several of one row, whether or not the run is known to be slower for it."""
    costs, n = counted.tally.costs, counted.tally.confidence.n_drafting
    if costs is None or not n or len(costs.widths) < 2 or len(costs.target_ns) != len(costs.widths):
        return None
    usual = 1 + round(counted.metrics.n_drafted / n)
    width = min(costs.widths, key=lambda rows: abs(rows - usual))
    one, wide = costs.target_ns[0], costs.target_ns[costs.widths.index(width)]
    if costs.widths[0] != 1 or wide < DEAR_WIDTH * one or dearer_than_it_pays(counted) is not None:
        return None
    return Finding(
        "dear_verifying",
        13,
        f"a pass over {plural(width, 'row')} costs {times(wide / one)} one over a single row",
        f"Timed here, a pass of the target over {plural(width, 'row')} takes {times(wide / one)} as long as over one: "
        "every drafted token is paid for, kept or not. Experts that each row wakes do that, or a batch that fills the "
        "machine.",
        "likely",
        next_step=counted.shorter("A shorter draft") or "Draft less, or not at all where many requests run.",
        decides="Its speed beside plain decoding, on a quiet machine.",
        others=(12,),
    )


@detector(RoundsCounted, 40)
def dear_exact_rows(counted: RoundsCounted) -> Finding | None:
    """Exact rows are padded, which plain decoding without that promise would not pay."""
    price = None if counted.speed is None else counted.speed.price
    if price is None or price < DEAR_ROWS:
        return None
    return Finding(
        "dear_exact_rows",
        12,
        f"exact rows cost {times(price)} a pass",
        f"So that a row has the same bits in every pass, passes are padded here: one over a single row takes "
        f"{times(price)} as long as without. The speed-up is over plain decoding without padding.",
        next_step="The compiled kernel needs none: --compile auto, and a C compiler.",
        time=1 - 1 / price,
        screen="overview",
    )


@detector(RoundsCounted, 120)
def dear_recording(counted: RoundsCounted) -> Finding | None:
    """Recording takes a large part of the time."""
    cost = counted.metrics.overhead
    if cost is None or cost.value < DEAR_RECORDING:
        return None
    spent = f"+{percent(cost.value)}" if cost.value < 1 else times(1 + cost.value)  # as the header has it
    return Finding(
        "dear_recording",
        0,
        f"recording overhead {spent}",
        f"Times of rounds and tok/s have it in them: rounds took {times(1 + cost.value)} as long with it. The speed-up "
        "leaves it out.",
        next_step="--level summary records less.",
        time=cost.value / (1 + cost.value),
        screen="overview",
    )
