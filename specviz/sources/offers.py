"""Which recording that comes with the package fills a panel."""

import contextlib
from dataclasses import dataclass
from pathlib import Path

from specviz.errors import SpecvizError
from specviz.runlog.fold import fold
from specviz.sources.base import TraceFile
from specviz.sources.bundled import bundled_traces
from specviz.view.panels import AnyPanel


@dataclass(frozen=True, slots=True)
class RecordingOffer:
    """A recording that shows what a panel is for."""

    name: str
    path: Path


_found: dict[str, RecordingOffer | None] = {}  # by the panel's id


def recording_for(panel: AnyPanel) -> RecordingOffer | None:
    """The one that fills the panel most, the first of several; None where none does. Reads them the first time: not for
    a moment in which a person waits."""
    if panel.id not in _found:
        _found[panel.id] = _look_for(panel)
    return _found[panel.id]


def _look_for(panel: AnyPanel) -> RecordingOffer | None:
    best: tuple[int, RecordingOffer | None] = (0, None)
    for name, path in bundled_traces().items():
        worth = _worth(panel, path)
        if worth > best[0]:
            best = (worth, RecordingOffer(name, path))
        if worth == 2:
            break
    return best[1]


def _worth(panel: AnyPanel, path: Path) -> int:
    try:
        with contextlib.closing(TraceFile(path)) as recording:
            return panel.relevance(fold(recording.poll()))
    except SpecvizError:
        return 0
