"""`walk`: draw every token from the target and follow it through the draft as far as it goes (specblock.md 6.1).

The draw uses the `target` stream, keyed by position alone, so the text is that of plain decoding token for token, for
any draft whatsoever. At temperature 0 it is greedy matching (verification.md 3.1). On a deterministic tree it has the
law of `tree_tokenwise` and `tree_hsd` (3.8): a view, not another rule.
"""

from specviz.probability.draft import Draft
from specviz.probability.plan import Draw, Plan, State, Step, Stop, Verifier
from specviz.probability.rows import Row, Rows
from specviz.traits import VerifierTraits


def plan(draft: Draft, target_probs: Rows) -> Plan:
    """The plan of a walk. `target_probs` `[n_fed + 1, V]`: row 0 after the root, row i + 1 after node i."""
    spelling = draft.spelling

    def open_step(state: State) -> Step:
        node: int = state
        if not draft.has_row(node):
            return Stop(node)
        edges: dict[int, tuple[int, State]] = {}
        for child in spelling.candidates(node):
            kept = spelling.first(child)
            edges.setdefault(draft.tokens[child], (kept, kept))

        def row() -> Row:
            return target_probs[node + 1]

        return Draw(node, row, edges, "target", "recovered" if edges else "bonus")

    return Plan(draft, -1, open_step)


VERIFIER = Verifier(
    name="walk",
    lossless=True,
    keeps_tokens=True,
    help="draw from the target and follow the draft; same tokens as plain decoding at every temperature",
    traits=VerifierTraits(draws=True),
    plan=plan,
    refuses=lambda draft: None,
)
