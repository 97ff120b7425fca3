"""`specblock`: a few calls of a small network draft a tree whose shape follows predicted ranks (specblock.md 13)."""

from specviz.knobs import KnobSpec
from specviz.methods import Method
from specviz.methods.common.tree_knobs import (
    BLOCKS,
    MOST_BLOCKS,
    MOST_CHILDREN,
    MOST_STARTS,
    budget,
    example,
    folder,
)
from specviz.methods.online.knobs import ADAPT
from specviz.traits import MethodTraits

METHOD = Method(
    name="specblock",
    help="a small network drafts blocks of dependent tokens; predicted ranks shape the tree",
    drafter="specviz.methods.online.drafter:make",
    part=BLOCKS,
    verifiers=("walk", "tokenwise"),
    default_verifier=("walk", "tokenwise"),  # walk too while siblings are chosen
    example=example,
    walks=lambda knobs: knobs["siblings"] == "topb",
    traits=MethodTraits(tree="blocks", learns=True),
    knobs=(
        KnobSpec(
            name="preset",
            kind="choice",
            choices=("paper", "reference-fast", "toy"),
            default="paper",
            help="sizes where no other knob says more: widths 2,4,10,0 and 60 nodes; 2,4,6,4, 90 and trims; "
            "2,4,10,4 and 24",
        ),
        budget(-1, -1, "; -1: the preset's"),
        KnobSpec(
            name="blocks",
            symbol="M",
            kind="int",
            lo=1,
            hi=MOST_BLOCKS,
            default=2,
            help="drafter calls: each further one starts at the best nodes so far",
        ),
        KnobSpec(
            name="d_max",
            symbol="d",
            kind="int",
            lo=-1,
            hi=64,
            default=-1,
            help="deepest tree level; blocks that it leaves no room for are not run; 0: no tree, -1: slots x blocks",
        ),
        KnobSpec(
            name="slots_used",
            kind="int",
            lo=0,
            hi=16,
            default=0,
            help="slots read per block; 0: all it was trained with",
        ),
        KnobSpec(name="k_max", symbol="k", kind="int", lo=1, hi=MOST_CHILDREN, default=10, help="children of the root"),
        KnobSpec(
            name="w_max",
            symbol="w",
            kind="int",
            lo=1,
            hi=MOST_CHILDREN,
            default=MOST_CHILDREN,
            help="most children of a node below the root",
        ),
        KnobSpec(
            name="widths",
            kind="texts",
            default=[],
            help="children by predicted rank: first, 2 to 4, 5 to 10, lower; 0 gives the block up; none: the preset's",
        ),
        KnobSpec(
            name="trims",
            kind="choice",
            choices=("preset", "on", "off"),
            default="preset",
            help="fewer children where the draft is sure",
        ),
        KnobSpec(
            name="start_cap",
            kind="int",
            lo=0,
            hi=MOST_STARTS,
            default=10,
            help="most nodes that the next block starts at",
        ),
        KnobSpec(
            name="merge",
            kind="bool",
            default=True,
            help="join nodes that two blocks offer with the same token at the same parent",
        ),
        KnobSpec(
            name="width_mode",
            kind="choice",
            choices=("rank", "fixed", "oracle"),
            default="rank",
            help="rank: children by predicted bucket; fixed: every slot as many as bucket 1; oracle: by the true rank, "
            "asked of the target beforehand, to see what perfect ranks would give",
        ),
        KnobSpec(
            name="siblings",
            kind="choice",
            choices=("topb", "sampled"),
            default="topb",
            applies="X",
            help="topb: the best tokens of a slot; sampled: drawn from it at T > 0, tested by p/q in the order drawn",
        ),
        KnobSpec(
            name="bucket_bias",
            kind="texts",
            default=[],
            help="added to the rank head's scores; positive on high buckets widens",
        ),
        KnobSpec(
            name="rank_temp",
            kind="float",
            lo=0,
            lo_open=True,
            hi=100,
            default=1.0,
            help="divides the rank head's scores before the bias is added",
        ),
        folder("block drafter"),
        *ADAPT,
    ),
)
