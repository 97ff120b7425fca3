"""Counts held against each other: before and after, two boots, beside plain decoding, drafters in one run."""

from typing import TYPE_CHECKING

from specviz.judge.evidence import CountsLooked, Evidence
from specviz.judge.finding import Finding
from specviz.judge.registry import detector
from specviz.numerals import number, percent
from specviz.text import running

if TYPE_CHECKING:
    from specviz.engines.watch.beside import CountDifference

FAR = 0.1  # by which a position is kept less often
FEW = 30  # rounds of each
ENDS = "came so far"


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
    told = beside((good, bad), "AB")
    rows = [row for row in told.rows if row.name == "position 1" or row.name.endswith(ENDS)]
    worse = [row for row in rows if row.beyond_chance(1) and _by(row) < -FAR]
    if not worse:
        return None
    place = worse[0].name.removesuffix(f" of those that {ENDS}")
    claim = f"{place} is kept in {percent(worse[0].values[1])} of one and {percent(worse[0].values[0])} of the other"
    settings = "; ".join(f"{name} {running(a)} and {running(b)}" for name, (a, b) in told.settings)
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


@detector(Evidence, 31)
def slower_than_its_twin(evidence: Evidence) -> Finding | None:
    """Beside the same text decoded plainly: what a round costs and brings."""
    plain = next((c.picture for c in evidence.counts if c.picture.n_drafted == 0 and c.picture.n_accepted == 0), None)
    drafting = next((counted.picture for counted in _speculating(evidence)), None)
    if plain is None or drafting is None or not plain.tokens_per_s or not drafting.tokens_per_s:
        return None
    times = drafting.tokens_per_s / plain.tokens_per_s
    if drafting.length is None or times >= 1:
        return None
    return _dear(
        f"A round brings {number(drafting.length)} tokens and takes as long as {number(drafting.length / times)} plain "
        f"ones: {number(times)} times plain decoding.",
        1 - times,
    )


@detector(CountsLooked, 32)
def does_not_pay(counted: CountsLooked) -> Finding | None:
    """A summary that says itself what its rounds cost."""
    words = next((note for note in counted.picture.notes if note.endswith("does not pay")), None)
    return None if words is None else _dear(f"{running(words[0].upper() + words[1:])}.", None)


def _dear(claim: str, time: float | None) -> Finding:
    return Finding(
        "dearer_than_it_pays",
        12,
        "slower than plain decoding",
        claim,
        "likely",
        next_step="A shorter draft, or a cheaper drafter; where the pass over several rows is dear, fewer of them.",
        decides="The time of a draft, and of a pass over one row and over all, each alone.",
        others=(13, 14),
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
