"""`Frame`: the immutable view-model of one moment. Both front-ends paint it and compute nothing.

Everything textual is already escaped (`specviz.text`) and formatted; everything coloured carries a `Mark`, whose glyph, hex
and words are in `specviz.view.palette`. What a trace does not hold is None here and `—` in its text: never a guess.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Literal

ROOT, CLOSING = -1, -2  # node ids of the root and of the token a round closes with

Mark = Literal[
    "root", "drafted", "testing", "accepted", "rejected", "recovered", "bonus", "untested", "pruned", "exit", "prompt"
]
StateName = Literal["idle", "loading", "live", "paused", "replay", "ended", "lag", "error", "core_lost"]
ValueName = Literal["q", "p", "p/q", "u", "rank"]
VALUE_MODES: tuple[ValueName, ...] = ("q", "p", "p/q", "u", "rank")
LinkShape = Literal["line", "tee", "branch", "corner", "bar"]  # ─── ─┬─ ├─ └─ │


class Phase(IntEnum):
    """The six phases of a round, in order."""

    ROOT = 1
    DRAFT = 2
    VERIFY = 3
    ACCEPT = 4
    CLOSE = 5
    COMMIT = 6


PHASE_WORDS: dict[Phase, str] = {
    Phase.ROOT: "ROOT", Phase.DRAFT: "DRAFT", Phase.VERIFY: "VERIFY", Phase.ACCEPT: "ACCEPT/REJECT",
    Phase.CLOSE: "RESAMPLE/BONUS", Phase.COMMIT: "COMMIT",
}  # fmt: skip


@dataclass(frozen=True, slots=True, order=True)
class Cursor:
    """A moment: the round (0-based over all queries of the run), its phase, and the tests or levels already shown."""

    index: int = 0
    phase: Phase = Phase.COMMIT
    step: int = 0


@dataclass(frozen=True, slots=True)
class RunInfo:
    """What runs, for the header line. `badge` says in words what is promised about the text."""

    run: str
    method: str
    shape: str  # "chain", "tree", "" when the method has no shape
    verifier: str
    lossless: bool
    badge: str
    target: str
    draft: str | None
    sampling: str  # "T .70  top-p .90"
    seed: int | None
    level: str
    imported: str | None = None
    overhead: str = "—"  # what the instrumentation cost, "+2.1 %"


@dataclass(frozen=True, slots=True)
class State:
    """What is going on: `● LIVE`, `⏸ PAUSED (+3)`."""

    name: StateName
    glyph: str
    text: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class TextToken:
    """One token of the text strip. `shown` marks spaces, `running` keeps them. `round` 0 is the prompt."""

    shown: str
    running: str
    token: int
    mark: Mark
    glyph: str
    round: int
    pos: int
    node: int | None = None  # the drafted node it came from, when recorded
    provisional: bool = False  # drafted or accepted, not yet committed
    fresh: bool = False  # committed by the round that is shown
    breaks: bool = False  # a round begins here


@dataclass(frozen=True, slots=True)
class Strip:
    """The text so far: prompt, committed tokens, then what this round has on the table."""

    tokens: tuple[TextToken, ...]
    n_prompt: int
    n_new: int
    summary: str  # "147 tok"


@dataclass(frozen=True, slots=True)
class Values:
    """The numbers of a node as far as they are known at this phase; linear, not logs."""

    p: float | None = None
    q: float | None = None
    ratio: float | None = None
    u: float | None = None
    thr: float | None = None
    rank: int | None = None
    conf: float | None = None
    lo: float | None = None  # CDF interval of a draw
    hi: float | None = None
    point_mass: bool = False  # q is 1 at this token


@dataclass(frozen=True, slots=True)
class TreeNode:
    """A node where it stands: `column` = depth, `row` from the top, both fixed for the whole round."""

    id: int
    parent: int
    depth: int
    column: int
    row: int
    token: int
    shown: str
    mark: Mark
    glyph: str
    word: str  # the mark in a word, for screen readers
    values: Values
    value: str  # the value of the chosen mode, ".41"
    bar: float | None  # 0..1 of the chosen mode
    winning: bool = False  # on the path that was kept
    cursor: bool = False
    fresh: bool = False  # came or changed in this very step
    note: str = ""  # "+ 2 never", "drawn"


@dataclass(frozen=True, slots=True)
class Link:
    """A piece of line between `column` and `column + 1` in `row`."""

    column: int
    row: int
    shape: LinkShape


@dataclass(frozen=True, slots=True)
class Fold:
    """Where losers were folded away: drawn at a node's place, "+ 3 other branches"."""

    column: int
    row: int
    parent: int
    n_nodes: int
    text: str


@dataclass(frozen=True, slots=True)
class Tree:
    """The visible nodes of the round, in id order, root first. `missing` says why there is none."""

    nodes: tuple[TreeNode, ...]
    links: tuple[Link, ...]
    folds: tuple[Fold, ...]
    n_columns: int
    n_rows: int
    column_cells: tuple[int, ...]  # widest `shown` of each column, in terminal cells
    flash: bool = False  # the target pass of phase 3
    missing: str | None = None

    def node(self, id: int) -> TreeNode | None:
        """The visible node of that id."""
        return next((n for n in self.nodes if n.id == id), None)


@dataclass(frozen=True, slots=True)
class WhyRow:
    """A line of numbers in the why panel. `bar` 0..1."""

    label: str
    value: str
    bar: float | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class ResidualEntry:
    """A token of the row the closing token was drawn from."""

    shown: str
    prob: float
    text: str
    drawn: bool
    drafted: bool
    p: float | None = None
    q: float | None = None


@dataclass(frozen=True, slots=True)
class Residual:
    """What was left to draw from after a rejection (or the plain row of a bonus)."""

    title: str  # "Residual max(0, p − q): mass .38"
    mass: float | None
    entries: tuple[ResidualEntry, ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Flip:
    """The smallest change of u that changes the verdict. The decision only: the text after it may differ."""

    text: str
    lo: float
    hi: float
    delta: float  # signed distance from u to the nearest edge of [lo, hi)
    caveat: str = "decision only, later text may differ"


@dataclass(frozen=True, slots=True)
class Why:
    """Why a node is what it is. Before its test is shown, `words` says what will decide."""

    node: int
    title: str  # 'n14 "▁mat"'
    mark: Mark
    glyph: str
    headline: str  # "REJECTED · depth 3 · test 3 of 4"
    rule: str
    rows: tuple[WhyRow, ...]
    words: str
    residual: Residual | None = None
    cost: str | None = None
    flip: Flip | None = None
    rank: str | None = None
    decided: bool = True
    record: dict[str, Any] | None = None  # plain JSON of the node, for `y`

    @property
    def has_verdict(self) -> bool:
        """Whether the verdict may be shown at this phase."""
        return self.decided


@dataclass(frozen=True, slots=True)
class Counts:
    """The line under the tree."""

    text: str  # "12 drafted · tested 4: ✓2 ✗2 · never tested 8 · drawn ↻1"
    n_drafted: int | None
    n_tested: int | None
    n_accepted: int | None
    n_rejected: int | None
    n_untested: int | None
    closing: Mark | None


@dataclass(frozen=True, slots=True)
class KnobItem:
    """A knob of the bar. `staged`: chosen, not sent; `sent`: sent, not yet acknowledged; else None."""

    name: str
    symbol: str
    kind: str
    value: Any
    text: str
    fill: float | None  # place of the value in its range, 0..1
    lo: float | None
    hi: float | None
    choices: tuple[str, ...]
    default: Any
    help: str
    applies: Literal["R", "Q", "X"]
    applies_text: str  # "next round"
    changes_text: bool  # it changes the text's law (T) or is lossy (L)
    lossy: bool = False
    staged: Any = None
    staged_text: str | None = None
    sent: Any = None
    sent_text: str | None = None
    disabled: str | None = None  # the reason, or None


@dataclass(frozen=True, slots=True)
class KnobBar:
    """All knobs, the pending line and the last change."""

    items: tuple[KnobItem, ...]
    pending: str  # "pending d_max 5→6", "" when nothing
    last: str  # "last r29: w_max 4→3", "" when nothing
    mixed: bool = False  # sampling changed within the run


@dataclass(frozen=True, slots=True)
class Metric:
    """A number of `specviz.metrics` with its interval. `name` is the contract's, `label` the short one on screen."""

    name: str
    label: str
    value: float | None
    text: str
    half: float | None = None  # half width of the 95 % interval
    help: str = ""


@dataclass(frozen=True, slots=True)
class RoundPoint:
    """A round on the time line."""

    index: int
    q: int
    r: int
    n_emitted: int | None
    n_accepted: int | None
    n_drafted: int | None
    rejected: bool
    markers: str = ""  # any of ◆ knob change, ⚑ bookmark, ⚠ warning


@dataclass(frozen=True, slots=True)
class Timeline:
    """Every round, and where we are. The tuple is shared between frames as long as no round comes."""

    points: tuple[RoundPoint, ...]
    index: int
    bars: str  # one sparkline character per round
    label: str  # "r37/37"


@dataclass(frozen=True, slots=True)
class Queue:
    """How far the view is behind what is recorded."""

    waiting: int = 0  # rounds not yet shown
    skipped: int = 0
    text: str = ""  # "showing 1 of 6 rounds", "+3 waiting"


@dataclass(frozen=True, slots=True)
class Frame:
    """One moment of a run."""

    run: RunInfo
    state: State
    cursor: Cursor
    query: int
    round: int  # r within the query, 0 when there is none
    n_rounds: int  # rounds of that query so far
    phase: Phase
    phase_text: str  # "phase 4/6 ACCEPT/REJECT"
    step: int
    n_steps: int
    strip: Strip
    tree: Tree
    counts: Counts
    why: Why | None
    knobs: KnobBar
    metrics: tuple[Metric, ...]
    timeline: Timeline
    queue: Queue
    value_mode: ValueName
    selected: int | None
    speed: float
    following: bool
    notices: tuple[str, ...] = ()  # warnings and the end, newest last
