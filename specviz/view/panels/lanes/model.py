"""What the screen and page *Lanes* show: who worked when, who waited, what was drafted for nothing, and why.

Plain values, as in `specviz.view.frame.frame`: texts are escaped and formatted, None is unknown. Times are seconds from
the beginning of the clock. A chart is of one clock, the measured or the modelled one, and says which; never both.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from specviz.runlog.run import Mark
from specviz.view.blocks import Block
from specviz.view.frame.frame import PanelOptions
from specviz.view.frame.parts import WhyRow
from specviz.view.words.palette import BlockKind

if TYPE_CHECKING:
    from specviz.view.panels.lanes.payoff import PayPanel

Clock = Literal["measured", "model"]
CLOCKS: tuple[Clock, ...] = ("measured", "model")
Fate = Literal["accepted", "rejected", "orphaned", "branch_lost", "branch_void", "trimmed", "unverified_at_end"]
FATES: dict[Fate, tuple[Mark, str]] = {
    "accepted": ("accepted", "became text"),
    "rejected": ("rejected", "rejected"),
    "orphaned": ("untested", "behind a rejected token"),
    "branch_lost": ("untested", "in a branch that lost"),
    "branch_void": ("rejected", "in a branch whose start fell or was missed"),
    "trimmed": ("pruned", "trimmed: the draft was unsure there"),
    "unverified_at_end": ("untested", "open when the text ended"),
}


@dataclass(frozen=True, slots=True)
class LaneBlock:
    """A stretch of one lane. `at`: (round over the run, lane, place in it). `void`: nothing that came of it is text."""

    at: tuple[int, str, int]
    lane: str
    kind: BlockKind
    round: int
    t0: float
    t1: float
    size: int  # rows of the forward
    nodes: tuple[int, ...]  # tokens drawn from it
    shown: str  # those tokens, or what it does
    void: bool
    open: bool  # not settled yet
    useful: float  # share of its tokens that became text, 0..1; 1 where nothing was drawn
    why: str = ""  # what an idle lane waits for
    kept: bool = False  # a branch that survived
    forwards: int = 1  # a whole draft may be one span

    @property
    def took(self) -> float:
        """Seconds."""
        return self.t1 - self.t0


@dataclass(frozen=True, slots=True)
class Lane:
    """A row of the chart. `text`: busy share, or what became of a branch."""

    key: str
    label: str
    device: str
    branch: bool
    text: str


@dataclass(frozen=True, slots=True)
class LaneOptions(PanelOptions):
    """What was chosen in the panel."""

    clock: Clock = "measured"
    block: tuple[int, str, int] | None = None  # `LaneBlock.at` of the block under the cursor; None: the selected node's

    def on_seek(self) -> "LaneOptions":
        """The selected node's block again."""
        return replace(self, block=None)

    clear_cursor = on_seek


@dataclass(frozen=True, slots=True)
class Arrow:
    """From a verify block to what it voided; places in `Chart.blocks`."""

    source: int
    targets: tuple[int, ...]
    round: int
    words: str


@dataclass(frozen=True, slots=True)
class RoundSpan:
    """A round on the time axis."""

    index: int
    round: int
    t0: float
    t1: float
    text: str  # "draft 3.0 → verify 12.4 ‖ draft 9.1 ms"


@dataclass(frozen=True, slots=True)
class Chart:
    """The lanes over some rounds, the one on screen last. `missing`: why this clock has nothing."""

    clock: Clock
    clock_text: str  # which clock, and how far to trust it
    lanes: tuple[Lane, ...]
    blocks: tuple[LaneBlock, ...]
    arrows: tuple[Arrow, ...]
    rounds: tuple[RoundSpan, ...]
    t0: float
    t1: float
    cursor: int | None  # into blocks
    missing: str | None = None
    unit: str = "ms"  # of the axis
    scale: float = 1e3  # from seconds to that unit


@dataclass(frozen=True, slots=True)
class BlockInfo:
    """The block under the cursor, in numbers and in words."""

    title: str
    mark: Mark
    rows: tuple[WhyRow, ...]
    words: str
    node: int | None


@dataclass(frozen=True, slots=True)
class LanesModel:
    """Everything about lanes at one moment. `missing`: why there is nothing at all.

    `steps`: how sure the draft was before every token, against the bound that stops it, where there is one; `fan`:
    where branches left the pending tokens; `hrad`: what the classifier said, here and over the run.
    """

    missing: str | None
    chart: Chart | None = None
    steps: tuple[Block, ...] = ()
    fan: tuple[Block, ...] = ()
    hrad: tuple[Block, ...] = ()
    block: BlockInfo | None = None
    summary: tuple[WhyRow, ...] = ()  # run-level numbers of this clock
    pay: "PayPanel | None" = None  # tokens a second by draft length, from what was measured
