"""`multi_tokenwise`: recursive rejection over several chains. The name verification.md 3.7 has for `tokenwise` there.

One plan for both: tokenwise tries the candidates of every text it reaches in id order, each node once, and that is the
token-by-token reading of the scheme `multi_hsd` runs with the joint rule.
"""

from specviz.probability.plan import Verifier
from specviz.traits import VerifierTraits
from specviz.verifiers._candidates import misfit
from specviz.verifiers.tokenwise import plan

VERIFIER = Verifier(
    name="multi_tokenwise",
    lossless=True,
    keeps_tokens=False,
    help="tokenwise over several candidates, by its other name",
    traits=VerifierTraits(same_rule_as="tokenwise"),
    plan=plan,
    refuses=misfit,
)
