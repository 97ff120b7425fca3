"""`static_tree`: the drafter of `eagle3` on a shape that was calibrated once (specblock.md 10)."""

from specviz.methods import Method
from specviz.methods.common.tree_knobs import RANKED, budget, example, folder, levels
from specviz.traits import MethodTraits

METHOD = Method(
    name="static_tree",
    help="EAGLE-3's network on a fixed tree of ranks, calibrated once",
    drafter="specviz.methods.eagle3.static:make",
    part=RANKED,
    verifiers=("walk", "tokenwise"),
    default_verifier=("walk", "walk"),
    example=example,
    traits=MethodTraits(tree="fixed"),
    knobs=(budget(), levels(), folder("EAGLE-3 drafter with a calibrated tree")),
)
