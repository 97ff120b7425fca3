"""`specblock`: a few calls of a small network draft a tree whose shape follows predicted ranks.

`ADAPT` are the knobs of learning while serving, done by `methods.online`. All take effect between
two prompts. None changes the text: the verifier never reads what the drafter thinks.
"""

from functools import partial

from specviz.knobs import KnobSpec, choice, real, whole
from specviz.methods import Method
from specviz.methods.common.knobs import (
    BLOCKS,
    MOST_BLOCKS,
    MOST_CHILDREN,
    MOST_STARTS,
    budget,
    example,
    folder,
)
from specviz.traits import MethodTraits

_ON = {"adapt": ["on"]}

# Knobs that need `adapt on`, and change between prompts.
_learning_whole, _learning_real, _learning_choice = (
    partial(make, applies="Q", needs=_ON) for make in (whole, real, choice)
)

ADAPT: tuple[KnobSpec, ...] = (
    choice(
        "adapt",
        ("off", "on"),
        "off",
        "learn between prompts: after each one a bandit weighs what an update of the drafter costs and saves",
        applies="Q",
    ),
    _learning_choice(
        "adapt_actions",
        ("all", "head", "full"),
        "all",
        "updates the bandit may choose besides skipping: of the output heads, of the whole drafter",
    ),
    _learning_choice(
        "adapt_do",
        ("learn", "freeze", "reset_to_anchor", "reset_to_base"),
        "learn",
        "freeze: decide and show, update nothing; reset: once, to the running average of accepted weights or to "
        "those from disk, then learn on",
    ),
    _learning_whole("adapt_steps", 1, 32, 4, "optimiser steps an update", symbol="u"),
    _learning_real("adapt_lr_head", 0, 1, 1e-3, "learning rate of a head update", lo_open=True),
    _learning_real(
        "adapt_lr_full", 0, 1, 5e-4, "learning rate of a full update; large drafters want 2e-5", lo_open=True
    ),
    _learning_real("adapt_caution", 0, 1000, 1.0, "standard errors that a sure gain must clear", symbol="c"),
    _learning_real("adapt_horizon", 0, 1e6, 20.0, "prompts that an update may pay off in", symbol="Hq"),
    _learning_real("adapt_budget", 0, 1, 0.02, "share of the serving time that exploring may take", symbol="φ"),
    _learning_real("adapt_cost_scale", 0, 1e9, 1.0, "weighs costs in decisions only: large ones make the bandit skip"),
    _learning_choice(
        "adapt_regret",
        ("live", "replay"),
        "live",
        "live: by the bandit's own estimates; replay: try all actions on copies and decode the next prompt with "
        "each, which takes three times as long",
    ),
)


METHOD = Method(
    name="specblock",
    help="a small network drafts blocks of dependent tokens; predicted ranks shape the tree",
    drafter="specviz.methods.online.drafter:make",
    part=BLOCKS,
    verifiers=("walk", "tokenwise"),
    default_verifier=("walk", "tokenwise"),  # walk too while siblings are chosen
    example=example,
    walks=lambda knobs: knobs["siblings"] == "topb",
    traits=MethodTraits(tree="blocks", learns=True, page="docs/papers/specblock.md"),
    knobs=(
        choice(
            "preset",
            ("paper", "reference-fast", "toy"),
            "paper",
            "sizes where no other knob says more: widths 2,4,10,0 and 60 nodes; 2,4,6,4, 90 and trims; 2,4,10,4 and 24",
        ),
        budget(", at most the preset's"),
        whole(
            "blocks", 1, MOST_BLOCKS, 2, "drafter calls: each further one starts at the best nodes so far", symbol="M"
        ),
        whole(
            "d_max",
            -1,
            64,
            -1,
            "deepest tree level; blocks that it leaves no room for are not run; 0: no tree, -1: slots x blocks",
            symbol="d",
        ),
        whole("slots_used", 0, 16, 0, "slots read per block; 0: all it was trained with"),
        whole("k_max", 1, MOST_CHILDREN, 10, "children of the root", symbol="k"),
        whole("w_max", 1, MOST_CHILDREN, MOST_CHILDREN, "most children of a node below the root", symbol="w"),
        KnobSpec(
            name="widths",
            kind="texts",
            default=[],
            help="children by predicted rank: first, 2 to 4, 5 to 10, lower; 0 gives the block up; none: the preset's",
        ),
        choice("trims", ("preset", "on", "off"), "preset", "fewer children where the draft is sure"),
        whole("start_cap", 0, MOST_STARTS, 6, "most nodes that the next block starts at"),
        KnobSpec(
            name="merge",
            kind="bool",
            default=True,
            help="join nodes that two blocks offer with the same token at the same parent",
        ),
        choice(
            "width_mode",
            ("rank", "fixed", "oracle"),
            "rank",
            "rank: children by predicted rank; fixed: every slot as many as for ranks 2 to 4; oracle: by true rank, "
            "asked of the target beforehand, to see what perfect ranks would give",
        ),
        choice(
            "siblings",
            ("topb", "sampled"),
            "topb",
            "topb: the best tokens of a slot; sampled: drawn from it at T > 0, tested by p/q in the order drawn",
            applies="X",
        ),
        KnobSpec(
            name="bucket_bias",
            kind="texts",
            default=[],
            help="added to the rank head's scores; positive on high buckets widens",
        ),
        real("rank_temp", 0, 100, 1.0, "divides the rank head's scores before the bias is added", lo_open=True),
        folder("block drafter"),
        *ADAPT,
    ),
)
