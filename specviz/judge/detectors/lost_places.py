"""Where drafts are lost: at one position (fault 2), along the draft (fault 14), along the text (fault 4)."""

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from specviz.check.findings import FAULTS
from specviz.judge.cliffs import TestedPosition, deepest_cliff
from specviz.judge.detectors.counted import cliff_counted, tail_counted
from specviz.judge.evidence import LEAST_TESTS, CountsLooked, RoundsCounted
from specviz.judge.finding import EvidencePlace, Finding
from specviz.judge.registry import detector
from specviz.numerals import number, percent, plural, prob

if TYPE_CHECKING:
    from specviz.metrics import Estimate
    from specviz.metrics.collapse import Collapse

ALIKE = 30  # drafts that all keep just as many: a drafter is never that even, a limit is
FALLEN = 0.5  # of what the first third of an answer keeps, below which the last third has lost it
SELDOM = 0.1  # share of rounds that keep the end of the draft
SHORT = 6  # tokens of a draft below which it costs little that the last are not kept
LONG = 8  # drafted tokens, from which on half of them may do
DRAFT_COST = 0.1  # of a drafted token in passes of the target, where nothing was timed
_SIGMAS = 1.96
LARGE = 8  # nodes of a tree from which on it can be too large
THROWN_AWAY = 0.1  # share of its nodes kept, below which it is


@detector(RoundsCounted, 50)
def position_cliff(counted: RoundsCounted) -> Finding | None:
    """A position is kept far less often than the one before it."""
    rates: dict[int, Estimate] = counted.metrics.position_acceptance or {}
    cliff = deepest_cliff([TestedPosition(at, round(here.value * here.n), here.n) for at, here in rates.items()])
    if cliff is None:
        return None
    before, here = cliff.before, cliff.here
    doubt, decides, others = _of_one_length(counted) or (cliff.doubt, cliff.decides, cliff.others)
    return Finding(
        "position_cliff",
        2,
        f"a cliff at position {here.at}",
        f"At position {before.at} of a draft {prob(before.share)} of the tested tokens are kept (n {before.n}), at "
        f"position {here.at} {prob(here.share)} (n {here.n}); what stands behind is lost with it.{doubt}",
        "cannot tell" if doubt else "likely",
        decides=decides,
        others=others,
        tokens=max(0.0, before.share - here.share),
        next_step=counted.shorter(f"A draft of {plural(before.at, 'token')}")
        or "Another version of the engine, with the same files: a shorter draft only hides it.",
        evidence=counted.places(counted.tally.confidence.lost_at.get(here.at, ())),
    )


def _of_one_length(counted: RoundsCounted) -> tuple[str, str, tuple[int, ...]] | None:
    """Where all drafts keep just as many, which is no drafter's doing: why, what would decide, other faults."""
    by_kept = counted.tally.outside.by_kept
    kept, n = by_kept.most_common(1)[0] if by_kept else (0, 0)
    if n < ALIKE or by_kept.total() - n > counted.metrics.n_queries:  # the last draft of an answer may be cut
        return None
    why = f" {n} of {plural(by_kept.total(), 'draft')} keep exactly {kept}: a limit is that even, a drafter never."
    return why, "What the engine keeps at most of a draft, and its own counts by position.", (7, 14)


@detector(RoundsCounted, 60)
def tree_thrown_away(counted: RoundsCounted) -> Finding | None:
    """Of a large tree next to nothing is kept, and nobody can say that it pays."""
    kept, n = counted.metrics.draft_acceptance_rate, counted.metrics.n_drafted / counted.metrics.n_rounds
    if not counted.tally.has_trees or n < LARGE or kept is None or not _below(kept, THROWN_AWAY):
        return None
    speed = None if counted.speed is None else counted.speed.trusted
    if speed is not None and speed.interval is not None and speed.interval[0] > 1:
        return None
    tested = counted.metrics.n_tested / counted.metrics.n_rounds
    first = (counted.metrics.position_acceptance or {}).get(1)
    at_first = f" One of its first tokens is kept in {percent(first.value)} of the rounds." if first else ""
    knob = counted.tree_knob
    return Finding(
        "tree_thrown_away",
        14,
        f"{percent(1 - kept.value)} of the tree is thrown away",
        f"A round drafts {number(n, 0)} tokens, tests {number(tested, 1)} of them and keeps {number(kept.value * n)}; "
        f"every one is a row of the target's pass.{at_first}",
        "likely",
        decides="Its speed beside plain decoding.",
        next_step=f"A smaller tree keeps nearly as much for less: lower {knob}." if knob else "",
        evidence=counted.places(counted.tally.confidence.empty),
    )


@detector(RoundsCounted, 70)
def long_tail(counted: RoundsCounted) -> Finding | None:
    """The end of the draft is hardly ever kept, though nothing breaks off at one place."""
    survival: dict[int, Estimate] = counted.metrics.survival or {}
    idle = [t for t, share in survival.items() if t > 1 and share.n >= LEAST_TESTS and _below(share, SELDOM)]
    if not idle or not counted.metrics.n_accepted or position_cliff(counted) is not None:
        return None
    first, last = min(idle), max(survival)
    if last < SHORT:
        return None
    return Finding(
        "long_tail",
        14,
        f"drafts are longer than what is kept: {first - 1} of {last}",
        f"{percent(survival[first].value)} of the drafts that reach position {first} keep {plural(first, 'token')} (n "
        f"{survival[first].n}); what is drafted from there on to position {last} is hardly ever used.",
        "likely",
        decides="Its speed with shorter drafts.",
        next_step=counted.shorter(f"A draft of {plural(first - 1, 'token')}"),
        evidence=counted.places(counted.tally.confidence.lost_at.get(first, ())),
    )


@detector(RoundsCounted, 75)
def half_would_do(counted: RoundsCounted) -> Finding | None:
    """The second half of long drafts brings less than it is likely to cost."""
    survival: dict[int, Estimate] = counted.metrics.survival or {}
    if counted.tally.has_trees or not survival or position_cliff(counted) is not None or long_tail(counted) is not None:
        return None
    kept = [survival[t].value if t in survival else 0.0 for t in range(1, max(survival) + 1)]
    return half_of(kept, min(share.n for share in survival.values()), counted.shorter)


@detector(CountsLooked, 75)
def half_would_do_counted(counted: CountsLooked) -> Finding | None:
    """The same of counts by position."""
    positions, n = counted.picture.positions, counted.picture.n_rounds or 0
    if not positions or cliff_counted(counted) is not None or tail_counted(counted) is not None:
        return None
    drafted = round((counted.picture.n_drafted or 0) / n) if n else 0
    kept = [at.kept for at in positions]
    return half_of([*kept, *[0.0] * (drafted - len(kept))], n, lambda what: f"{what} keeps nearly as much for less.")


def half_of(kept: Sequence[float], n: int, shorter: Callable[[str], str]) -> Finding | None:
    """`kept[k]`: share of `n` rounds that kept the token at position k + 1."""
    last, half, length = len(kept), len(kept) // 2, 1 + sum(kept)
    if last < LONG or n < LEAST_TESTS or not kept[0]:
        return None
    behind, ends = sum(kept[half:]), [*kept, 0.0]  # tokens a round from the second half
    squares = sum((t + 1 - half) ** 2 * (ends[t] - ends[t + 1]) for t in range(half, last))
    most = behind + _SIGMAS * math.sqrt(max(0.0, squares - behind * behind) / n)
    saved = DRAFT_COST * (last - half) / (1 + DRAFT_COST * last)
    if most / length >= saved:
        return None
    return Finding(
        "half_would_do",
        14,
        f"half of {last} drafted tokens would do",
        f"What stands behind position {half} of a draft brings {number(behind, 2)} of {number(length, 1)} tokens a "
        f"round; where a drafted token costs a tenth of a pass of the target it takes {percent(saved)} of the time.",
        "likely",
        next_step=shorter(f"A draft of {plural(half, 'token')}"),
        decides="What a drafted token costs beside a pass of the target: its speed with shorter drafts.",
    )


@detector(RoundsCounted, 80)
def falls_along_the_text(counted: RoundsCounted) -> Finding | None:
    """Less and less is kept the longer an answer grows."""
    along = counted.tally.along.along()
    if along is None or along.ends > FALLEN * along.begins or along.difference.interval is None:
        return None
    if along.difference.interval[1] >= 0:
        return None
    where = "the answer" if along.n == 1 else f"{along.n} answers"
    return Finding(
        "falls_along_the_text",
        4,
        f"{FAULTS[3]}: {percent(along.begins)} to {percent(along.ends)}",
        f"In the first third of {where} {percent(along.begins)} of the drafted tokens are kept, in the last third "
        f"{percent(along.ends)}. One answer that changes its subject does that as well; several alike hardly do.",
        "sure" if along.n >= 3 else "likely",
        next_step="Held against a text as long as those the drafter was trained on: see its positions (rope, window), "
        "and stop drafting where a round brings less than it costs.",
        decides="" if along.n >= 3 else "Three long answers or more, of other subjects.",
        screen="overview",
        evidence=counted.places(along.lost),
    )


@detector(RoundsCounted, 82)
def dies_within_an_answer(counted: RoundsCounted) -> Finding | None:
    """From some round of an answer on far less is kept, to its end: a state went wrong, or it grew too long."""
    collapse = counted.tally.collapse.collapse()
    if collapse is None or falls_along_the_text(counted) is not None:
        return None
    places = counted.places([collapse.at])
    return collapsed(collapse, places[0].label if places else f"q{collapse.at.q} r{collapse.at.r}", places)


def collapsed(collapse: "Collapse", where: str, places: tuple[EvidencePlace, ...]) -> Finding:
    """What was kept until `where`, and from there on."""
    (kept, n), (later, n_later) = collapse.before, collapse.after
    why = {
        "state": " Others grew as long and are kept there as before, so it is no matter of length.",
        "length": " Others are kept less as well once they are as long, so it is a matter of length.",
        "": "",
    }[collapse.cause]
    return Finding(
        "dies_within_an_answer",
        4 if collapse.cause == "length" else 10,
        f"from {where} on the draft is kept less than half as often",
        f"Up to {where} {percent(kept / n)} of {n} drafts keep something, from there to the end of the answer "
        f"{percent(later / n_later)} of {n_later}.{why}",
        "likely" if collapse.cause else "cannot tell",
        next_step="See the drafter's positions (rope, window), and stop drafting where the text is so long."
        if collapse.cause == "length"
        else "See that the draft's cache or running state is cut back to the kept tokens after every rejection.",
        decides="The same prompt once more from the text at that place, which begins with a fresh state.",
        others=() if collapse.cause else (4, 6),
        tokens=kept / n - later / n_later,
        evidence=places,
    )


def _below(share: "Estimate", most: float) -> bool:
    return share.interval is not None and share.interval[1] < most
