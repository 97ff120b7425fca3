"""`pearl`: drafting and verifying side by side with a fixed draft length (PEARL, ICLR 2025).

SpecBranch with one branch, the hybrid rule (for one branch: ordinary speculative sampling) and a fixed signal: after a
rollback draft nothing first (pre-verify: the target judges the first token of the draft under way), else keep all
(post-verify: gamma - 1 pending tokens and the first of the next gamma are judged). Every decision has a uniform of its
own, unlike in the authors' code, and nothing is returned unverified.

`specbranch`: draft in branches while the target verifies (SpecBranch, ICLR 2026).

A round verifies the pending tokens and, meanwhile, drafts on behind them in k branches that fork at the branch point:
where the draft model is unsure (epsilon), or behind the last pending token. If the target's token there is one of the
branch tokens, that branch goes on as the next round's pending tokens and no time was lost. A small classifier (H-RAD)
says beforehand how much of a draft is worth keeping: signal 0 none, 1 until unsure, 2 all.

The paper beside this code: docs/papers/specbranch.md. Its letters: epsilon `epsilon`, k_max `k_max`, L `branch_len`, s
`signal`.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from specviz.knobs import choice, real, whole
from specviz.methods import Method
from specviz.methods.common.knobs import by_mode, draft_mode, gamma, part_folder
from specviz.probability.draft import ROOT, Draft
from specviz.traits import MethodTraits

GUARD = 1e-9  # 5 (1 - 0.8) and 10 (1 - 0.8) come out below a whole number in binary
_SOFT = {"signal": ["auto", "1"]}
PARALLEL, AUTO_LEN, LIKELY_LEN = 0, -1, -2  # values of branch_len


def branch_count(k_max: int, conf: float, vocab: int) -> int:
    """How many branches to fork where the draft model's best token has probability `conf`."""
    return min(max(1, math.floor(k_max * (1 - conf) + GUARD)), vocab)


def example(knobs: Mapping[str, Any]) -> Draft:
    """What a verifier will be handed: a pending token, and branch tokens that are not fed behind it."""
    pending = by_mode(knobs, (ROOT, 0, 0))
    drawn = pending.row_of[0] >= 0
    return replace(pending, n_judged=1, n_fed=1, row_of=(0, -1, 1) if drawn else (-1, -1, -1))


SPECBRANCH = Method(
    name="specbranch",
    help="a draft model works ahead in branches while the target verifies",
    drafter="specviz.methods.branch.drafter:specbranch",
    needs_draft=True,
    verifiers=("walk", "tokenwise"),
    default_verifier=("walk", "tokenwise"),
    example=example,
    traits=MethodTraits(pipelined=True, threshold_symbol="ε", page="docs/papers/specbranch.md"),
    knobs=(
        gamma(meaning="most tokens drafted before a branch point; 0 decodes plainly"),
        real(
            "epsilon",
            0,
            1,
            0.3,
            "stop before a position whose raw top probability is below it; 0 never",
            symbol="ε",
            needs=_SOFT,
            cuts="unsure",
        ),
        whole(
            "k_max",
            1,
            16,
            3,
            "scale of the branch count, max(1, floor(k_max (1 - confidence))); 2 and below never fork",
            symbol="k",
        ),
        whole(
            "branch_len",
            LIKELY_LEN,
            64,
            LIKELY_LEN,
            "tokens per branch, at most gamma; 0 is gamma, -1 what fits beside the target's pass as timed, -2 as many "
            "as are likely to be kept, by this run's verdicts",
            symbol="L",
        ),
        choice(
            "branch_rule",
            ("auto", "topk", "hybrid", "swor"),
            "auto",
            "branch tokens: the likeliest (topk), all but the last of them (hybrid), drawn without replacement "
            "(swor); auto is hybrid, and at T = 0 all are topk",
        ),
        choice(
            "signal",
            ("auto", "0", "1", "2"),
            "auto",
            "draft nothing (0), until unsure (1), all (2); auto asks the H-RAD classifier; without one "
            "it is 1, or 2 while the target takes two in three of the unsure",
            symbol="s",
        ),
        whole(
            "soft_min_keep",
            0,
            1,
            0,
            "1 spares the first position the test: for a trained classifier, whose class 1 promises one token",
            needs=_SOFT,
        ),
        part_folder("hrad", "folder of an H-RAD classifier, or none; without it the one trained for this pair"),
        draft_mode("sampled", "argmax", "shared"),
    ),
)


PEARL = Method(
    name="pearl",
    help="a draft model works ahead in one line while the target verifies",
    drafter="specviz.methods.branch.drafter:pearl",
    needs_draft=True,
    verifiers=("walk", "tokenwise"),
    default_verifier=("walk", "tokenwise"),
    example=example,
    traits=MethodTraits(pipelined=True, page="docs/papers/specbranch.md"),
    knobs=(
        gamma(1, "tokens drafted per round"),
        draft_mode("sampled", "argmax", "shared"),
    ),
)
