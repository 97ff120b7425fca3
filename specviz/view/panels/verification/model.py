"""What the screens *HSD* and *Verification* show: one draft scanned backward, and the same rules over the whole run.

Plain values, as in `specviz.view.frame.frame`: texts are escaped and formatted, None is unknown. `missing` of the whole
and of a part say in a sentence why it is empty.
"""

import math
from dataclasses import dataclass

from specviz.runlog.run import Mark
from specviz.view.blocks import Plot
from specviz.view.frame.parts import Metric


@dataclass(frozen=True, slots=True)
class ScanColumn:
    """Position `t` of the draft. Numbers are linear; a joint ratio is a log too, for it may be of any size."""

    t: int
    node: int
    shown: str
    mark: Mark
    glyph: str
    log_r: float | None
    log_c: float | None
    d_plus: float | None
    d_minus: float | None
    h: float | None  # the keep chance the scan uses
    u: float | None
    passes: bool | None  # its test by itself
    implied: bool  # kept because a longer prefix passed
    decided: bool  # its verdict is on screen
    stop: bool
    fresh: bool
    cursor: bool

    @property
    def c(self) -> float | None:
        """The ratio under its cap, linear."""
        return None if self.log_c is None else math.exp(self.log_c)

    @property
    def alone_failed(self) -> bool:
        """Kept, though its own test would have failed: what a backward scan gains."""
        return self.implied and self.passes is False


@dataclass(frozen=True, slots=True)
class ScanRow:
    """A line of the table: one cell per column, and how to read it."""

    key: str
    label: str
    cells: tuple[str, ...]
    help: str


@dataclass(frozen=True, slots=True)
class Scan:
    """The table of a backward scan, right to left. `words`: the sentence on the column under the cursor."""

    title: str
    columns: tuple[ScanColumn, ...]
    rows: tuple[ScanRow, ...]
    words: str
    note: str = ""  # what this recording does not hold


@dataclass(frozen=True, slots=True)
class RatioStairs:
    """The ratio staircase: `log_r`, its running maximum, and `log_c` below zero; None is minus infinity.

    `xs` are positions 0..gamma, position 0 the root, where all three are 0.
    """

    xs: tuple[int, ...]
    log_r: tuple[float | None, ...]
    cap: tuple[float, ...]
    log_c: tuple[float | None, ...]
    words: str


@dataclass(frozen=True, slots=True)
class PrefixMass:
    """The continuations of a prefix of `t` tokens: mass both agree on, target mass missing, draft mass in excess."""

    t: int
    shown: str  # "after ▁work"
    agreed: float
    d_plus: float
    d_minus: float
    stop: bool


@dataclass(frozen=True, slots=True)
class WeighedToken:
    """A token of the row the closing token was drawn from: p and q, both as they are weighed, and what is left."""

    shown: str
    p: float
    q: float | None
    weighed_p: float  # c·p
    weighed_q: float | None  # q; q/r for naive HSD where r > 1
    left: float  # max(0, weighed_p - weighed_q)
    share: float  # of the draw
    text: str
    drawn: bool
    drafted: bool


@dataclass(frozen=True, slots=True)
class ClosingRow:
    """The residual at the stop against p and q."""

    title: str
    p_label: str
    q_label: str
    entries: tuple[WeighedToken, ...]
    words: str
    missing: str | None = None


@dataclass(frozen=True, slots=True)
class RuleReplay:
    """What one rule does with this draft and these uniforms."""

    rule: str
    label: str
    own: bool
    keep: tuple[float | None, ...]
    marks: tuple[Mark, ...]  # what becomes of every position
    kept: int | None
    expected: float | None  # of this draft, over the uniforms alone; None: unknown
    text: str  # "keeps 4 of 6"
    note: str = ""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Rules on the same draft and uniforms."""

    us: tuple[float | None, ...]
    tokens: tuple[str, ...]
    rules: tuple[RuleReplay, ...]
    words: str
    missing: str | None = None


@dataclass(frozen=True, slots=True)
class Paired:
    """Over the run: how many tokens more than tokenwise a rule keeps, draft by draft."""

    rule: str
    label: str
    gain: Metric  # with its 95 % interval
    expected: float | None
    counts: tuple[tuple[int, int], ...]  # (difference, drafts)
    words: str
    missing: str | None = None


@dataclass(frozen=True, slots=True)
class VerificationModel:
    """Everything about the verdict on one draft. `missing`: why there is no scan in this round."""

    missing: str | None
    scan: Scan | None
    stairs: RatioStairs | None
    branches: tuple[PrefixMass, ...]
    branches_missing: str | None
    closing: ClosingRow | None
    comparison: Comparison | None
    survival: Plot | None  # drafts of which at least so many tokens were kept, beside what every rule must give
    paired: tuple[Paired, ...]
