"""What the tree drafters with trained parts share: their knobs and how lists of numbers are read (specblock.md 13).

No knob changes the text: every tree is judged by `walk`, whose draws never look at the draft.
"""

from collections.abc import Mapping
from typing import Any

from specviz.draft import ROOT, Draft
from specviz.errors import KnobError
from specviz.knobs import KnobSpec
from specviz.methods import Method

MOST_CHILDREN, N_BUCKETS = 20, 4


def ints(name: str, texts: list[str], most: int = MOST_CHILDREN) -> tuple[int, ...]:
    """Four whole numbers 0..`most` of a knob such as `2,4,10,0`; empty when nothing is given. Raises KnobError."""
    words = " ".join(texts).replace(",", " ").split()
    if not words:
        return ()
    if len(words) != N_BUCKETS or not all(word.isdecimal() and int(word) <= most for word in words):
        raise KnobError(
            f"knob {name}: '{', '.join(words)}' is not {N_BUCKETS} whole numbers in 0..{most}, one a rank bucket; "
            "for example 2,4,10,0"
        )
    return tuple(int(word) for word in words)


def reals(name: str, texts: list[str]) -> tuple[float, ...]:
    """Four numbers of a knob such as `0,0,.5,.5`; zeros when nothing is given. Raises KnobError."""
    words = " ".join(texts).replace(",", " ").split()
    try:
        values = tuple(float(word) for word in words)
    except ValueError:
        values = (float("nan"),)
    if values and (len(values) != N_BUCKETS or not all(abs(value) <= 1e6 for value in values)):
        raise KnobError(
            f"knob {name}: '{', '.join(words)}' is not {N_BUCKETS} numbers, one a rank bucket; for example 0,0,0.5,0.5"
        )
    return values or (0.0,) * N_BUCKETS


def example(knobs: Mapping[str, Any]) -> Draft:
    """What a verifier will be handed: a small tree of point masses. Raises KnobError for lists that cannot be read."""
    ints("widths", knobs.get("widths", []))
    reals("bucket_bias", knobs.get("bucket_bias", []))
    return Draft(
        tokens=(0, 1, 0, 1), parents=(ROOT, ROOT, 0, 0), ids=(0, 1, 2, 3), n_judged=4, n_fed=4, row_of=(-1,) * 4,
    )  # fmt: skip


def budget(default: int = 60, lo: int = 0, also: str = "") -> KnobSpec:
    """The tree's size."""
    return KnobSpec(
        name="node_budget", symbol="N", kind="int", lo=lo, hi=256, default=default,
        help=f"nodes sent to the target, most likely first; 0 decodes plainly{also}",
    )  # fmt: skip


def root_children() -> KnobSpec:
    """Root diversity."""
    return KnobSpec(
        name="k_max", symbol="k", kind="int", lo=1, hi=MOST_CHILDREN, default=10, help="children of the root"
    )  # fmt: skip


def folder(what: str) -> KnobSpec:
    """Which trained part."""
    return KnobSpec(
        name="drafter", kind="texts", default=[], applies="X",
        help=f"folder of a trained {what}; none: the one that lies with the target",
    )  # fmt: skip


SPECBLOCK = Method(
    name="specblock",
    help="a small network drafts blocks of dependent tokens; predicted ranks shape the tree",
    drafter="specviz.drafters.blocks.drafter:make",
    verifiers=("walk", "tokenwise"),
    default_verifier=("walk", "walk"),
    example=example,
    knobs=(
        KnobSpec(
            name="preset", kind="choice", choices=("paper", "reference-fast", "toy"), default="paper",
            help="sizes where no other knob says more: widths 2,4,10,0 and 60 nodes; 2,4,6,4, 90 and trims; "
            "2,4,10,4 and 24",
        ),
        budget(-1, -1, "; -1: the preset's"),
        KnobSpec(
            name="blocks", symbol="M", kind="int", lo=1, hi=4, default=2,
            help="drafter calls: each further one starts at the best nodes so far",
        ),
        KnobSpec(
            name="d_max", symbol="d", kind="int", lo=-1, hi=64, default=-1,
            help="deepest tree level; blocks that it leaves no room for are not run; -1: slots x blocks",
        ),
        KnobSpec(
            name="slots_used", kind="int", lo=0, hi=16, default=0,
            help="slots read per block; 0: all it was trained with",
        ),
        root_children(),
        KnobSpec(
            name="w_max", symbol="w", kind="int", lo=1, hi=MOST_CHILDREN, default=MOST_CHILDREN,
            help="most children of a node below the root",
        ),
        KnobSpec(
            name="widths", kind="texts", default=[],
            help="children by predicted rank: first, 2 to 4, 5 to 10, lower; 0 gives the block up; "
            "none: the preset's",
        ),
        KnobSpec(
            name="trims", kind="choice", choices=("preset", "on", "off"), default="preset",
            help="fewer children where the draft is sure",
        ),
        KnobSpec(
            name="start_cap", kind="int", lo=0, hi=64, default=10, help="most nodes that the next block starts at",
        ),
        KnobSpec(
            name="merge", kind="bool", default=True,
            help="join nodes that two blocks offer with the same token at the same parent",
        ),
        KnobSpec(
            name="width_mode", kind="choice", choices=("rank", "fixed"), default="rank",
            help="rank: children by predicted bucket; fixed: every slot as many as bucket 1",
        ),
        KnobSpec(
            name="bucket_bias", kind="texts", default=[],
            help="added to the rank head's scores; positive on high buckets widens",
        ),
        KnobSpec(
            name="rank_temp", kind="float", lo=0, lo_open=True, hi=100, default=1.0,
            help="divides the rank head's scores before the bias is added",
        ),
        folder("block drafter"),
    ),
)  # fmt: skip

EAGLE3 = Method(
    name="eagle3",
    help="one layer over the target's features drafts a tree, one call a level",
    drafter="specviz.drafters.eagle.drafter:make",
    verifiers=("walk", "tokenwise"),
    default_verifier=("walk", "walk"),
    example=example,
    knobs=(
        budget(),
        KnobSpec(
            name="d_max", symbol="d", kind="int", lo=1, hi=16, default=8, help="deepest tree level; one call each",
        ),
        KnobSpec(
            name="k_max", symbol="k", kind="int", lo=1, hi=MOST_CHILDREN, default=10,
            help="children of a node; nodes expanded per level",
        ),
        folder("EAGLE-3 drafter"),
    ),
)  # fmt: skip

MEDUSA = Method(
    name="medusa",
    help="heads on the target's last state draft a fixed tree in one call",
    drafter="specviz.drafters.medusa.drafter:make",
    verifiers=("walk", "tokenwise"),
    default_verifier=("walk", "walk"),
    example=example,
    knobs=(budget(63), folder("set of Medusa heads")),
)

STATIC_TREE = Method(
    name="static_tree",
    help="EAGLE-3's network on a fixed tree of ranks, calibrated once",
    drafter="specviz.drafters.eagle.static:make",
    verifiers=("walk", "tokenwise"),
    default_verifier=("walk", "walk"),
    example=example,
    knobs=(
        budget(),
        KnobSpec(
            name="d_max", symbol="d", kind="int", lo=1, hi=16, default=8, help="deepest tree level; one call each",
        ),
        folder("EAGLE-3 drafter with a calibrated tree"),
    ),
)  # fmt: skip
