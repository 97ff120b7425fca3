"""`GlancePanel`: where drafted tokens are kept, how the target ranks them, and where a round's time goes; for the room
beside a tree."""

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from specviz.numerals import number, percent
from specviz.runlog.fold import Run
from specviz.view.frame.frame import PanelOptions
from specviz.view.frame.parts import Series
from specviz.view.frame.series import one_series
from specviz.view.panels import CachedValue, Panel, PanelContext

if TYPE_CHECKING:
    from specviz.metrics import Metrics

_CURVES = ("position_acceptance", "survival")  # the first that the run has
_RECENT = 100  # rounds whose ranks are counted
_EDGES = ((1, "1st"), (4, "2nd to 4th"), (10, "5th to 10th"))
_BEYOND = "11th on"


@dataclass(frozen=True, slots=True)
class GlanceBar:
    """A labelled bar. `fill` 0..1."""

    label: str
    fill: float
    text: str


@dataclass(frozen=True, slots=True)
class Glance:
    """`curve`: kept tokens by place, with intervals. `ranks`: of judged tokens in the target's row, in the last rounds.
    `stages`: median time of each part of a round."""

    missing: str | None = None
    curve: Series | None = None
    ranks: tuple[GlanceBar, ...] = ()
    stages: tuple[GlanceBar, ...] = ()


class GlancePanel(Panel[PanelOptions, Glance]):
    """Of one run."""

    id, title = "glance", "At a glance"

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self._made = CachedValue[Glance]()

    def empty(self, reason: str) -> Glance:
        return Glance(reason)

    def window(self, index: int) -> range:
        return range(max(0, index + 1 - _RECENT), index + 1)

    def build(self, scene: PanelContext, options: PanelOptions) -> Glance:
        """Over the rounds so far; ranks of those up to the one on screen."""
        record, metrics = scene.record, scene.metrics
        key = (record.index, record.stamp, None if metrics is None else metrics.n_rounds)
        return self._made.of(key, lambda: self._make(record.index, metrics))

    def _make(self, index: int, metrics: "Metrics | None") -> Glance:
        curves = [curve for name in _CURVES if not (curve := one_series(name, metrics)).missing]
        return Glance(None, curves[0] if curves else None, self._ranks(index), _stages(metrics))

    def _ranks(self, index: int) -> tuple[GlanceBar, ...]:
        """How the target ranks the tokens it judged."""
        counts = Counter[str]()
        for record in self.run.rounds[max(0, index + 1 - _RECENT) : index + 1]:
            here = [v.rank_p for v in record.verdicts.values() if v.order is not None and v.rank_p is not None]
            counts.update(next((label for most, label in _EDGES if rank <= most), _BEYOND) for rank in here)
        total = counts.total()
        if not total:
            return ()
        labels = (*(label for _, label in _EDGES), _BEYOND)
        return tuple(GlanceBar(label, counts[label] / total, percent(counts[label] / total)) for label in labels)


def _stages(metrics: "Metrics | None") -> tuple[GlanceBar, ...]:
    times = {name: at.value for name, at in metrics.stage_ms.items()} if metrics is not None else {}
    times = {name: ms for name, ms in times.items() if name != "prefill" and ms > 0}
    most = max(times.values(), default=0.0)
    return tuple(GlanceBar(name, ms / most, f"{number(ms)} ms") for name, ms in times.items())
