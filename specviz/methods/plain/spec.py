"""`ar`: plain decoding, one token a round. The reference every other method is compared with."""

from specviz.methods import Method
from specviz.traits import MethodTraits

METHOD = Method(
    name="ar",
    help="plain decoding, one target pass a token (the reference)",
    drafter=None,
    traits=MethodTraits(plain=True),
)
