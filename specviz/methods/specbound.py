"""`specbound`: self-speculation with calibrated early exits, bounded in depth and width (Wen and Feng 2026).

A row climbs the target's own layers; where a small head is sure enough at an annealed temperature, its token becomes
the next row. Rows left behind are taken along when a later one needs the layer, so nothing is computed twice.
Rules of specbound.md 6: G and M are `walk`, O is `tokenwise` over argmax drafts, Q over sampled, C `walk` over shared.
"""

from specviz.methods import Method, early
from specviz.traits import MethodTraits

METHOD = Method(
    name="specbound",
    help="the target's own early layers draft, where an exit head is sure enough",
    drafter="specviz.drafters.early_exit:specbound",
    verifiers=("walk", "tokenwise"),
    example=early.example,
    traits=MethodTraits(exits="tested", replay_depth=0.5),
    knobs=(
        early.alpha(),
        early.tau(0.75),
        early.depth("the deepest layer that the exit heads advise, else half of the layers"),
        early.width(6),
        early.tests(early.AUTO),
        *early.rest(),
    ),
)
