"""`hsd_ref`: HSD as its printed listing and public code have it. NOT lossless: a control, never a default.

As `hsd`, but the last test is min(1, r_gamma), uncapped. A draft whose ratio exceeded 1 and fell
afterwards is kept too often, and too little rejected mass is left to refill what the target lacks. On case A, gamma 2,
the law is 1/9 away from the target's. It accepts more than `blockwise`, and that is all of the published gain.
"""

from specviz.probability.draft import Draft
from specviz.probability.plan import Plan, Verifier
from specviz.probability.rows import Rows
from specviz.traits import VerifierTraits
from specviz.verifiers._scan import misfit, scan


def plan(draft: Draft, target_probs: Rows) -> Plan:
    """The plan of the reference code. `target_probs` `[n_fed + 1, V]`: row 0 after the root, row i + 1 after node i."""
    return scan(draft, target_probs, last=lambda weighed: weighed.reach(len(weighed.p)))


VERIFIER = Verifier(
    name="hsd_ref",
    lossless=False,
    keeps_tokens=False,
    help="HSD as published code has it: the last test is not capped; not lossless, for comparison only",
    traits=VerifierTraits(direction="backward", last_capped=False, page="docs/papers/hsd.md"),
    plan=plan,
    refuses=misfit,
    layouts=("chain",),
    distance=1 / 9,
)
