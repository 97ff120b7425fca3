"""`layerskip`: the first layers always draft, a fixed number of tokens, through the shared head (Elhoushi et al. 2024).

The same loop as `specbound` with one exit layer and no threshold. Made for models trained for early exit, whose shared
head is right at every layer; on others it drafts badly, and trained `heads` may be put in its place.
"""

from specviz.methods import Method
from specviz.methods.early_exit import spec
from specviz.traits import MethodTraits

METHOD = Method(
    name="layerskip",
    help="the target's first layers always draft, through its own head",
    drafter="specviz.methods.early_exit.drafter:layerskip",
    verifiers=("walk", "tokenwise"),
    example=spec.example,
    traits=MethodTraits(exits="tested", replay_depth=1.0),
    knobs=(
        spec.tests("L/2"),
        spec.width(6),
        spec.tau(0.0, "0 drafts always; above, a row stops only where the head is at least this sure"),
        spec.depth("no bound besides exit_layers"),
        *spec.rest(("lens",)),
    ),
)
