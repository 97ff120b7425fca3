"""A case's evidence at a level: its rounds, a history of counts made of them, or their totals.

A history adds the rounds up in windows, as a server's counters are looked at; totals add up all. Folders and a second
run without drafts stand beside where a case has them: a text is known to nobody who has counts alone, so the second run
goes with the rounds.
"""

from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Literal

from msgspec.structs import replace

from specviz.engines.watch.of_rounds import counts_of_rounds
from specviz.events import Counted
from specviz.judge import Evidence
from specviz.runlog.fold import Run
from specviz.trace import read_events
from specviz.trace.files import packed_path
from specviz.view.clinic.played import RUN, evidence_in, pair_in
from specviz_lab.clinic.case import FILES

Level = Literal["rounds", "history", "totals"]
LEVELS: tuple[Level, ...] = ("rounds", "history", "totals")
N_WINDOWS = 12
CACHE = 4096  # tokens that the server's cache has room for


def read_run(path: Path) -> Run:
    """A whole recording. Raises TraceError."""
    return Run().extend(read_events(path))


def evidence_of(folder: Path, level: Level) -> Evidence:
    """All that a case shows at a level. Raises SpecvizError."""
    if level == "rounds":
        return evidence_in(folder)
    run, whole = read_run(packed_path(folder / RUN)), Evidence()
    for looks in (looks_of(run), _plainly(run)):
        whole += Evidence.of_looks(looks if level == "history" else [looks[0], looks[-1]]) if looks else Evidence()
    return whole + pair_in(folder / f"{FILES}.tar.gz")


def looks_of(run: Run) -> Sequence[Counted]:
    """Counters of `N_WINDOWS` windows, equal in time; the last look has what the engine itself made of them."""
    first, last = run.rounds.began(0), run.rounds.began(len(run.rounds) - 1)
    looks: Sequence[Counted] = counts_of_rounds(run, max(last - first, 1) / 1e9 / N_WINDOWS)
    drafting = [0, *accumulate(point.n_drafted != 0 for point in run.rounds.points())]
    looks = [
        replace(look, n_rounds=drafting[look.n_rounds or 0], gauges=_gauges(run, look.n_rounds or 0)) for look in looks
    ]  # engines count no other rounds
    means = next(iter(run.reported), None)
    if means is not None:
        means_by_name = {"accept_rate": means.draft_acceptance_rate, "accept_length": means.mean_acceptance_length}
        looks = [*looks[:-1], replace(looks[-1], **means_by_name)]
    return looks


def _plainly(run: Run) -> list[Counted]:
    """The same text decoded without drafts, as long as plain passes take in this run, where they were timed: counts
    that a user has of the server started without speculation."""
    counted = Evidence.of_run(run).rounds[0]
    speed, n = counted.speed, sum(end.n_emitted for record in run.rounds if (end := record.end) is not None)
    if speed is None or speed.plain_ms is None or not speed.measured or speed.trusted is None:
        return []
    first = looks_of(run)[0]
    return [
        replace(first, wall=first.wall + k * speed.plain_ms / 1000, n_rounds=k, n_generated=k, gauges={})
        for k in range(0, n + 1, max(1, n // N_WINDOWS))
    ]


def _gauges(run: Run, n_rounds: int) -> dict[str, float]:
    """What a server has beside after so many rounds of one request at a time."""
    held = run.rounds[min(n_rounds, len(run.rounds) - 1)].start.n
    return {"running": 1.0, "cache in use": held / CACHE}
