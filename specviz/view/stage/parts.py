"""What the stage is given: a run that can be played without working anything out, as JSON.

`StageRun` stands once: the run, its text, its time line. `StageRound` is one round: its nodes where they stand, and
its moments in order. Nodes, reasons and numbers are the records of the frame. Fields at their default are left out.
"""

import msgspec

from specviz.runlog.run import TextToken
from specviz.view.frame.frame import Fold, TreeNode
from specviz.view.frame.parts import Counts, KnobItem, Metric, Why
from specviz.view.words.palette import Tone

VERSION = 3  # of these records; the painter refuses another one

Token = tuple[str, str, int]  # text as it reads, mark, node it came from (-3: not recorded)
UNRECORDED = -3


class MarkStyle(msgspec.Struct, frozen=True):
    """How a mark is drawn: glyph, colour on a dark and on a light background, and its name for screen readers."""

    glyph: str
    word: str
    dark: str
    light: str


class StageQuery(msgspec.Struct, frozen=True, omit_defaults=True):
    """One prompt: the text the model was given, and the rounds that went on from it, by index over the run."""

    first: int
    n_rounds: int
    prompt: str
    n_prompt: int = 0  # tokens, with the template
    domain: str = ""


class TimelinePoint(msgspec.Struct, frozen=True, omit_defaults=True):
    """A round on the time line, with the text it wrote. `markers`: any of ◆ knob change, ⚑ bookmark, ⚠ warning."""

    place: str  # as in the page's address: "r37", "q1/r3"
    n: int = 0  # tokens written
    rejected: bool = False
    markers: str = ""
    tokens: tuple[Token, ...] = ()


class StagePart(msgspec.Struct, frozen=True, omit_defaults=True):
    """A block as text: words, and lines under heads."""

    title: str = ""
    words: str = ""
    heads: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()


class StagePanel(msgspec.Struct, frozen=True):
    """A panel that is nothing but blocks, as it stands at the end of the run."""

    title: str
    parts: tuple[StagePart, ...]


class StageRun(msgspec.Struct, frozen=True, omit_defaults=True):
    """The run as a whole."""

    version: int
    name: str  # of the trace, for the page's title
    title: str
    badge: str
    tone: Tone
    facts: str  # "seed 42 · 21 rounds · recorded: full"
    metrics: tuple[Metric, ...]
    phases: tuple[str, ...]  # the words of the six phases
    marks: dict[str, MarkStyle]
    knobs: tuple[KnobItem, ...]
    queries: tuple[StageQuery, ...]
    points: tuple[TimelinePoint, ...]
    absent: tuple[tuple[str, str], ...] = ()  # well-known knobs that the method lacks, each with the reason
    notices: tuple[str, ...] = ()
    explained: str = ""  # where to read on
    more: bool = False  # the recording is longer than what was read of it: see `TimelinePage`
    panels: tuple[StagePanel, ...] = ()  # of a saved page


class TimelinePage(msgspec.Struct, frozen=True, omit_defaults=True):
    """The part of a long recording that was read since the last request: time line from a round on, and all prompts so
    far.
    """

    points: tuple[TimelinePoint, ...]
    queries: tuple[StageQuery, ...]
    more: bool = False


class StageMoment(msgspec.Struct, frozen=True, omit_defaults=True):
    """What of a frame changes within a round. `nodes`: those on the canvas, `whys`: the reasons of each, `texts`: what
    is not committed yet; by their places among those of the round. `fresh`: ids of nodes that this moment changes."""

    phase: int
    phase_text: str  # "phase 4/6 ACCEPT/REJECT"
    sentence: str  # a sentence for the caption and screen readers
    selected: int  # the node that something just happened to
    counts: Counts
    nodes: tuple[int, ...]
    whys: tuple[int, ...]
    texts: tuple[int, ...] = ()
    fresh: tuple[int, ...] = ()


class StageRound(msgspec.Struct, frozen=True, omit_defaults=True):
    """One round. `looks`, `whys`, `texts`: every node, reason and token as some moment has it, each once. `knobs`: of
    every knob of the head, as it was in force: its value, its place in its range (0..1), and whether it does nothing
    with the others as they are. `badges`: where nodes came from, where that is asked for."""

    index: int
    place: str
    n_columns: int
    n_rows: int
    looks: tuple[TreeNode, ...]
    moments: tuple[StageMoment, ...]
    whys: tuple[Why, ...]
    texts: tuple[TextToken, ...]
    knobs: tuple[tuple[str, float | None, bool], ...]
    changes: tuple[tuple[str, str, str], ...] = ()  # knobs that took effect here: label, old, new
    last: str = ""  # the last change and what it did since
    missing: str = ""  # why there is no draft to see
    open: bool = False  # more of it may come
    folds: tuple[Fold, ...] = ()
    badges: dict[int, str] = {}  # "b1·s0 #1"


class LiveUpdate(msgspec.Struct, frozen=True, omit_defaults=True):
    """State of a live run: where its picture is for viewers who follow it, and what arrived last.

    `index` -1: no round yet. `stamp` changes whenever the round did. `points` begin at round index `first`.
    """

    run: str
    index: int
    k: int
    stamp: str
    ms: float  # that a moment is looked at; 0: as the core goes
    n: int
    n_queries: int
    first: int
    points: tuple[TimelinePoint, ...]
    title: str
    badge: str
    tone: Tone
    metrics: tuple[Metric, ...]
    facts: str
    knobs: tuple[KnobItem, ...]
    last: str = ""
    still: bool = False  # the round has ended


class WhatIfKnob(msgspec.Struct, frozen=True, omit_defaults=True):
    """A knob that may be another: as it was in force, or as it is asked for. `cuts`: it leaves a part of the draft,
    whatever rule decides; `alone`: it is replayed from the recorded text, with nothing else changed."""

    knob: KnobItem
    cuts: bool = False
    alone: bool = False


class StageWhatIf(msgspec.Struct, frozen=True, omit_defaults=True):
    """A round again. `verifiers`: those that take its draft; `verifier`: the one that decides; `own`: the run's.

    `lossy`: those of them that do not keep the target's law. `draws`: uniforms of the tests, by node. `warns`: what the
    change does to the law of the text; `missing`: why knobs that the method is known by cannot be tried here. `round`:
    None where nothing is changed, or nothing can be told.
    """

    own: str
    verifier: str
    verifiers: tuple[str, ...]
    knobs: tuple[WhatIfKnob, ...]
    draws: dict[str, float]
    change: str = ""
    sentence: str = ""
    decided: bool = False
    note: str = ""
    lossy: tuple[str, ...] = ()
    warns: str = ""
    missing: str = ""
    round: StageRound | None = None
