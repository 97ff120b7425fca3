"""What the screen and page *Ranks* show: who offered a node, ranks of the target's tokens, what width cost and brought.

An *expansion* is one (block, slot) distribution at one parent node; ranks belong to expansions, since a node may be
offered by several. Figures *on the path* are conditional on a right prefix, those over *all kept* parents are not.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from specviz.runlog.run import Mark
from specviz.view.blocks import Facts, Heat, Plot, TableBlock
from specviz.view.frame.frame import PanelOptions
from specviz.view.frame.parts import WhyRow
from specviz.view.words.palette import RankCost as Cost

BUCKETS: tuple[str, ...] = ("1", "2–4", "5–10", ">10")
BUCKET_WORDS: tuple[str, ...] = ("right already", "narrow miss", "wide miss", "give up")

# Of the target's token at an expansion: a kept child, a child that the budget pruned, no child; the parent has no row.
Outcome = Literal["kept", "pruned", "outside", "unknown"]
OUTCOMES: dict[Outcome, tuple[Mark, str]] = {
    "kept": ("accepted", "among the children"),
    "pruned": ("pruned", "among the children, but pruned by the budget"),
    "outside": ("rejected", "not among the children"),
    "unknown": ("untested", "the target never looked here"),
}
COSTS: dict[Cost, tuple[Mark, str]] = {
    "right": ("accepted", "right bucket"),
    "narrow": ("rejected", "too narrow: the target's token may not be offered, and the round ends there"),
    "wide": ("recovered", "too wide: nodes that buy nothing"),
    "gave_up": ("rejected", "stopped widening within reach: no siblings, and the block goes no further"),
}


@dataclass(frozen=True, slots=True)
class RankFilter:
    """Which expansions are counted. None: all."""

    block: int | None = None  # 1-based
    slot: int | None = None  # 0-based
    path_only: bool = False


@dataclass(frozen=True, slots=True)
class RankOptions(PanelOptions):
    """What was chosen in the panel."""

    filter: RankFilter = RankFilter()
    cell: tuple[int, int] | None = None  # predicted and true bucket under the cursor
    entry: int | None = None  # the expansion of that cell under the cursor

    def clear_cursor(self) -> "RankOptions":
        """No expansion of the cell."""
        return replace(self, entry=None)


@dataclass(frozen=True, slots=True)
class OfferedToken:
    """A token of an expansion's distribution."""

    rank: int
    token: int
    shown: str
    prob: float | None
    child: bool  # within the width it was given
    best: bool  # the target's most likely token
    written: bool  # what the text went on with


@dataclass(frozen=True, slots=True)
class ExpansionView:
    """One distribution at a parent: what was predicted, what was given, what was true."""

    id: int
    parent: int
    parent_shown: str
    block: int
    slot: int
    start: int
    bucket: int
    bucket_text: str  # "2–4"
    probs: tuple[float, ...]  # of the four buckets; empty at level summary
    width: int
    reason: str  # WidthReason
    n_children: int
    true_rank: int | None  # of the target's best token
    emitted_rank: int | None  # of the token that was written after it
    true_bucket: int | None
    outcome: Outcome
    cost: Cost | None  # of the bucket; None where the truth is unknown
    on_path: bool
    valid_prefix: bool | None
    entropy: float | None
    offers: tuple[OfferedToken, ...]  # empty at level summary
    phi: tuple[WhyRow, ...]  # what the rank head read, empty at level summary
    words: str  # why this width, what was true, what would have covered it


@dataclass(frozen=True, slots=True)
class Confusion:
    """Predicted = rows, true = columns. `n`: expansions in it; `n_unknown`: whose parent the target never saw."""

    heat: Heat
    widths: tuple[str, ...]  # what the knobs give a predicted bucket: "2", "0, stops widening"
    n: int
    n_unknown: int
    basis: str  # over which expansions, and whether that is conditional
    findings: tuple[str, ...]  # the asymmetry in words


@dataclass(frozen=True, slots=True)
class RunRanks:
    """What is counted over the run: widths of the expansions a filter lets through, blocks and depths of all."""

    summary: Facts  # drafting share, calls a round, modelled speed-up, length
    widths: Plot  # children spent and useful, by width
    reach: Plot  # what one width for all would have covered
    other_widths: TableBlock  # the same by predicted bucket
    slots: Plot  # how right every (block, slot) was
    blocks: Plot  # what became of each block's nodes
    depths: Plot


@dataclass(frozen=True, slots=True)
class RanksModel:
    """Everything about ranks at one moment. `missing`: why there is nothing; `notes`: what does not apply."""

    missing: str | None
    notes: tuple[str, ...] = ()
    filter_text: str = ""  # "all blocks · all slots · all kept"
    blocks: tuple[int, ...] = ()  # to choose from
    slots: tuple[int, ...] = ()
    badges: Mapping[int, str] = field(default_factory=dict)  # of drafted nodes: "b1·s0 #1", "level 2 #3"
    tree_text: str = ""  # "102 offered · 12 merged · 30 pruned · 60 sent · 4 accepted"
    expansions: tuple[ExpansionView, ...] = ()  # those of `expansions_title`
    expansions_title: str = ""  # "offered after n14 “▁mat”", "that offered n14 “▁mat”"
    round_expansions: tuple[ExpansionView, ...] = ()  # all of the round, in id order
    shape: str = ""  # why this tree has this shape
    ending: str = ""  # why the round ended
    confusion: Confusion | None = None
    cell: TableBlock | None = None  # expansions of the chosen cell, newest first, where each is, under its count
    over_run: RunRanks | None = None
