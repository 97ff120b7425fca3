"""`token_law(p, q, rule)`: exactly how often each token comes out of one drafted place, under a rule.

A draft of one token is drawn from q, the rule judges it by the target's row p, and what is written first is counted:
all outcomes of the rule's own plan, so nothing is sampled.
"""

from collections.abc import Sequence
from typing import Any

from specviz.errors import SpecvizError
from specviz.knobs import Knobs
from specviz.probability.arrays import np
from specviz.probability.draft import ROOT, Draft
from specviz.verifiers import get_verifier


def token_law(p: Sequence[float], q: Sequence[float], rule: str, **knobs: Any) -> tuple[float, ...]:
    """Probability of each token `[V]`; `p`, `q`: rows `[V]` that sum to 1. Raises SpecvizError for rows of other
    lengths, and for a rule that is not known or takes no draft of one token."""
    if len(p) != len(q) or not p:
        raise SpecvizError(f"rows of {len(p)} and {len(q)} tokens: both laws need the same ones")
    verifier = get_verifier(rule).tuned(Knobs(knobs))
    rows, laws = np.array([p, p], dtype=float), np.array([q], dtype=float)
    out = [0.0] * len(p)
    for token, chance in enumerate(q):
        draft = Draft((token,), (ROOT,), (0,), n_judged=1, n_fed=1, law_rows=laws, row_of=(0,))
        if (why := verifier.refuses(draft)) is not None:
            raise SpecvizError(f"rule {rule} takes no draft of one token: {why}")
        for (kept, closing), share in verifier.plan(draft, rows).law().items():
            first = kept[0] if kept else closing
            if first is not None:
                out[first] += chance * float(share)
    return tuple(out)
