"""What the overview of a run shows at a moment: its judgement, then its numbers, acceptance and times as blocks."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Self

from specviz.view.blocks import Block, Facts, Plot, TableBlock, Words
from specviz.view.frame.frame import PanelOptions
from specviz.view.frame.judgement import NO_JUDGEMENT, RunJudgement


@dataclass(frozen=True, slots=True)
class OverviewOptions(PanelOptions):
    """`finding`: the one under the cursor; None: none."""

    finding: int | None = None

    def clear_cursor(self) -> Self:
        return replace(self, finding=None)


@dataclass(frozen=True, slots=True)
class RunBlocks:
    """The numbers of a run. `curves`: acceptance by position and depth, survival, long rounds."""

    numbers: Facts
    marks: Plot  # drafted tokens by what became of them
    curves: tuple[Plot, ...]
    calibration: TableBlock
    histogram: Plot  # rounds by kept tokens
    stages: Plot
    timing: Words

    def __iter__(self) -> Iterator[Block]:
        yield self.numbers
        yield self.marks
        yield from self.curves
        yield self.histogram
        yield self.stages
        yield self.timing
        yield self.calibration

    @property
    def acceptance(self) -> list[Plot]:
        """By position, by depth where that is another number (on a chain it is not); else survival."""
        named = {curve.key: curve for curve in self.curves if not curve.missing}
        plots: list[Plot] = []
        for name in ("position_acceptance", "depth_acceptance"):
            curve = named.get(name)
            if curve is not None and not any(curve.curves == other.curves for other in plots):
                plots.append(curve)
        return plots or [named[name] for name in ("survival",) if name in named]


@dataclass(frozen=True, slots=True)
class Overview:
    """A run in numbers. `missing`: no round has ended yet, and there are no blocks."""

    judgement: RunJudgement = NO_JUDGEMENT
    blocks: RunBlocks | None = None
    finding: int | None = None
    missing: str | None = None
