"""The method: named here, without torch, so that it can be listed by whoever has no engine."""

from specviz.knobs import KnobSpec
from specviz.methods import Method
from specviz.methods.common.knobs import CHAIN, sample

ECHO = Method(
    name="echo",
    help="draft what followed the last token before",
    drafter="toy.drafter:make",
    verifiers=("walk", "tokenwise"),
    example=lambda knobs: sample(CHAIN, drawn=False),
    knobs=(KnobSpec(name="most", kind="int", lo=1, hi=16, default=3, help="most drafted tokens"),),
)
