"""`Frame`: the immutable view-model of one moment; both front-ends paint it and compute nothing. `Options`: what a
person chose to look at. `Feed`: what a front-end knows about its source.

Texts are escaped and formatted, what is coloured carries a `Mark`. What a trace does not hold is None, and `—` in text.
What goes to a browser as it is is a msgspec struct, whose fields at their default are left out there.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self

import msgspec

from specviz.runlog.run import Mark, TextToken
from specviz.view.frame.judgement import NO_JUDGEMENT, RunJudgement
from specviz.view.frame.parts import Counts, KnobBar, Metric, Timeline, Why
from specviz.view.words.palette import LinkShape, Phase, StateName, Tone, ValueName


@dataclass(frozen=True, slots=True, order=True)
class Cursor:
    """A moment: the round (0-based over all queries of the run), its phase, and the tests or levels already shown."""

    index: int = 0
    phase: Phase = Phase.COMMIT
    step: int = 0


@dataclass(frozen=True, slots=True)
class RunInfo:
    """What runs, for the header line. `badge` says in words what is promised about the text, `tone` which kind that is.

    `exact`: whether rows of the target keep their bits in every pass, and if not why; "" where the run does not say.
    """

    run: str
    method: str
    shape: str  # "chain", "tree", "" when the method has no shape
    verifier: str
    tone: Tone
    badge: str
    target: str
    draft: str | None
    sampling: str  # "T .70  top-p .90"
    seed: int | None
    level: str
    overhead: str = "—"  # what the instrumentation cost, "+2.1 %"
    exact: str = ""
    pages: tuple[str, ...] = ()  # of the documents, that explain what runs

    @property
    def models(self) -> str:
        """`target ⇐ draft model`."""
        return f"{self.target} ⇐ {self.draft}" if self.draft else self.target

    @property
    def explained(self) -> str:
        """Where to read on, in a line; "" where no page explains what runs."""
        return f"explained, with the paper's own numbers: {', '.join(self.pages)}" if self.pages else ""

    @property
    def title(self) -> str:
        """What runs, in one line."""
        words = (self.models, self.method, self.shape, self.verifier, self.sampling)
        return " · ".join(word for word in words if word and word != "—")


class PlayState(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is going on: `● LIVE`, `‖ PAUSED (+3)`."""

    name: StateName
    glyph: str
    text: str
    detail: str = ""
    meanwhile: str = ""  # what is shown is this recording, which fills the time until the run itself begins


@dataclass(frozen=True, slots=True)
class Strip:
    """The text so far: prompt, committed tokens, then what this round has on the table."""

    tokens: tuple[TextToken, ...]
    n_prompt: int
    summary: str  # "147 tok"


class Values(msgspec.Struct, frozen=True, omit_defaults=True):
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
    left: float | None = None  # of the row that failed siblings left; None: none had failed, p counts


class ValueTexts(msgspec.Struct, frozen=True, omit_defaults=True):
    """The values of a node as they stand on a screen; "" where one is not known. `q`: what the draft said, q or not."""

    q: str = ""
    p: str = ""
    ratio: str = ""
    u: str = ""


class TreeNode(msgspec.Struct, frozen=True, omit_defaults=True):
    """A node where it stands: `column` is its depth, `row` from the top, both fixed for the whole round."""

    id: int
    parent: int
    column: int
    row: int
    token: int
    shown: str
    mark: Mark
    values: Values
    texts: ValueTexts
    glyph: str = ""
    word: str = ""  # the mark in a word, for screen readers
    value: str = ""  # the value of the chosen mode, ".41"
    bar: float | None = None  # 0..1 of the chosen mode
    winning: bool = False  # on the path that was kept
    cursor: bool = False
    fresh: bool = False  # came or changed in this very step
    note: str = ""  # "2 untried", "drawn"

    @property
    def depth(self) -> int:
        return self.column


@dataclass(frozen=True, slots=True)
class TreeLine:
    """A piece of line between `column` and `column + 1` in `row`."""

    column: int
    row: int
    shape: LinkShape


class Fold(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where losers were folded away: drawn at a node's place, "+ 3 other branches"."""

    column: int
    row: int
    parent: int
    n_nodes: int
    text: str


@dataclass(frozen=True, slots=True)
class MapCell:
    """A spot of the small map: the weightiest mark of the nodes there, whether any of them stands in the tree too."""

    mark: Mark
    shown: bool = True
    cursor: bool = False


@dataclass(frozen=True, slots=True)
class TreeMap:
    """The whole tree, small: a line of `cells` for some of its rows, a cell for each depth."""

    cells: tuple[tuple[MapCell | None, ...], ...]
    sizes: tuple[int, ...]  # nodes of each depth
    n_nodes: int
    n_folded: int  # that stand on the map only


@dataclass(frozen=True, slots=True)
class TreeFrame:
    """The visible nodes of the round, in id order, root first and closing token last. `missing` says why there is none.

    By (row, column) they come depth first: the order of a vertical list with the depth as indent.
    """

    nodes: tuple[TreeNode, ...]
    links: tuple[TreeLine, ...]
    folds: tuple[Fold, ...]
    n_columns: int
    n_rows: int
    column_cells: tuple[int, ...]  # widest `shown` of each column, in terminal cells
    missing: str | None = None
    map: TreeMap | None = None  # where `TreeViewport` asks for one

    def node(self, id: int) -> TreeNode | None:
        return next((n for n in self.nodes if n.id == id), None)


@dataclass(frozen=True, slots=True)
class Queue:
    """How far the view is behind what is recorded."""

    waiting: int = 0  # rounds not yet shown
    text: str = ""  # "showing 1 of 6 rounds", "+3 waiting"


@dataclass(frozen=True, slots=True)
class Frame:
    """One moment of a run."""

    run: RunInfo
    state: PlayState
    cursor: Cursor
    query: int
    round: int  # r within the query, 0 when there is none
    n_rounds: int  # rounds of that query so far
    phase: Phase
    phase_text: str  # "phase 4/6 ACCEPT/REJECT"
    step: int
    n_steps: int
    strip: Strip
    tree: TreeFrame
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
    notices: tuple[str, ...] = ()  # the last warnings and the end, newest last
    n_warnings: int = 0  # of the whole run; `specviz.view.frame.run_header` has them all
    panels: Mapping[str, Any] = field(default_factory=dict)  # models of the panels that were asked for, by id
    judgement: RunJudgement = NO_JUDGEMENT  # of the rounds that have ended
    unfit: frozenset[str] = frozenset()  # panels that this run has nothing for
    reading: float | None = None  # how much of the run a panel has read, 0 to 1; None: it is not waited for


Folding = Literal["none", "pruned", "losers"]  # what is left out of the tree: nothing, pruned nodes, all losers
FOLDINGS: tuple[Folding, ...] = ("pruned", "losers", "none")


@dataclass(frozen=True, slots=True)
class PanelOptions:
    """How the person wants to see one panel. A panel with choices of its own has a sub-class."""

    def on_seek(self) -> Self:
        """The options after the cursor moved to another moment: selections within the old round are dropped."""
        return self

    def clear_cursor(self) -> Self:
        """After escape: nothing is under the cursor."""
        return self


@dataclass(frozen=True, slots=True)
class TreeViewport:
    """The room a tree has. `rows`: lines; what does not fit is folded, the least likely first. 0: as many as it needs.

    `listed`: every node takes a line of its own. `map_rows`: lines for a small map of the whole tree.
    """

    rows: int = 0
    listed: bool = False
    map_rows: int = 0


@dataclass(frozen=True, slots=True)
class Options:
    """How the person wants to see it. `selected` None follows the action.

    `shown`: ids of the panels to work out; None: those with options in `panels`.
    """

    selected: int | None = None
    value: ValueName = "q"
    folding: Folding = "pruned"
    room: TreeViewport = TreeViewport()  # not for a tree of which nothing is to be left out
    ascii: bool = False
    panels: Mapping[str, PanelOptions] = field(default_factory=dict)  # by the panel's id
    shown: tuple[str, ...] | None = None
    staged: Mapping[str, Any] = field(default_factory=dict)  # knobs chosen, not sent
    sent: Mapping[str, Any] = field(default_factory=dict)  # knobs sent, not yet acknowledged
    patience_s: float | None = None  # for rounds a panel must read first; the frame then says how far it is

    def on_seek(self) -> "Options":
        """The options after the cursor moved: panels drop their selection."""
        return replace(self, panels={id: options.on_seek() for id, options in self.panels.items()})

    def clear_cursor(self) -> "Options":
        """Nothing is selected, and nothing is under the cursor of any panel."""
        panels = {id: options.clear_cursor() for id, options in self.panels.items()}
        return replace(self, selected=None, panels=panels)


@dataclass(frozen=True, slots=True)
class Feed:
    """What the front-end knows of the source besides its events."""

    name: Literal["idle", "loading", "open", "silent", "error", "core_lost"] = "open"
    detail: str = ""
    beside: str = ""  # text beside the state, as "7 s"
    meanwhile: str = ""  # name of a recording that fills the time
    steerable: bool = False  # knobs can be sent: a worker listens
    held: bool = False  # the core was asked to pause
