"""`adadecode`: early exits at three layers with one plain threshold and no bound on depth (Wei et al. 2025).

The same loop as `specbound`: no annealing, its layers, its threshold (their gamma), at most five early predictions.
"""

from specviz.methods import Method, early
from specviz.traits import MethodTraits

METHOD = Method(
    name="adadecode",
    help="early exits at a quarter, half and three quarters of the layers",
    drafter="specviz.drafters.early_exit:adadecode",
    verifiers=("walk", "tokenwise"),
    example=early.example,
    traits=MethodTraits(exits="tested", replay_depth=1.0),
    knobs=(
        early.tau(0.75),
        early.depth("the last layer but one"),
        early.width(5),
        early.tests("L/4, L/2, 3L/4"),
        *early.rest(),
    ),
)
