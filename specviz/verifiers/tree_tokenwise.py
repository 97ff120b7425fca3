"""`tree_tokenwise`: a deterministic tree, child by child: keep y with R(y), else R(y) <- 0 and renormalise.

verification.md 3.8. With a point mass on every edge that is a draw from the target, read as tests; so the plan is that
of `walk`, and the text that of plain decoding. Every lossless rule keeps the same number of tokens in law here:
E[accepted] is the sum of the target probabilities of all nodes' paths, and none can exceed it.
"""

from specviz.probability.draft import Draft
from specviz.probability.plan import Verifier
from specviz.traits import VerifierTraits
from specviz.verifiers._candidates import misfit
from specviz.verifiers.walk import plan


def refuses(draft: Draft) -> str | None:
    """Drawn nodes have better rules."""
    if draft.is_drawn and not draft.shared:
        return "it judges a tree of chosen tokens and this draft was drawn; walk, tokenwise and multi_hsd take it"
    return misfit(draft)


VERIFIER = Verifier(
    name="tree_tokenwise",
    lossless=True,
    keeps_tokens=True,
    help="a deterministic tree, child by child; the same plan as walk",
    traits=VerifierTraits(draws=True, same_rule_as="walk"),
    plan=plan,
    refuses=refuses,
)
