"""What stands beside counts: the engine's own means (fault 7), how it ran (8), how full its cache is (4, 10)."""

from collections.abc import Iterator

from specviz.errors import SpecvizError
from specviz.judge.detectors.lost_places import collapsed
from specviz.judge.detectors.rule import GOOD, NEXT
from specviz.judge.evidence import CountsLooked
from specviz.judge.finding import EvidencePlace, Finding
from specviz.judge.registry import detector
from specviz.methods import all_methods
from specviz.numerals import number, percent
from specviz.trace.rules import rule_named
from specviz.traits import TOKENWISE

DIGITS = 0.006  # by which a mean may miss what it was worked out of: engines print two digits or three
APART = 0.02  # by which it must miss the mean of the counts
NARROW = 0.05  # a range of means in which one says something
FALLEN = 0.5  # of what is kept of short texts, below which long ones have lost it
FEW = 30  # rounds of either
LEAST_LONG = 8  # rounds of a text that has grown long
LENGTHS = 256  # of texts that are told apart, up to the longest


@detector(CountsLooked, 94)
def reported_otherwise(counted: CountsLooked) -> Finding | None:
    """The engine's own mean is none of its counts, but one of the usual other things that are called so."""
    wrong = [*_rates(counted), *_lengths(counted)]
    if not wrong:
        return None
    return Finding(
        "reported_otherwise",
        7,
        "the engine's means are not those of its counts",
        f"{'; '.join(wrong)}.",
        "likely",
        next_step="Name both counts beside every rate, and hold accepted / drafted against accepted / drafted only.",
        decides="What the engine divides by what, in its source or its documents.",
    )


def _rates(counted: CountsLooked) -> Iterator[str]:
    picture, rate = counted.picture, counted.picture.reported[0]
    rounds, drafted, kept = picture.n_rounds, picture.n_drafted, picture.n_accepted
    if rate is None or not rounds or not drafted or kept is None or _is_latest(counted, rate, 0):
        return
    closing, both = (kept + rounds) / drafted, (kept + rounds) / (drafted + rounds)
    others = (
        (closing, closing, "the token that closes a round counts as accepted"),
        (both, both, "the token that closes a round counts as drafted and accepted"),
        (*_of_tested(counted, rounds, drafted, kept), "only what was tested counts as drafted"),
    )
    for least, most, why in others:
        if least - DIGITS <= rate <= most + DIGITS and abs(rate - kept / drafted) > APART:
            yield f"it reports a rate of {percent(rate)}, of its counts {percent(kept / drafted)} is kept: {why}"
            return


def _of_tested(counted: CountsLooked, rounds: int, drafted: int, kept: int) -> tuple[float, float]:
    """What is kept of the tested tokens, between two ends. A round tests one token more than it keeps, but where it
    keeps all of its draft; of short drafts, as at the end of an answer, nobody counts those: as many at most as tokens
    are missing."""
    positions = counted.picture.positions
    missing = len(positions) * rounds - drafted
    most = rounds + kept - (round(positions[-1].kept * rounds) if positions and missing >= 0 else 0)
    fewest = max(kept, most - max(0, missing))
    return kept / most, kept / (fewest if fewest and kept / fewest - kept / most < NARROW else most)


def _lengths(counted: CountsLooked) -> Iterator[str]:
    picture, length = counted.picture, counted.picture.reported[1]
    if length is None or not picture.n_rounds or picture.n_accepted is None or _is_latest(counted, length, 1):
        return
    own = 1 + picture.n_accepted / picture.n_rounds
    if abs(length - own - 1) <= DIGITS:
        yield (
            f"it reports {number(length)} tokens a round, its counts make {number(own)}: the closing token counts twice"
        )


def _is_latest(counted: CountsLooked, mean: float, which: int) -> bool:
    """Whether it is that of the newest window alone, as some engines report it."""
    for point in reversed(counted.picture.points):
        if point.rounds:
            latest = (point.acceptance, point.length)[which]
            return latest is not None and abs(mean - latest) <= DIGITS
    return False


@detector(CountsLooked, 45)
def exact_match_counted(counted: CountsLooked) -> Finding | None:
    """The settings name a rule that keeps a token only where the target draws it, and a temperature above 0."""
    settings, first = dict(counted.picture.settings), next(iter(counted.picture.positions), None)
    try:
        rule, temperature = rule_named(settings.get("verifier", "")), float(settings.get("temperature", ""))
    except (SpecvizError, ValueError):
        return None
    if not rule.traits.draws or temperature <= 0 or first is None or first.n < FEW or first.high > GOOD:
        return None
    if rule_named(_usual_rule(settings.get("method", ""))).traits.draws:
        return None  # nobody chose it: the method has no better one, and the drafter may be weak
    return Finding(
        "exact_match",
        8,
        "exact match at temperature above 0",
        f"At temperature {number(temperature)} {rule.name} keeps a drafted token only where the target draws it: "
        f"position 1 in {percent(first.kept)} of {first.n:,} rounds.",
        "likely",
        next_step=NEXT,
        decides="The same prompts at temperature 0: what is kept there tells what the drafter is worth.",
        others=(1, 6),
    )


def _usual_rule(method: str) -> str:
    """The verifier that a method has by itself above temperature 0; the ratio test for methods that are not known."""
    known = all_methods().get(method)
    return TOKENWISE if known is None else known.default_verifier[1]


@detector(CountsLooked, 80)
def falls_as_the_cache_fills(counted: CountsLooked) -> Finding | None:
    """The longer the texts in the cache, the less is kept; seen in more than one text, or it may be time."""
    from specviz.metrics import wilson_interval

    texts = [*_texts(counted)]
    by_length = [k for _, k in sorted(window for text in texts for window in text)]
    n = len(by_length)
    third = n // 3
    short, long = _kept(counted, by_length[:third]), _kept(counted, by_length[-third:])
    if min(short[1], long[1]) < FEW:
        return None
    begins, ends = short[0] / short[1], long[0] / long[1]
    if ends > FALLEN * begins or wilson_interval(*long)[1] >= wilson_interval(*short)[0]:
        return None
    places = sorted(by_length[-third:])
    grown = [
        text for text in texts if _kept(counted, [k for _, k in text if k in by_length[n // 2 :]])[1] >= LEAST_LONG
    ]
    if len(grown) < 2:
        return None  # what befell one text alone is no matter of length
    ends_of = [_kept(counted, [k for _, k in text if k in places]) for text in grown]
    if any(n >= LEAST_LONG and wilson_interval(kept, n)[0] > FALLEN * begins for kept, n in ends_of):
        return None  # another one grew as long, and was kept
    return Finding(
        "falls_as_the_cache_fills",
        4,
        f"acceptance falls as texts grow: {percent(begins)} to {percent(ends)}",
        f"In the third of the windows with the shortest texts in the cache position 1 is kept in {percent(begins)} of "
        f"{short[1]:,} rounds, in that with the longest in {percent(ends)} of {long[1]:,}.",
        "likely",
        next_step="Held against a text as long as those the drafter was trained on: see its positions (rope, window), "
        "and stop drafting where a round brings less than it costs.",
        decides="A recording of three long answers or more, which tells it round by round.",
        others=(10,),
        tokens=begins - ends,
        evidence=tuple(EvidencePlace(k, f"window {k + 1}", kind="window") for k in places),
    )


@detector(CountsLooked, 82)
def dies_within_a_text(counted: CountsLooked) -> Finding | None:
    """From some window of a text on far less is kept, to its end, and other texts tell whether its length does that."""
    from specviz.metrics.collapse import CollapseTally
    from specviz.metrics.draft_confidence import TokenPosition

    points, tally = counted.picture.points, CollapseTally()
    most = max((point.held or 0.0 for point in points), default=0.0)
    for q, text in enumerate(_texts(counted)):
        for held, k in text:
            if points[k].running == 1:  # of several requests the cache tells a mean
                kept = points[k].kept[0] if points[k].kept else 0
                tally.take(TokenPosition(q, k), round(held / most * LENGTHS), kept, points[k].rounds)
    collapse = tally.collapse()
    if collapse is None or not collapse.cause or falls_as_the_cache_fills(counted) is not None:
        return None
    place = EvidencePlace(collapse.at.r, f"window {collapse.at.r + 1}", kind="window")
    return collapsed(collapse, place.label, (place,))


def _kept(counted: CountsLooked, windows: list[int]) -> tuple[int, int]:
    """Rounds of these windows that kept the first position, of how many."""
    points = [counted.picture.points[k] for k in windows]
    return sum(point.kept[0] for point in points if point.kept), sum(point.rounds for point in points)


def _texts(counted: CountsLooked) -> Iterator[list[tuple[float, int]]]:
    """Windows of one text after another: what a request holds of the cache, and the window; a text ends where that
    falls by half."""
    text: list[tuple[float, int]] = []
    for k, point in enumerate(counted.picture.points):
        if point.held and point.rounds:
            if text and point.held < text[-1][0] / 2:
                yield text
                text = []
            text.append((point.held, k))
    yield text
