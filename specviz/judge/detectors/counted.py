"""What counts alone tell: of a server, a log, a table, an answer. Positions are those that rounds are counted by."""

from collections.abc import Iterator
from time import localtime, strftime
from typing import TYPE_CHECKING

from specviz.judge.cliffs import TestedPosition, deepest_cliff
from specviz.judge.detectors.nothing_drafted import hardly
from specviz.judge.evidence import CountsLooked
from specviz.judge.finding import EvidencePlace, Finding
from specviz.judge.registry import detector
from specviz.numerals import number, percent
from specviz.text import running

if TYPE_CHECKING:
    from specviz.engines.watch.picture import PositionShare, SeenChange, WatchPicture

FEW_ROUNDS = 30  # below it nothing is said
FEW_TOKENS, LOW = 100, 0.3  # drafted tokens, and the share kept below which nobody is content
LITTLE = 0.02  # of the tokens of a round
DEAD = 0.05  # of rounds at most keep the first position: nothing works
LOST = 0.02  # of drafted tokens at most are kept, where rounds are not counted
LONG, SMALL = 8, 0.15  # tokens of a draft, and the share of it that is kept: what does not go together
CHANCE = 0.05  # that it happens to a drafter which is well
TOO_GOOD = 0.97  # share of the rounds that reach a position and keep it, at every one


@detector(CountsLooked, 10)
def nothing_counted(counted: CountsLooked) -> Finding | None:
    """Text, and no draft."""
    picture = counted.picture
    if picture.n_drafted != 0 or not picture.n_generated or picture.n_rounds == picture.n_generated:
        return None  # a round a token is plain decoding, and called so
    rounds = f" in {picture.n_rounds:,} rounds" if picture.n_rounds else ""
    return Finding(
        "nothing_drafted",
        15,
        "nothing is drafted",
        f"{picture.n_generated:,} tokens were generated and none was drafted{rounds}.",
        next_step="Look at the engine's first lines for what turned drafting off (a batch, a threshold, an option); a "
        "lookup needs text that repeats.",
        decides="Why it did not draft, which counts do not tell.",
    )


@detector(CountsLooked, 11)
def hardly_counted(counted: CountsLooked) -> Finding | None:
    """Much text, and few rounds that drafted: what no draft brought, a plain pass did."""
    picture = counted.picture
    rounds, kept, n = picture.n_rounds, picture.n_accepted, picture.n_generated
    if not rounds or kept is None or n is None or not picture.n_drafted or n < kept + rounds:
        return None
    first = picture.positions[0] if picture.positions else None
    return hardly(n - kept, rounds, round(first.kept * first.n) if first else min(kept, rounds), "")


@detector(CountsLooked, 15)
def sick_engine(counted: CountsLooked) -> Finding | None:
    """One of several engines that serve the same."""
    from specviz.engines.watch.picture import ill_engines, usual_length

    engines = counted.picture.engines
    ill = ill_engines(engines)
    if not ill:
        return None
    rest = usual_length(engines, ill)
    some = ", ".join(f"engine {running(engine.name)} at {number(engine.length)}" for engine in ill[:3])
    return Finding(
        "sick_engine",
        10,
        f"{len(ill)} of {len(engines)} engines is ill"
        if len(ill) == 1
        else f"{len(ill)} of {len(engines)} engines are ill",
        f"{some} tokens a round, the others at {number(rest)}: the same files and settings, so it is the state of that "
        "engine, not the drafter.",
        "likely",
        next_step="Restart that engine; hold its log from its start on (weights, ranks) against another's.",
        decides="Whether it is well after a restart; whether the same requests fare so elsewhere.",
        others=(3,),
        tokens=max(rest - (engine.length or 1.0) for engine in ill),
        evidence=tuple(EvidencePlace(0, f"engine {running(engine.name)}", kind="line") for engine in ill),
    )


@detector(CountsLooked, 20)
def dead_counted(counted: CountsLooked) -> Finding | None:
    """Nothing is kept at the first position, or at all."""
    seen = _first_kept(counted.picture)
    if seen is None:
        return None
    untold = counted.picture.n_drafted is None and counted.picture.n_accepted == 0
    return Finding(
        "never_kept",
        3,
        "the draft is never kept",
        f"next to nothing is kept at position 1 ({seen}): a drafter that does not read its target, or was not loaded "
        "(faults 1 and 3).",
        "cannot tell" if untold else "likely",
        next_step="No draft length mends that: hold the folders and the serving command against each other (specviz "
        "check TARGET DRAFT --serve COMMAND), then try another version of the engine.",
        decides="Whether there is a drafter at all: that none is kept looks the same."
        if untold
        else "The folders; and whether the text is sound, which it is where the drafter alone is dead.",
        others=(1, 5),
    )


def _first_kept(picture: "WatchPicture") -> str | None:
    """How seldom anything is kept, where that is next to never; else None."""
    from specviz.metrics import wilson_interval

    n, kept, drafted = picture.n_rounds, picture.n_accepted, picture.n_drafted
    if drafted is not None and drafted < FEW_ROUNDS:
        return None
    if picture.positions:
        first = picture.positions[0]
        dead = first.n >= FEW_ROUNDS and (first.high < DEAD or not first.kept)
        return f"{first.kept:.1%} of {first.n} rounds" if dead else None
    if picture.length is not None:
        share = max(0.0, picture.length - 1)
        most = share if n is None or n < FEW_ROUNDS or not share else wilson_interval(min(n, kept or share * n), n)[1]
        if n is not None and n < FEW_ROUNDS:
            return None
        return f"at most {share:.1%} of the rounds" if most < DEAD else None
    if drafted and kept is not None and wilson_interval(min(kept, drafted), drafted)[1] < LOST:
        return f"{kept:,} of {drafted:,} drafted tokens in all"
    return None


@detector(CountsLooked, 50)
def cliff_counted(counted: CountsLooked) -> Finding | None:
    """A position is kept far less often than the one before it."""
    if _first_kept(counted.picture) is not None:
        return None
    positions: list[TestedPosition] = []
    came = 0
    for at in _drafted_positions(counted.picture):
        kept, n = round(at.kept * at.n), came if positions else at.n
        positions, came = [*positions, TestedPosition(at.position + 1, kept, n)], kept
    cliff = deepest_cliff(positions)
    if cliff is None:
        return None
    before, here = cliff.before, cliff.here
    return Finding(
        "position_cliff",
        2,
        f"a cliff at position {here.at}",
        f"a cliff at position {here.at}: {here.share:.1%} of {here.n} rounds that came so far keep it, after "
        f"{before.share:.0%} at position {before.at}.{cliff.doubt}",
        "cannot tell" if cliff.doubt else "likely",
        next_step="The drafter's own loop or its positions (norm, position ids, cache between its steps): another "
        "version of the engine. A shorter draft only hides it.",
        decides=cliff.decides,
        others=cliff.others,
        tokens=before.kept / positions[0].n * (1 - here.share),
    )


def _drafted_positions(picture: "WatchPicture") -> "list[PositionShare]":
    """Those that were counted, and where longer drafts were made the next one, of which nothing was ever kept."""
    from specviz.engines.watch.picture import PositionShare

    positions, n = [*picture.positions], picture.n_rounds
    if positions and n and picture.n_drafted and round(picture.n_drafted / n) > len(positions) and positions[-1].kept:
        positions.append(PositionShare(len(positions), 0.0, 0.0, 0.0, n, 0.0))
    return positions


@detector(CountsLooked, 70)
def tail_counted(counted: CountsLooked) -> Finding | None:
    """Last positions that bring next to nothing even at the upper ends of their intervals; drafts too long for what
    they bring."""
    picture = counted.picture
    if cliff_counted(counted) is not None or _first_kept(picture) is not None:
        return None
    length, positions = picture.length, picture.positions
    if length is None or not length > 1:
        return None
    if not positions:
        a_round = picture.n_drafted / picture.n_rounds if picture.n_drafted and picture.n_rounds else 0.0
        if a_round < LONG or length - 1 > SMALL * a_round or (picture.n_drafted or 0) < FEW_ROUNDS:
            return None
        claim = f"{a_round:.1f} tokens are drafted a round to keep {length - 1:.1f}."
        return Finding(
            "long_tail",
            14,
            "drafts are long for what they bring",
            claim,
            "likely",
            next_step="Draft fewer, or end drafts that are unsure.",
            decides="Acceptance by position, which is not told here.",
            others=(15,),
        )
    most, first = 0.0, len(positions)
    while first > 1 and most + positions[first - 1].high <= LITTLE * length:
        first -= 1
        most += positions[first].high
    if first == len(positions):
        return None
    gone = positions[first:]
    which = f"position {first + 1} brings" if len(gone) == 1 else f"positions {first + 1} to {len(positions)} bring"
    return Finding(
        "long_tail",
        14,
        f"drafts are longer than what is kept: {first} of {len(positions)}",
        f"{which} {sum(at.kept for at in gone):.3f} tokens a round (at most {most:.3f}).",
        "likely",
        next_step=f"Drafting {first} in place of {len(positions)} would lose next to nothing; what drafting costs is "
        "not counted.",
        tokens=sum(at.kept for at in gone),
    )


@detector(CountsLooked, 75)
def little_kept(counted: CountsLooked) -> Finding | None:
    """Few of the drafted tokens are kept, and no position is told."""
    from specviz.metrics import wilson_interval

    picture = counted.picture
    drafted, kept = picture.n_drafted or 0, picture.n_accepted or 0
    if picture.positions or drafted < FEW_TOKENS or tail_counted(counted) or _first_kept(picture) is not None:
        return None
    if kept > drafted or wilson_interval(kept, drafted)[1] >= LOW:
        return None
    return Finding(
        "little_kept",
        14,
        f"{percent(kept / drafted)} of what is drafted is kept",
        f"{kept:,} of {drafted:,} drafted tokens are kept; by position, or by round, is not told here.",
        "cannot tell",
        next_step="Record it with positions (the engine's counters, or specviz attach), and draft one token for a try.",
        decides="Acceptance at position 1: high, then drafts are too long; low, then drafter, template or text.",
        others=(1, 3, 6),
    )


@detector(CountsLooked, 85)
def changed_in_time(counted: CountsLooked) -> Finding | None:
    """A step or a slide in what is kept, and whether a restart ended it."""
    changes, picture = counted.picture.changes, counted.picture
    falls = [change for change in changes if change.after < change.before]
    if not falls:
        return None
    healed = next(
        (wall for wall in picture.restarts for rise in changes if falls[-1].wall < wall <= rise.wall and _rose(rise)),
        None,
    )
    windows = tuple(
        EvidencePlace(
            next((k for k, point in enumerate(picture.points) if point.wall >= change.wall), 0),
            _clock(change.wall),
            kind="window",
        )
        for change in changes
    )
    slides = len(falls) > 1 and not any(_rose(change) and change.wall < falls[-1].wall for change in changes)
    way = f"slides since {_clock(falls[0].wall)}" if slides else f"fell at {_clock(falls[-1].wall)}"
    ended = f", until a restart at {_clock(healed)}" if healed is not None else ""
    return Finding(
        "changed_in_time",
        10,
        f"acceptance {way}{ended}",
        "; ".join(f"{window.label} {change.words}" for window, change in zip(windows, changes, strict=True)) + ".",
        "likely" if healed is not None else "cannot tell",
        next_step="Send the same prompts again: if they fare as before, the requests changed; if not, restart the "
        "engine and send them once more.",
        decides="Whether the requests changed or the engine: the same prompts before and after a restart.",
        others=(6,),
        tokens=max(0.0, falls[0].before - falls[-1].after) if slides or len(falls) == 1 else None,
        evidence=windows,
    )


def _rose(change: "SeenChange") -> bool:
    return change.after > change.before


def _clock(wall: float) -> str:
    return strftime("%H:%M:%S", localtime(wall))


@detector(CountsLooked, 90)
def known_of_engine(counted: CountsLooked) -> Finding | None:
    """What threads tell of this engine and drafter, where the counts look like it."""
    from specviz.check.known import fact_remedy, fact_words, known_of_counts

    picture = counted.picture
    cliff = cliff_counted(counted) is not None
    shown = {"dead": _first_kept(picture) is not None, "cliff": cliff, "later": cliff}
    shown["slide"] = any(change.after < change.before for change in picture.changes)
    facts = [*known_of_counts(picture.engine, dict(picture.settings), {shape for shape, so in shown.items() if so})]
    if not facts:
        return None
    return Finding(
        "known_of_engine",
        facts[0]["fault"],
        "known of this engine and drafter",
        " ".join(f"{running(fact_words(fact))}." for fact in facts),
        "cannot tell",
        next_step=f"{running(fact_remedy(facts[0]))}.",
        decides="The version in use, held against those.",
    )


@detector(CountsLooked, 95)
def does_not_add_up(counted: CountsLooked) -> Finding | None:
    """Counts that contradict each other."""
    wrong = [running(note) for note in counted.picture.notes if note.startswith("does not add up")]
    if not wrong:
        return None
    return Finding(
        "does_not_add_up",
        7,
        "the counts contradict each other",
        "; ".join(wrong) + ".",
        next_step="Take no rate from them: see which of the counters the engine mends in a later version.",
    )


@detector(CountsLooked, 100)
def too_good_counted(counted: CountsLooked) -> Finding | None:
    """Every position is kept nearly always."""
    from specviz.metrics import wilson_interval

    picture = counted.picture
    if picture.positions:
        tried = sum(_came(picture.positions))
        kept = sum(round(at.kept * at.n) for at in picture.positions)
    elif picture.n_drafted and picture.n_accepted:
        tried, kept = picture.n_drafted, picture.n_accepted
    else:
        return None
    good = 0 < kept <= tried and wilson_interval(kept, tried)[0] > TOO_GOOD
    since, n_since = ("", 0) if good else _all_kept_since(picture)
    if since:
        kept = tried = n_since
    elif not good:
        return None
    return Finding(
        "too_good",
        16,
        "too good to be true?",
        f"{since}{percent(kept / tried)} of {tried:,} tested tokens are kept. A smaller model hardly ever agrees so "
        "often: the target may draft for itself, the text may be a loop or a copy, or acceptance is made up for a "
        "benchmark.",
        "likely",
        next_step="Read the text for repetition; see that target and draft are two models, and that no synthetic "
        "acceptance is set.",
        decides="The text, and the two folders.",
    )


def _all_kept_since(picture: "WatchPicture") -> tuple[str, int]:
    """Since when every drafted token is kept, and how many: as where a text has become a loop. "" where a drafter of
    `TOO_GOOD` keeps as many by chance, from one of as many beginnings as were tried. A third of the windows at most
    may stand before."""
    n, first, drafted = len(picture.points), len(picture.points), 0
    for point in reversed(picture.points):
        if point.drafted != sum(point.kept):
            break
        first, drafted = first - 1, drafted + point.drafted
    tries = n // 3
    if not 0 < first <= tries or tries * TOO_GOOD**drafted >= CHANCE:
        return "", 0
    return f"Since window {first + 1} of {n} ", drafted


def _came(positions: "tuple[PositionShare, ...]") -> Iterator[int]:
    """How many rounds came as far as each position."""
    yield from (at.n for at in positions[:1])
    yield from (round(before.kept * before.n) for before in positions[:-1])
