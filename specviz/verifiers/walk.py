"""`walk`: draw every token from the target and follow it through the draft as far as it goes.

The draw uses the `target` stream, keyed by position alone, so the text is that of plain decoding token for token, for
any draft whatsoever. At temperature 0 it is greedy matching. On a deterministic tree it has the
law of `tree_tokenwise` and `tree_hsd`, so these are other names of it:

* `tree_tokenwise`, child by child: keep y with R(y), else R(y) <- 0 and renormalise. With a point mass on every edge
  that is a draw from the target, read as tests. Every lossless rule keeps the same number of tokens in law here:
  E[accepted] is the sum of the target probabilities of all nodes' paths, and none can exceed it.
* `tree_hsd`, the joint rule path by path. With point masses the ratio never exceeds 1, so capping is idle: with c the
  probability of the prefix and pi that of the next drafted token, h = c (1 - pi) / (1 - c pi), and the residual is p
  without that token. What a path loses comes back through the next one: HSD gains nothing on a deterministic tree.
  Written out, the rule is `multi_hsd` on such a tree; the tests compare.
"""

from specviz.probability.draft import Draft
from specviz.probability.plan import Draw, Plan, PlanStop, State, Step, Verifier, VerifierAlias
from specviz.probability.rows import Row, Rows
from specviz.traits import VerifierTraits
from specviz.verifiers._candidates import misfit


def plan(draft: Draft, target_probs: Rows) -> Plan:
    """The plan of a walk. `target_probs` `[n_fed + 1, V]`: row 0 after the root, row i + 1 after node i."""
    spelling = draft.spelling

    def open_step(state: State) -> Step:
        node: int = state
        if not draft.has_row(node):
            return PlanStop(node)
        edges: dict[int, tuple[int, State]] = {}
        for child in spelling.candidates(node):
            kept = spelling.first(child)
            edges.setdefault(draft.tokens[child], (kept, kept))

        def row() -> Row:
            return target_probs[node + 1]

        return Draw(node, row, edges, "target", "recovered" if edges else "bonus")

    return Plan(draft, -1, open_step)


def refuses_drawn(draft: Draft) -> str | None:
    """Why a draft is no tree of chosen tokens; drawn nodes have better rules."""
    if draft.is_drawn and not draft.shared:
        return "it judges a tree of chosen tokens and this draft was drawn; walk, tokenwise and multi_hsd take it"
    return misfit(draft)


VERIFIER = Verifier(
    name="walk",
    lossless=True,
    keeps_tokens=True,
    help="draw from the target and follow the draft; same tokens as plain decoding at every temperature",
    traits=VerifierTraits(draws=True),
    plan=plan,
    refuses=lambda draft: None,
    layouts=("chain", "shared", "tree"),
    aliases=(
        VerifierAlias(
            "tree_tokenwise",
            help="a deterministic tree, child by child; the same plan as walk",
            traits=VerifierTraits(draws=True),
            refuses=refuses_drawn,
            layouts=("tree",),
        ),
        VerifierAlias(
            "tree_hsd",
            help="a deterministic tree by the joint rule; the same law as walk, whose plan it is",
            traits=VerifierTraits(draws=True),
            refuses=refuses_drawn,
            layouts=("tree",),
        ),
    ),
)
