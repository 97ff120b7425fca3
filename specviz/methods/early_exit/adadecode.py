"""`adadecode`: early exits at three layers with one plain threshold and no bound on depth (Wei et al. 2025).

The same loop as `specbound`: no annealing, its layers, its threshold (their gamma), at most five early predictions.
"""

from specviz.methods import Method
from specviz.methods.early_exit import spec
from specviz.traits import MethodTraits

METHOD = Method(
    name="adadecode",
    help="early exits at a quarter, half and three quarters of the layers",
    drafter="specviz.methods.early_exit.drafter:adadecode",
    verifiers=("walk", "tokenwise"),
    example=spec.example,
    traits=MethodTraits(exits="tested", replay_depth=1.0),
    knobs=(
        spec.tau(0.75),
        spec.depth("the last layer but one"),
        spec.width(5),
        spec.tests("L/4, L/2, 3L/4"),
        *spec.rest(),
    ),
)
