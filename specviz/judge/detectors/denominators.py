"""Numbers that do not mean what they say: an engine's own counts against its rounds (fault 7)."""

from collections.abc import Iterator
from itertools import islice

from specviz.events import Reported
from specviz.judge.evidence import RoundsCounted
from specviz.judge.finding import EvidencePlace, Finding
from specviz.judge.identities import violations
from specviz.judge.registry import detector
from specviz.metrics.draft_confidence import TokenPosition
from specviz.text import running

MOST_PLACES = 6


@detector(RoundsCounted, 12)
def counted_otherwise(counted: RoundsCounted) -> Finding | None:
    """What the engine reports of these very rounds is not what they add up to."""
    reported = [*_whole(counted)]
    wrong = [*reported, *violations(counted.run, counted.tally, counted.metrics)]
    if not wrong:
        return None
    return Finding(
        "counted_otherwise",
        7,
        "the engine counts otherwise than its rounds",
        f"{'; '.join(wrong[:3])}.",
        "sure" if reported else "likely",
        next_step="Name both counts beside every rate, and hold accepted / drafted against accepted / drafted only.",
        decides=""
        if reported
        else "Whether every round is on record: a stream that merges or cuts rounds adds up to less.",
        screen="overview",
        evidence=(
            *counted.places(_differing(counted)),
            *(
                EvidencePlace(0, f"report of {running(report.of)}", kind="line")
                for report in counted.run.reported
                if report.whole
            ),
        ),
    )


def _differing(counted: RoundsCounted) -> Iterator[TokenPosition]:
    """The first rounds of the first requests of which an engine counts otherwise than their rounds."""
    outside = counted.tally.outside
    apart = (
        report.q
        for report in counted.run.reported
        if not report.whole
        and any(
            _is_apart(theirs, ours) for theirs, ours in zip(_reported_counts(report), outside.of(report.q), strict=True)
        )
    )
    yield from (TokenPosition(q, 1) for q in islice(dict.fromkeys(apart), MOST_PLACES))


def _reported_counts(report: Reported) -> tuple[int | None, ...]:
    return report.n_rounds, report.n_drafted, report.n_accepted


def _is_apart(theirs: int | None, ours: int) -> bool:
    return theirs is not None and theirs != ours


def _whole(counted: RoundsCounted) -> Iterator[str]:
    """Reports of all that was served, where that is as many rounds as are on record."""
    outside, metrics = counted.tally.outside, counted.metrics
    for report in counted.run.reported:
        if report.whole and report.n_rounds == outside.n_drafting and report.n_rounds:
            yield from _apart(report, report.n_rounds, metrics.n_drafted, metrics.n_tested, metrics.n_accepted)


def _apart(report: Reported, rounds: int, drafted: int, tested: int, accepted: int) -> Iterator[str]:
    who = running(report.of)
    if report.n_accepted is not None and report.n_accepted != accepted:
        closing = (
            " (the token that closes a round is counted as accepted)" if report.n_accepted == accepted + rounds else ""
        )
        yield f"{who} reports {report.n_accepted:,} accepted tokens, its rounds keep {accepted:,}{closing}"
    if report.n_drafted is not None and report.n_drafted != drafted:
        only = " (only what was tested counts as drafted)" if report.n_drafted == tested else ""
        yield f"{who} reports {report.n_drafted:,} drafted tokens, its rounds draft {drafted:,}{only}"
