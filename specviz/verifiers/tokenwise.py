"""`tokenwise`: keep a drafted token with probability min(1, p/q), else draw from the residual (p - q)+.

Leviathan et al. 2023, Chen et al. 2023. At every text the
candidates are tried in id order against a row R that starts as the target's: `thr = min(1, R(x)/q(x))`, and after a
failure `R <- (R - q)+` normalised. A point mass is the case q = 1 at its token, so `thr = R(x)` and x leaves R.
Siblings drawn without replacement carry the law they were really drawn from, which is all the rule needs.

`multi_tokenwise` is its name over several chains (docs/papers/hsd.md): the token-by-token reading of the scheme that
`multi_hsd` runs with the joint rule.
"""

from typing import Any

from specviz.probability.draft import ROOT, Draft
from specviz.probability.plan import Draw, Plan, PlanStop, State, Step, Test, Verifier, VerifierAlias
from specviz.probability.rows import Rows, at, namespace, positive_part, scaled
from specviz.traits import TOKENWISE, VerifierTraits
from specviz.verifiers._candidates import RequiredRow, misfit, ordinals


class _Tokenwise:
    """States are `(node, k)`: the text ends in `node`, its first k candidates failed."""

    def __init__(self, draft: Draft, target_probs: Rows) -> None:
        self.draft = draft
        self.target_probs = target_probs
        self.spelling = draft.spelling
        self.vocab = len(target_probs[0])
        self.rows: dict[State, RequiredRow] = {}
        self.ahead = chain_masses(draft, target_probs)
        self.ordinals = ordinals(draft)

    def row(self, node: int, failed: int) -> RequiredRow:
        """The row required at `node` after its first `failed` candidates failed."""
        if failed == 0:
            return RequiredRow(self.target_probs[node + 1])
        key = (node, failed)
        if key not in self.rows:
            before = self.row(node, failed - 1)
            candidate = self.spelling.candidates(node)[failed - 1]
            residual, mass = scaled(positive_part(before.row, self.draft.law(candidate, self.vocab)))
            self.rows[key] = before.after(residual, float(mass))
        return self.rows[key]

    def masses(self, node: int, candidate: int, failed: int) -> tuple[float, float | None]:
        """`(R(x), q(x))` of a candidate; q is None for a point mass."""
        if failed == 0 and candidate in self.ahead:
            return self.ahead[candidate]
        token = self.draft.tokens[candidate]
        row = self.row(node, failed).row
        if self.draft.row_of[candidate] < 0:
            return at(row, token), None
        return at(row, token), at(self.draft.law(candidate, self.vocab), token)

    def open(self, state: State) -> Step:
        node, failed = state
        if not self.draft.has_row(node):
            return PlanStop(node)
        candidates = self.spelling.candidates(node)
        if failed == len(candidates):
            required = self.row(node, failed)
            return required.closing(node) if failed else Draw(node, lambda: required.row, {}, "target", "bonus")
        candidate = candidates[failed]
        p, q = self.masses(node, candidate, failed)
        threshold = p if q is None else min(1, p / q) if q > 0 else 0.0
        kept = (self.spelling.first(candidate), 0)
        return Test(candidate, threshold, kept, (node, failed + 1), p, q, self.ordinals[candidate], failed > 0)


def chain_masses(draft: Draft, target_probs: Rows) -> dict[int, tuple[float, float | None]]:
    """p and q of every first candidate, gathered at once: on a device one copy in place of one per test."""
    law_rows, nodes = draft.law_rows, [i for i in draft.judged if draft.row_of[i] >= 0]
    if law_rows is None or not nodes or not hasattr(target_probs, "shape"):
        return {}
    tokens = [draft.tokens[i] for i in nodes]
    p = target_probs[[draft.parents[i] + 1 for i in nodes], tokens]
    q = law_rows[[draft.row_of[i] for i in nodes], tokens]
    xp = namespace(p)
    pairs: list[Any] = xp.stack([p, q.to(p.dtype) if hasattr(q, "to") else q]).tolist()
    return {node: (pairs[0][k], pairs[1][k]) for k, node in enumerate(nodes)}


def plan(draft: Draft, target_probs: Rows) -> Plan:
    """The tokenwise plan. `target_probs` `[n_fed + 1, V]`: row 0 after the root, row i + 1 after node i."""
    return Plan(draft, (ROOT, 0), _Tokenwise(draft, target_probs).open)


VERIFIER = Verifier(
    name="tokenwise",
    lossless=True,
    keeps_tokens=False,
    help="keep a drafted token with chance min(1, p/q), else draw from (p - q)+",
    traits=VerifierTraits(replays_as=TOKENWISE, page="docs/papers/speculative-sampling.md"),
    plan=plan,
    refuses=misfit,
    layouts=("chain", "tree"),
    aliases=(
        VerifierAlias(
            "multi_tokenwise",
            help="tokenwise over several candidates, by its other name",
            layouts=("parallel", "caterpillar", "drawn_tree"),
        ),
    ),
)
