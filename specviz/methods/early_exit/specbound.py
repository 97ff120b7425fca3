"""`specbound`: self-speculation with calibrated early exits, bounded in depth and width (Wen and Feng 2026).

A row climbs the target's own layers; where a small head is sure enough at an annealed temperature, its token becomes
the next row. Rows left behind are taken along when a later one needs the layer, so nothing is computed twice.
Rules of specbound.md 6: G and M are `walk`, O is `tokenwise` over argmax drafts, Q over sampled, C `walk` over shared.
"""

from specviz.methods import Method
from specviz.methods.early_exit import spec
from specviz.traits import MethodTraits

METHOD = Method(
    name="specbound",
    help="the target's own early layers draft, where an exit head is sure enough",
    drafter="specviz.methods.early_exit.drafter:specbound",
    verifiers=("walk", "tokenwise"),
    example=spec.example,
    traits=MethodTraits(exits="tested", replay_depth=0.5),
    knobs=(
        spec.alpha(),
        spec.tau(0.75),
        spec.depth("the deepest layer that the exit heads advise, else half of the layers"),
        spec.width(6),
        spec.tests(spec.AUTO),
        *spec.rest(),
    ),
)
