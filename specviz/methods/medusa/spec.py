"""`medusa`: heads on the target's last state over the shared verification (Cai et al. 2024)."""

from specviz.methods import Method
from specviz.methods.common.knobs import HEADS, budget, example, folder
from specviz.traits import MethodTraits

METHOD = Method(
    name="medusa",
    help="heads on the target's last state draft a fixed tree in one call",
    drafter="specviz.methods.medusa.drafter:make",
    part=HEADS,
    verifiers=("walk", "tokenwise"),
    example=example,
    traits=MethodTraits(tree="heads"),
    knobs=(budget(), folder("set of Medusa heads")),
)
