"""A round's knobs, read for a drafter of K slots."""

import math
from dataclasses import dataclass

from specviz.drafters.blocks.growth import Setting
from specviz.drafters.blocks.offers import Reading
from specviz.drafters.blocks.widths import PRESETS, Widths
from specviz.knobs import Knobs
from specviz.methods.blocks import ints, reals


@dataclass(frozen=True, slots=True)
class Round:
    """What this round does: how the tree grows, how ranks are read, how many blocks run and slots are looked at."""

    growing: Setting
    ranks: Reading
    blocks: int
    slots: int


def read(knobs: Knobs, slots: int, reach: int, full: bool) -> Round:
    """`reach`: no node deeper than that is of use. Blocks that depth leaves no room for are not run."""
    preset = PRESETS[knobs["preset"]]
    used = min(knobs["slots_used"] or slots, slots)
    wanted = knobs["d_max"] if knobs["d_max"] >= 1 else used * knobs["blocks"]
    deepest = min(wanted, reach, used * knobs["blocks"])
    sizes = ints("widths", knobs["widths"]) or preset.widths
    trims = {"on": True, "off": False}.get(knobs["trims"], preset.trims)
    cap = knobs["w_max"]
    fixed = max(1, min(sizes[1], cap)) if knobs["width_mode"] == "fixed" else None
    rule = Widths((sizes[0], sizes[1], sizes[2], sizes[3]), knobs["k_max"], cap, trims, fixed)
    budget = preset.budget if knobs["node_budget"] < 0 else knobs["node_budget"]
    return Round(
        Setting(rule, deepest, knobs["merge"], knobs["start_cap"], budget),
        Reading(reals("bucket_bias", knobs["bucket_bias"]), knobs["rank_temp"], full),
        math.ceil(deepest / used),
        used,
    )
