"""`pearl`: drafting and verifying side by side with a fixed draft length (PEARL, ICLR 2025; specbranch.md 8.2).

SpecBranch with one branch, the hybrid rule (for one branch: ordinary speculative sampling) and a fixed signal: after a
rollback draft nothing first (pre-verify: the target judges the first token of the draft under way), else keep all
(post-verify: gamma - 1 pending tokens and the first of the next gamma are judged). Every decision has a uniform of its
own, unlike in the authors' code, and nothing is returned unverified.
"""

from specviz.knobs import KnobSpec
from specviz.methods import Method
from specviz.methods.branch.specbranch import draft_mode, example
from specviz.traits import MethodTraits

METHOD = Method(
    name="pearl",
    help="a draft model works ahead in one line while the target verifies",
    drafter="specviz.methods.branch.drafter:pearl",
    needs_draft=True,
    verifiers=("walk", "tokenwise"),
    default_verifier=("walk", "tokenwise"),
    example=example,
    traits=MethodTraits(pipelined=True),
    knobs=(
        KnobSpec(name="gamma", symbol="γ", kind="int", lo=1, hi=64, default=4, help="tokens drafted per round"),
        draft_mode(),
    ),
)
