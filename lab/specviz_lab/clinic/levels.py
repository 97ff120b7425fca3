"""A case's evidence at a level: its rounds, a history of counts made of them, or their totals.

A history adds the rounds up in windows, as a server's counters are looked at; totals add up all. Folders and a second
run without drafts stand beside where a case has them: a text is known to nobody who has counts alone, so the second run
goes with the rounds.
"""

import tarfile
import tempfile
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Literal

from msgspec.structs import replace

from specviz.check import check_pair, read_side
from specviz.engines.watch.of_rounds import counts_of_rounds
from specviz.events import Counted
from specviz.judge import Evidence
from specviz.judge.evidence import PairChecked
from specviz.runlog.fold import Run
from specviz.trace import read_events
from specviz.trace.files import packed_path
from specviz_lab.clinic.case import FILES, PLAIN, RUN

Level = Literal["rounds", "history", "totals"]
LEVELS: tuple[Level, ...] = ("rounds", "history", "totals")
N_WINDOWS = 12


def read_run(path: Path) -> Run:
    """A whole recording. Raises TraceError."""
    return Run().extend(read_events(path))


def evidence_of(folder: Path, level: Level) -> Evidence:
    """All that a case shows at a level. Raises SpecvizError."""
    run = read_run(packed_path(folder / RUN))
    if level == "rounds":
        second = packed_path(folder / PLAIN)
        whole = Evidence.of_run(run) + (Evidence.of_run(read_run(second)) if second.exists() else Evidence())
    else:
        looks = looks_of(run)
        whole = Evidence.of_looks(looks if level == "history" else [looks[0], looks[-1]])
    return whole + _files(folder / f"{FILES}.tar.gz")


def looks_of(run: Run) -> Sequence[Counted]:
    """Counters of `N_WINDOWS` windows, equal in time; the last look has what the engine itself made of them."""
    first, last = run.rounds.began(0), run.rounds.began(len(run.rounds) - 1)
    looks: Sequence[Counted] = counts_of_rounds(run, max(last - first, 1) / 1e9 / N_WINDOWS)
    drafting = [0, *accumulate(point.n_drafted != 0 for point in run.rounds.points())]
    looks = [replace(look, n_rounds=drafting[look.n_rounds or 0]) for look in looks]  # engines count no others
    means = next(iter(run.reported), None)
    if means is not None:
        said = {"accept_rate": means.draft_acceptance_rate, "accept_length": means.mean_acceptance_length}
        looks = [*looks[:-1], replace(looks[-1], **said)]
    return looks


def _files(archive: Path) -> Evidence:
    if not archive.exists():
        return Evidence()
    with tempfile.TemporaryDirectory() as scratch, tarfile.open(archive) as files:
        files.extractall(scratch, filter="data")
        target, draft = (read_side(str(Path(scratch) / side)) for side in ("target", "draft"))
        return Evidence(pairs=(PairChecked(tuple(check_pair(target, draft))),))
