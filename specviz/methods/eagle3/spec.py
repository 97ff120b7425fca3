"""`eagle3`: EAGLE-3 over the shared verification (Li et al. 2025).

`static_tree`: the drafter of `eagle3` on a shape that was calibrated once.
"""

from specviz.knobs import whole
from specviz.methods import Method
from specviz.methods.common.knobs import EAGLE, MOST_CHILDREN, RANKED, budget, example, folder, levels
from specviz.traits import MethodTraits

EAGLE3 = Method(
    name="eagle3",
    help="one layer over the target's features drafts a tree, one call a level",
    drafter="specviz.methods.eagle3.drafter:make",
    part=EAGLE,
    verifiers=("walk", "tokenwise"),
    example=example,
    traits=MethodTraits(tree="levels", page="docs/papers/specblock.md"),
    knobs=(
        budget(),
        levels(),
        whole("k_max", 1, MOST_CHILDREN, 10, "children of a node; nodes expanded per level", symbol="k"),
        folder("EAGLE-3 drafter"),
    ),
)


STATIC_TREE = Method(
    name="static_tree",
    help="EAGLE-3's network on a fixed tree of ranks, calibrated once",
    drafter="specviz.methods.eagle3.drafter:make_static",
    part=RANKED,
    verifiers=("walk", "tokenwise"),
    example=example,
    traits=MethodTraits(tree="fixed", page="docs/papers/specblock.md"),
    knobs=(budget(), levels(), folder("EAGLE-3 drafter with a calibrated tree")),
)
