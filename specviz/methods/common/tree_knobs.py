"""What the tree drafters with trained parts share: their knobs and how lists of numbers are read. No method itself.

No knob changes the text: every tree is judged by `walk`, whose draws never look at the draft.
"""

from collections.abc import Mapping
from typing import Any

from specviz.errors import KnobError
from specviz.knobs import KnobSpec
from specviz.methods import Part
from specviz.methods.common.knobs import TREE, part_folder, sample, words
from specviz.probability.draft import Draft

MOST_CHILDREN, N_BUCKETS = 20, 4
MOST_BLOCKS, MOST_STARTS = 4, 64
BLOCKS = Part("block drafter", "specviz train block-drafter", "block-drafter")
EAGLE = Part("EAGLE-3 drafter", "specviz train eagle3", "eagle3")
RANKED = Part(
    "EAGLE-3 drafter with a calibrated tree", "specviz train static-tree", "eagle3", "static_tree.json", EAGLE
)
HEADS = Part("set of Medusa heads", "specviz train medusa", "medusa")


def ints(name: str, texts: list[str], most: int = MOST_CHILDREN) -> tuple[int, ...]:
    """Four whole numbers 0..`most` of a knob such as `2,4,10,0`; empty when nothing is given. Raises KnobError."""
    found = words(texts)
    if not found:
        return ()
    if len(found) != N_BUCKETS or not all(word.isdecimal() and int(word) <= most for word in found):
        raise KnobError(
            f"knob {name}: '{', '.join(found)}' is not {N_BUCKETS} whole numbers in 0..{most}, one a rank bucket; "
            "for example 2,4,10,0"
        )
    return tuple(int(word) for word in found)


def reals(name: str, texts: list[str]) -> tuple[float, ...]:
    """Four numbers of a knob such as `0,0,.5,.5`; zeros when nothing is given. Raises KnobError."""
    found = words(texts)
    try:
        values = tuple(float(word) for word in found)
    except ValueError:
        values = (float("nan"),)
    if values and (len(values) != N_BUCKETS or not all(abs(value) <= 1e6 for value in values)):
        raise KnobError(
            f"knob {name}: '{', '.join(found)}' is not {N_BUCKETS} numbers, one a rank bucket; for example 0,0,0.5,0.5"
        )
    return values or (0.0,) * N_BUCKETS


def example(knobs: Mapping[str, Any]) -> Draft:
    """What a verifier will be handed: a small tree of point masses, or of draws without replacement.

    Raises KnobError for lists that cannot be read and for values that do not go together.
    """
    ints("widths", knobs.get("widths", []))
    reals("bucket_bias", knobs.get("bucket_bias", []))
    sampled = knobs.get("siblings") == "sampled"
    if sampled and knobs["width_mode"] == "oracle":
        raise KnobError(
            "knob width_mode: oracle asks the target along the best tokens, siblings sampled goes along drawn ones; "
            "use width_mode rank or siblings topb"
        )
    return sample(TREE, sampled and knobs["temperature"] > 0)


def budget(default: int = 60, lo: int = 0, also: str = "") -> KnobSpec:
    return KnobSpec(
        name="node_budget",
        symbol="N",
        kind="int",
        lo=lo,
        hi=256,
        default=default,
        help=f"nodes sent to the target, most likely first; 0 decodes plainly{also}",
    )


def levels() -> KnobSpec:
    """Depth, where every level is a call."""
    return KnobSpec(
        name="d_max", symbol="d", kind="int", lo=1, hi=16, default=8, help="deepest tree level; one call each"
    )


def folder(what: str) -> KnobSpec:
    return part_folder("drafter", f"folder of a trained {what}; none: the one that lies with the target")
