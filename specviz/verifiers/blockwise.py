"""`blockwise`: keep the longest prefix whose weight passes, tested from the last position down (Sun et al. 2024).

With w_0 = 1, w_t = min(1, w_{t-1} p_t(X_t)/q_t(X_t)) and S_t = sum_y (w_t p_{t+1}(y) -
q_{t+1}(y))+ the first t tokens are kept with `S_t / (S_t + 1 - w_t)`, the whole draft with w_gamma, and the closing
token is drawn from (w_t p_{t+1} - q_{t+1})+. A failed test overrules nothing: a shorter prefix may still pass. No
lossless rule with one target call and plain continuation keeps more in expectation (their theorem).

`hsd` is another name of it: hierarchical speculative decoding with the capped ratio, as its equations define it (Zhou
et al. 2026). c_t is the joint ratio r_t over its running maximum; below the first t tokens the draft lacks
D+_t = sum_y (c_t p_{t+1}(y) - q_{t+1}(y))+ of target mass and has D-_t too much. They are kept with D+_t / D-_t (for
certain when c_t = 1), the whole draft with c_gamma. But c_t = min(1, c_{t-1} p/q) is w_t, and D-_t = D+_t + 1 - c_t:
two views of one rule, and with one seed they give the same tokens. That the published code
accepts more comes from its uncapped last test, see `hsd_ref`. The paper beside the
code: docs/papers/hsd.md.
"""

from specviz.probability.plan import Verifier, VerifierAlias
from specviz.traits import CAPPED, VerifierTraits
from specviz.verifiers._scan import misfit, scan

VERIFIER = Verifier(
    name="blockwise",
    lossless=True,
    keeps_tokens=False,
    help="keep the longest prefix whose joint weight passes, tested from the end; one chain",
    traits=VerifierTraits(
        direction="backward", letter="w", same_rule_as="hsd", replays_as=CAPPED, page="docs/papers/hsd.md"
    ),
    plan=scan,
    refuses=misfit,
    layouts=("chain",),
    aliases=(
        VerifierAlias(
            "hsd",
            help="hierarchical, capped: keep a prefix by what its branch lacks and has too much; "
            "the same rule as blockwise",
            traits=VerifierTraits(direction="backward", replays_as=CAPPED, page="docs/papers/hsd.md"),
            layouts=("chain",),
        ),
    ),
)
