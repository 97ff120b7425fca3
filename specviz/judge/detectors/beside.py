"""Counts held against each other: before and after, two boots, beside plain decoding, drafters in one run."""

import math
from collections.abc import Callable
from itertools import cycle
from statistics import fmean, stdev
from typing import TYPE_CHECKING

from specviz.judge.evidence import CountsLooked, Evidence
from specviz.judge.finding import Certainty, EvidencePlace, Finding
from specviz.judge.registry import detector
from specviz.metrics import wilson_interval
from specviz.metrics.against_plain import APART
from specviz.metrics.estimate import Z
from specviz.numerals import number, percent
from specviz.text import running

if TYPE_CHECKING:
    from specviz.engines.watch.beside import CountDifference
    from specviz.engines.watch.picture import WatchPicture

FAR = 0.1  # by which a position is kept less often
FEW = 30  # rounds of each
ENDS = "came so far"
WORKS = 0.5  # of the first tokens: below it a drafter is mostly wrong
MANY = 4  # times as many requests at the most as at the least, so that a batch can tell
LEAST_WINDOWS = 4  # whose speeds spread
EXPERTS = " The target is a mixture of experts, of which every further row may wake others."


def _speculating(evidence: Evidence) -> list[CountsLooked]:
    return [counted for counted in evidence.counts if counted.picture.n_accepted or counted.picture.positions]


@detector(Evidence, 14)
def worse_beside(evidence: Evidence) -> Finding | None:
    """Of two of the same kind one keeps less: from which position on, and what else differs."""
    from specviz.engines.watch.beside import beside

    known = _speculating(evidence)
    if len(known) != 2 or any((counted.picture.n_rounds or 0) < FEW for counted in known):
        return None
    good, bad = sorted((counted.picture for counted in known), key=lambda picture: -(picture.length or 0))
    differences = beside((good, bad), "AB")
    rows = [row for row in differences.rows if row.name == "position 1" or row.name.endswith(ENDS)]
    worse = [row for row in rows if row.beyond_chance(1) and _by(row) < -FAR]
    if not worse:
        return None
    place = worse[0].name.removesuffix(f" of those that {ENDS}")
    claim = f"{place} is kept in {percent(worse[0].values[1])} of one and {percent(worse[0].values[0])} of the other"
    settings = "; ".join(f"{name} {running(a)} and {running(b)}" for name, (a, b) in differences.settings)
    if worse[0] is rows[0]:
        claim += f", and what differs is {settings}." if settings else ", and nothing else that is told differs."
        next_step = (
            "Set what differs as it is in the better one."
            if settings
            else (
                "Not the drafter, which is the same in both: look at the text of the worse one, and at its first lines."
            )
        )
        return Finding(
            "worse_beside",
            10,
            f"one keeps far less than the other at {place}",
            claim,
            "likely",
            next_step=next_step,
            decides="The worse one once more, with the one change.",
            others=(1, 6),
        )
    return Finding(
        "worse_beside",
        2,
        f"one keeps less than the other from {place} on",
        f"{claim} of the rounds that {ENDS}; the first position is alike: the drafter's own state between its calls, "
        "not its first guess.",
        "likely",
        next_step="Another version of the engine: what it does between calls of the drafter (norm, states, positions).",
        decides="The same files under the version before.",
        others=(14,),
    )


def _by(row: "CountDifference") -> float:
    difference = row.differences[0]
    return 0.0 if difference is None else difference[0]


@detector(Evidence, 30)
def slower_in_a_batch(evidence: Evidence) -> Finding | None:
    """Beside plain decoding of the same load: faster while few requests run, slower while many do."""
    plain, drafting = _twins(evidence)
    if plain is None or drafting is None:
        return None
    counts = [point.running for point in drafting.points if point.running and point.tokens_per_s]
    if not counts or max(counts) < MANY * min(counts):
        return None
    edge = math.sqrt(max(counts) * min(counts))
    few = _ratios(drafting, plain, edge.__ge__)
    many = _ratios(drafting, plain, edge.__lt__)
    if min(len(few), len(many)) < LEAST_WINDOWS:
        return None
    (_, least, _), (times, _, most) = _mean(few), _mean(many)
    if least <= 1 or most >= 1:
        return None
    return Finding(
        "slower_in_a_batch",
        13,
        f"slower than plain decoding where more than {number(edge, 0)} requests run",
        f"While at most {number(edge, 0)} requests run it writes {number(_mean(few)[0])} times as many tokens as plain "
        f"decoding, while more do {number(times)} times: rows of drafts fill the machine that other requests would.",
        "likely",
        next_step="Draft less, or not at all, from so many requests on: engines have a setting for that.",
        decides="The same load with drafts of one token.",
        others=(12, 14),
        time=1 - times,
    )


def _twins(evidence: Evidence) -> "tuple[WatchPicture | None, WatchPicture | None]":
    """Counts of plain decoding, and of a run that drafts."""
    plain = next((c.picture for c in evidence.counts if c.picture.n_drafted == 0 and c.picture.n_accepted == 0), None)
    return plain, next((counted.picture for counted in _speculating(evidence)), None)


def _ratios(drafting: "WatchPicture", plain: "WatchPicture", fits: Callable[[float], bool]) -> list[float]:
    """Tokens a second of windows with so many requests running, over the mean of such windows of plain decoding."""
    speeds = [
        [point.tokens_per_s for point in picture.points if point.running and fits(point.running) and point.tokens_per_s]
        for picture in (drafting, plain)
    ]
    return [speed / fmean(speeds[1]) for speed in speeds[0]] if speeds[1] else []


def _mean(ratios: list[float]) -> tuple[float, float, float]:
    """With its interval."""
    half = Z * stdev(ratios) / math.sqrt(len(ratios))
    return fmean(ratios), fmean(ratios) - half, fmean(ratios) + half


@detector(Evidence, 31)
def slower_than_its_twin(evidence: Evidence) -> Finding | None:
    """Beside the same text decoded plainly: what a round costs and brings."""
    plain, drafting = _twins(evidence)
    if (
        plain is None
        or drafting is None
        or slower_in_a_batch(evidence) is not None
        or not plain.tokens_per_s
        or not drafting.tokens_per_s
    ):
        return None
    times, certainty = drafting.tokens_per_s / plain.tokens_per_s, _certain(drafting, plain)
    if drafting.length is None or times >= 1:
        return None
    experts = any(finding.code == "experts" for pair in evidence.pairs for finding in pair.findings)
    return _dear(
        f"A round brings {number(drafting.length)} tokens and takes as long as {number(drafting.length / times)} plain "
        f"ones: {number(times)} times plain decoding." + (EXPERTS if experts else ""),
        1 - times,
        13 if experts else 12,
        certainty,
    )


def _certain(drafting: "WatchPicture", plain: "WatchPicture") -> Certainty:
    """By how the speeds of the windows spread, where there are enough of both; else every one of them has to be slower
    by more than two timings part anyhow."""
    speeds = [[point.tokens_per_s for point in picture.points if point.tokens_per_s] for picture in (drafting, plain)]
    if len(speeds[0]) < LEAST_WINDOWS:
        fastest = max([*speeds[0], drafting.tokens_per_s or 0])
        slow = APART * fastest < (plain.tokens_per_s or 0)
        return "likely" if slow and not _stood_still(drafting, plain) else "cannot tell"
    # Both answer the same prompts in the same order: then a window is held against its own twin.
    paired = len(speeds[0]) == len(speeds[1])
    usual = fmean(speeds[1])
    ratios = [a / (b if paired else usual) for a, b in zip(speeds[0], cycle(speeds[1]), strict=False)]
    return "likely" if _mean(ratios)[2] < 1 else "cannot tell"


def _stood_still(drafting: "WatchPicture", plain: "WatchPicture") -> bool:
    """Whether a round took longer than one with every drafted token as dear as two plain passes, one to draft it and
    one to verify it: then something else took time, and counts alone do not tell whether a drafter did."""
    if not drafting.n_drafted or not drafting.n_rounds or not drafting.tokens_per_s or not plain.tokens_per_s:
        return False
    cost = (drafting.length or 0) * plain.tokens_per_s / drafting.tokens_per_s
    return cost > 1 + 2 * drafting.n_drafted / drafting.n_rounds


@detector(CountsLooked, 32)
def does_not_pay(counted: CountsLooked) -> Finding | None:
    """A summary that says itself what its rounds cost."""
    words = next((note for note in counted.picture.notes if note.endswith("does not pay")), None)
    return None if words is None else _dear(f"{running(words[0].upper() + words[1:])}.", None)


def _dear(claim: str, time: float | None, fault: int = 12, certainty: Certainty = "likely") -> Finding:
    return Finding(
        "dearer_than_it_pays",
        fault,
        "slower than plain decoding",
        claim,
        certainty,
        next_step="A shorter draft, or a cheaper drafter; where the pass over several rows is dear, fewer of them.",
        decides="The time of a draft, and of a pass over one row and over all, each alone."
        if certainty == "likely"
        else "The same prompts again, with and without drafts in turn: these may be slow by chance, or stood still.",
        others=(25 - fault, 14),
        time=time,
    )


@detector(CountsLooked, 72)
def drafters_mixed(counted: CountsLooked) -> Finding | None:
    """Several drafters in one run, of which one never drafts, or drafts long for what it brings."""
    parts = [part for part in counted.picture.engines if part.of == "drafter"]
    silent = [part for part in parts if part.n_calls and not part.n_rounds]
    if not silent:
        return None
    return Finding(
        "drafters_mixed",
        15,
        "a drafter among several drafts nothing",
        "; ".join(running(part.words) for part in parts) + ". One rate of all mixes them.",
        "likely",
        next_step="Leave out those that draft nothing; a lookup that drafts long takes the turn of a better one.",
        decides="A run with each of them alone.",
        others=(14,),
    )


@detector(Evidence, 18)
def layers_unusual(evidence: Evidence) -> Finding | None:
    """A head that reads other layers than such heads are trained on, and is mostly wrong at its first token."""
    unusual = [finding for pair in evidence.pairs for finding in pair.findings if finding.code == "layers-unusual"]
    first = _first_position(evidence)
    if not unusual or first is None or first[1] < FEW or wilson_interval(*first)[1] >= WORKS:
        return None
    kept, n = first
    return Finding(
        "layers_unusual",
        1,
        "the head reads unusual layers, and is mostly wrong",
        f"{running(unusual[0].what[0].upper() + unusual[0].what[1:])}, and position 1 is kept in {percent(kept / n)} "
        f"of {n:,} rounds: a head that is fed what it was trained on is right more often than not.",
        "likely",
        next_step=f"{running(unusual[0].fix)}.",
        decides="A run that reads the usual layers.",
        others=(3,),
        evidence=(EvidencePlace(0, unusual[0].code, kind="tensor"),),
    )


def _first_position(evidence: Evidence) -> tuple[int, int] | None:
    """Rounds that kept their first token, of how many: of the run or the counts that stand beside the files."""
    for rounds in evidence.rounds:
        tally = rounds.tally.confidence
        if tally.n_drafting:
            return tally.n_kept, tally.n_drafting
    for counted in evidence.counts:
        if counted.picture.positions:
            share = counted.picture.positions[0]
            return round(share.kept * share.n), share.n
    return None
