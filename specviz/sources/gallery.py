"""`gallery_card(path)`: a recording at a glance, for a list of them: its question, its numbers, its rounds as bars."""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from specviz.errors import SpecvizError
from specviz.runlog.fold import fold
from specviz.sources.trace_summary import TraceSummary, trace_summary
from specviz.trace import read_events
from specviz.view.panels.overview.build import overview

MOST_BARS = 48  # rounds of a card, the first ones
_LARGEST = 8 << 20  # bytes of a file that is read for its card
_KEPT = "accepted / drafted"


@dataclass(frozen=True, slots=True)
class GalleryCard:
    """Texts are escaped. `numbers`: label and value; `bars`: a round each, tokens kept of its draft, and written."""

    summary: TraceSummary
    numbers: tuple[tuple[str, str], ...]
    pays: str  # "1.7× plain decoding (measured)"
    bars: tuple[tuple[int, int], ...]


@lru_cache(maxsize=64)
def _card(path: Path, changed_ns: int) -> GalleryCard | None:
    summary = trace_summary(path)
    if summary is None:
        return None
    try:
        run = fold(read_events(path))
    except SpecvizError:
        return None
    run_overview = overview(run)
    rows = {row.label: row.value for row in run_overview.blocks.numbers.rows} if run_overview.blocks is not None else {}
    points = [run.rounds.point(index) for index in range(min(MOST_BARS, len(run.rounds)))]
    return GalleryCard(
        summary,
        tuple((label, rows[label]) for label in ("tokens per round", _KEPT) if label in rows),
        run_overview.judgement.speed_text,
        tuple((point.n_accepted or 0, point.n_emitted or 0) for point in points),
    )


def gallery_card(path: Path) -> GalleryCard | None:
    """The card of a recording, worked out once as long as the file stays as it is; None for what is no run, or long."""
    try:
        stat = path.stat()
        return _card(path, stat.st_mtime_ns) if stat.st_size <= _LARGEST else None
    except OSError:
        return None
