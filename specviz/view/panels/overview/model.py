"""What the overview of a run shows at a moment: its judgement, numbers with their meaning, curves, where time goes."""

from dataclasses import dataclass, replace
from typing import Self

from specviz.view.frame.frame import PanelOptions
from specviz.view.frame.judgement import NO_JUDGEMENT, RunJudgement
from specviz.view.frame.parts import Metric, Series


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
class OverviewModel:
    """A run in numbers. `histogram`: (accepted tokens, rounds)."""

    judgement: RunJudgement = NO_JUDGEMENT
    metrics: tuple[Metric, ...] = ()
    curves: tuple[Series, ...] = ()
    calibration: tuple[CalibrationRow, ...] = ()
    stages: tuple[Stage, ...] = ()
    time_words: str = ""
    roof_words: str = ""  # a round against what its machine allows; empty: not known
    histogram: tuple[tuple[int, int], ...] = ()
    finding: int | None = None
    missing: str | None = None
