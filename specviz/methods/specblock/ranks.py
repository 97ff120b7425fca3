"""A round's knobs, read for a drafter of K slots: what it will do, and what it cannot do as asked.

Teaching mode: widths from the true ranks, read off the target before the tree is grown (`width_mode oracle`).

What the rank head can be worth at most. It costs a target pass more for every drafter call, over a cache of its own,
so its rounds are no faster for it; and it looks at the target's rows, not at the draws that decide, so even here the
text is that of plain decoding.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from specviz.engine.decode.context import Context
from specviz.engine.model.adapter import Model
from specviz.engine.model.rows import BLOCK, Rows, fill
from specviz.knobs import Knobs
from specviz.methods.common.tree_knobs import ints, reals
from specviz.methods.specblock.files import BlockConfig
from specviz.methods.specblock.growth import PRESETS, GrowthKnobs, Widths
from specviz.methods.specblock.recorder import best_tokens
from specviz.methods.trained.ranked_tokens import RankReading


@dataclass(frozen=True, slots=True)
class RoundPlan:
    """What this round does: how the tree grows, how ranks are read, how many blocks run and slots are looked at.

    `drawn`: siblings are draws; `oracle`: widths go by true ranks. `notices`: what a person should know, by code.
    """

    growing: GrowthKnobs
    ranks: RankReading
    blocks: int
    slots: int
    drawn: bool = False
    oracle: bool = False
    notices: dict[str, str] = field(default_factory=dict)


def read(knobs: Knobs, trained: BlockConfig, reach: int, full: bool) -> RoundPlan:
    """`reach`: no node deeper than that is of use. Blocks that depth leaves no room for are not run."""
    preset = PRESETS[knobs["preset"]]
    used = min(knobs["slots_used"] or trained.slots, trained.slots)
    wanted = knobs["d_max"] if knobs["d_max"] >= 0 else used * knobs["blocks"]
    deepest = min(wanted, reach, used * knobs["blocks"])
    sizes = ints("widths", knobs["widths"]) or preset.widths
    trims = {"on": True, "off": False}.get(knobs["trims"], preset.trims)
    cap = knobs["w_max"]
    fixed = max(1, min(sizes[1], cap)) if knobs["width_mode"] == "fixed" else None
    rule = Widths((sizes[0], sizes[1], sizes[2], sizes[3]), knobs["k_max"], cap, trims, fixed)
    budget = preset.budget if knobs["node_budget"] < 0 else knobs["node_budget"]
    return RoundPlan(
        GrowthKnobs(rule, deepest, knobs["merge"], knobs["start_cap"], budget),
        RankReading(reals("bucket_bias", knobs["bucket_bias"]), knobs["rank_temp"], full),
        blocks=math.ceil(deepest / used),
        slots=used,
        drawn=knobs["siblings"] == "sampled" and knobs["temperature"] > 0,
        oracle=knobs["width_mode"] == "oracle",
        notices=notices(knobs, trained, used),
    )


def notices(knobs: Knobs, trained: BlockConfig, used: int) -> dict[str, str]:
    """By code: what is clamped, what is beyond the training, what costs more than it seems."""
    out: dict[str, str] = {}
    blocks, depth = knobs["blocks"], used * knobs["blocks"]
    if knobs["slots_used"] > trained.slots:
        out["slots_clamped"] = f"slots_used {knobs['slots_used']}: the drafter has {trained.slots}, which are all used"
    if knobs["d_max"] > depth:
        out["depth_clamped"] = (
            f"d_max {knobs['d_max']}: {blocks} x {used} slots reach {depth}; raise blocks to go deeper"
        )
    if blocks > trained.trained_blocks:
        out["blocks_beyond_training"] = (
            f"blocks {blocks}: the drafter was trained for {trained.trained_blocks}; later ones guess badly"
        )
    if knobs["width_mode"] == "oracle":
        out["oracle_widths"] = (
            "width_mode oracle: the target says the true ranks before drafting, a pass more for every drafter call; "
            "times mean nothing and nothing is learnt"
        )
    return out


Path = tuple[int, ...]


class TargetRanks:
    """The target's best token behind drafted paths. `room`: most paths a round may ask for."""

    def __init__(self, target: Model, capacity: int, room: int) -> None:
        self.model, self.cache = target, target.new_cache(capacity + room)

    def open(self, ctx: Context) -> None:
        missing = fill(self.model, self.cache, ctx.tokens[:-1], leave=BLOCK)
        self._ctx, self._rows = ctx, Rows(self.model, self.cache)
        self._row: dict[Path, int] = {(): self._rows.add_line([*missing, ctx.tokens[-1]])}
        self._best: dict[Path, int] = {}

    def best(self, paths: Sequence[Path]) -> list[int]:
        """One target pass for all paths that are new; a path's parent must be among them or known."""
        new = [path for path in sorted({*paths}, key=len) if path not in self._best]
        for path in new:
            if path:
                self._row[path] = self._rows.add(path[-1], self._row[path[:-1]])
        if new:
            logits = self._rows.take(len(new))
            prefixes = [[*self._ctx.tokens, *path] for path in new] if self._ctx.warper.needs_prefix else None
            laws = self._ctx.warper.laws(logits, prefixes)
            self._best |= zip(new, best_tokens(laws, range(len(new))), strict=True)
        return [self._best[path] for path in paths]
