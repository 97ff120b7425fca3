"""`layerskip`: the first layers always draft, a fixed number of tokens, through the shared head (Elhoushi et al. 2024).

The same loop as `specbound` with one exit layer and no threshold. Made for models trained for early exit, whose shared
head is right at every layer; on others it drafts badly, and trained `heads` may be put in its place.
"""

from specviz.methods import Method, early
from specviz.traits import MethodTraits

METHOD = Method(
    name="layerskip",
    help="the target's first layers always draft, through its own head",
    drafter="specviz.drafters.early_exit:layerskip",
    verifiers=("walk", "tokenwise"),
    example=early.example,
    traits=MethodTraits(exits="tested", replay_depth=1.0),
    knobs=(
        early.tests("L/2"),
        early.width(6),
        early.tau(0.0, "0 drafts always; above, a row stops only where the head is at least this sure"),
        early.depth("no bound besides exit_layers"),
        *early.rest(("lens",)),
    ),
)
