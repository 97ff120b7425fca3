"""`blockwise`: keep the longest prefix whose weight passes, tested from the last position down (Sun et al. 2024).

verification.md 3.3. With w_0 = 1, w_t = min(1, w_{t-1} p_t(X_t)/q_t(X_t)) and S_t = sum_y (w_t p_{t+1}(y) -
q_{t+1}(y))+ the first t tokens are kept with `S_t / (S_t + 1 - w_t)`, the whole draft with w_gamma, and the closing
token is drawn from (w_t p_{t+1} - q_{t+1})+. A failed test overrules nothing: a shorter prefix may still pass. No
lossless rule with one target call and plain continuation keeps more in expectation (4, optimality). `hsd` is the same
rule seen as branch divergences.
"""

from specviz.probability.draft import Draft
from specviz.probability.plan import Plan, Verifier
from specviz.probability.rows import Rows
from specviz.traits import CAPPED, VerifierTraits
from specviz.verifiers._scan import misfit, scan


def plan(draft: Draft, target_probs: Rows) -> Plan:
    """The blockwise plan. `target_probs` `[n_fed + 1, V]`: row 0 after the root, row i + 1 after node i."""
    return scan(draft, target_probs)


VERIFIER = Verifier(
    name="blockwise",
    lossless=True,
    keeps_tokens=False,
    help="keep the longest prefix whose joint weight passes, tested from the end; one chain",
    traits=VerifierTraits(direction="backward", letter="w", same_rule_as="hsd", replays_as=CAPPED),
    plan=plan,
    refuses=misfit,
)
