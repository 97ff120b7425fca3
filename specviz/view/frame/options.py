"""What a person chose to look at, and what the front-end knows about its source. Handed in with every frame."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from specviz.view.frame.frame import ValueName
from specviz.view.panels.ranks.model import RankFilter

Folding = Literal["none", "pruned", "losers"]  # what is left out of the tree: nothing, pruned nodes, all losers
FOLDINGS: tuple[Folding, ...] = ("pruned", "losers", "none")


@dataclass(frozen=True, slots=True)
class Options:
    """How the person wants to see it. `selected` None follows the action."""

    selected: int | None = None
    value: ValueName = "q"
    folding: Folding = "pruned"
    ascii: bool = False
    verification: bool = False  # work out what the screen HSD shows
    layers: bool = False  # work out what the screen Layers shows
    layer: int | None = None  # the layer under the cursor there; None: where the row stopped
    column: tuple[int, int] | None = None  # (round over the run, row) there, when it is not in the round on screen
    what_tau: float | None = None  # a threshold to try there; None: the confidence under the cursor
    lanes: bool = False  # work out what the screen Lanes shows
    clock: Literal["measured", "model"] = "measured"
    block: tuple[int, str, int] | None = None  # the block under the cursor there; None: the selected node's
    model_c: float | None = None  # a speed ratio to try on the modelled clock
    ranks: bool = False  # work out what the screen Ranks shows
    rank_filter: RankFilter = field(default_factory=RankFilter)
    rank_cell: tuple[int, int] | None = None  # predicted and true bucket under the cursor there
    rank_entry: int | None = None  # the expansion of that cell under the cursor
    staged: Mapping[str, Any] = field(default_factory=dict)  # knobs chosen, not sent
    sent: Mapping[str, Any] = field(default_factory=dict)  # knobs sent, not yet acknowledged


@dataclass(frozen=True, slots=True)
class Feed:
    """What the front-end knows of the source besides its events."""

    name: Literal["idle", "loading", "open", "silent", "error", "core_lost"] = "open"
    detail: str = ""
    beside: str = ""  # words that stand beside the state itself, "7 s"
    steerable: bool = False  # knobs can be sent: a worker listens
    held: bool = False  # the core was asked to pause
