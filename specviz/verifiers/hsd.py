"""`hsd`: hierarchical speculative decoding with the capped ratio, as its equations define it (Zhou et al. 2026).

verification.md 3.4. c_t is the joint ratio r_t over its running maximum; below the first t tokens the draft lacks
D+_t = sum_y (c_t p_{t+1}(y) - q_{t+1}(y))+ of target mass and has D-_t too much. They are kept with D+_t / D-_t (for
certain when c_t = 1), the whole draft with c_gamma, and the closing token is drawn from (c_t p_{t+1} - q_{t+1})+.

It *is* `blockwise`: c_t = min(1, c_{t-1} p/q) and D-_t = D+_t + 1 - c_t (4, reflection identity). So the arithmetic
is shared and the two names are two views of it; with one seed they give the same tokens. That the published code
accepts more comes from its uncapped last test, see `hsd_ref`.
"""

from specviz.probability.draft import Draft
from specviz.probability.plan import Plan, Verifier
from specviz.probability.rows import Rows
from specviz.traits import CAPPED, VerifierTraits
from specviz.verifiers._scan import misfit, scan


def plan(draft: Draft, target_probs: Rows) -> Plan:
    """The plan of capped HSD. `target_probs` `[n_fed + 1, V]`: row 0 after the root, row i + 1 after node i."""
    return scan(draft, target_probs)


VERIFIER = Verifier(
    name="hsd",
    lossless=True,
    keeps_tokens=False,
    help="hierarchical, capped: keep a prefix by what its branch lacks and has too much; the same rule as blockwise",
    traits=VerifierTraits(direction="backward", same_rule_as="blockwise", replays_as=CAPPED),
    plan=plan,
    refuses=misfit,
)
