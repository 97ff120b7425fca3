"""What the overview of a run shows at a moment: its judgement, numbers with their meaning, curves, where time goes."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Self

from specviz.runlog.run import Mark
from specviz.view.frame.frame import PanelOptions, RunInfo
from specviz.view.frame.judgement import NO_JUDGEMENT, RunJudgement
from specviz.view.frame.parts import Metric, Series
from specviz.view.frame.run_header import NOTHING


@dataclass(frozen=True, slots=True)
class OverviewOptions(PanelOptions):
    """`finding`: the one under the cursor; None: none."""

    finding: int | None = None

    def let_go(self) -> Self:
        return replace(self, finding=None)


@dataclass(frozen=True, slots=True)
class Stage:
    """Median time of one stage of a round; `prefill` over queries. `share`: of all stages of a round together."""

    name: str
    ms: float
    text: str
    share: float | None = None


@dataclass(frozen=True, slots=True)
class CalibrationRow:
    """Drafted tokens whose probability by the draft lies in a band: what draft and target gave them, what was kept."""

    band: str  # ".75 to .9"
    n: int
    q: float
    p: float
    kept: float
    texts: tuple[str, str, str, str]  # q, p, kept, and q - p with its interval


@dataclass(frozen=True, slots=True)
class Histogram:
    """Rounds by accepted tokens, beside what one constant acceptance probability would give."""

    counts: tuple[tuple[int, int], ...] = ()
    expected: tuple[tuple[int, float], ...] = ()
    alpha: str = ""  # ".71", "" when there is no fit
    missing: str | None = None


@dataclass(frozen=True, slots=True)
class Overview:
    """A run in numbers; empty parts say why they are. `missing`: no round has ended yet."""

    info: RunInfo = NOTHING
    n_rounds: int = 0
    judgement: RunJudgement = NO_JUDGEMENT
    metrics: tuple[Metric, ...] = ()
    series: Mapping[str, Series] = field(default_factory=dict)
    calibration: tuple[CalibrationRow, ...] = ()
    stages: tuple[Stage, ...] = ()
    drafting_share: str = ""  # of a round
    overhead: str = ""  # what recording cost
    histogram: Histogram = Histogram()
    marks: tuple[tuple[Mark, int], ...] = ()  # drafted tokens by what became of them
    finding: int | None = None
    missing: str | None = None

    @property
    def curves(self) -> tuple[Series, ...]:
        """Acceptance by position, by depth where that is another number (on a chain it is not), and survival."""
        found: list[Series] = []
        for name in ("position_acceptance", "depth_acceptance", "survival"):
            curve = self.series.get(name)
            if curve is not None and curve.xs and not any(_alike(curve, other) for other in found):
                found.append(curve)
        return tuple(found)


def _alike(one: Series, other: Series) -> bool:
    return one.values == other.values and one.ns == other.ns
