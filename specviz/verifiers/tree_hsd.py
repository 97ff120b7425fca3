"""`tree_hsd`: a deterministic tree by the joint rule, path by path. In law the same as `tree_tokenwise` and `walk`.

verification.md 3.8. With point masses the ratio never exceeds 1, so capping is idle: with c the probability of the
prefix and pi that of the next drafted token, h = c (1 - pi) / (1 - c pi), and the residual is p without that token.
What a path loses comes back through the next one, so the law of the accepted length is that of `walk`, whose plan this
is: HSD gains nothing on a deterministic tree. Written out, the rule is `multi_hsd` on such a tree; the tests compare.
"""

from specviz.probability.plan import Verifier
from specviz.traits import VerifierTraits
from specviz.verifiers.tree_tokenwise import refuses
from specviz.verifiers.walk import plan

VERIFIER = Verifier(
    name="tree_hsd",
    lossless=True,
    keeps_tokens=True,
    help="a deterministic tree by the joint rule; the same law as walk, whose plan it is",
    traits=VerifierTraits(draws=True, same_rule_as="walk"),
    plan=plan,
    refuses=refuses,
)
