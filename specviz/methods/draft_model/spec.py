"""`draft`: a small model drafts a chain, several chains or a tree, the target verifies it in one pass.

Layouts (knob `shape`): `chain` (Leviathan 2023, Chen 2023), `tree` of the most likely continuations, `chains` beside
each other, `caterpillar`, `drawn_tree`. `auto` is argmax for `tree` and sampled for all others; at temperature 0 no
layout draws: several chains begin with the most likely tokens in turn, since copies of one greedy chain are pointless.

`sps`: standard speculative sampling, one drafted chain a round (Leviathan 2023, Chen 2023).

The plain form that the pipelines are compared with: the target waits while the chain is drafted, the draft model while
it is judged. Method `draft` has the same chain among its layouts, and every verifier for it.

`adaedl`: a chain that stops where the draft model's entropy says its next token would be rejected.

`1 - sqrt(entropy_gain * H)` is an estimate from below of the chance that a token drawn from a law of
entropy H is accepted; below the threshold lambda the chain ends. After every round lambda moves so that the acceptance
rate stays near `target_rate`. Public re-implementations disagree on when it is lowered: that is `entropy_decrease`.
"""

from collections.abc import Mapping
from typing import Any

from specviz.errors import KnobError
from specviz.knobs import KnobSpec, choice, real, whole
from specviz.methods import Method
from specviz.methods.common.knobs import CHAIN, TREE, by_mode, draft_mode, gamma
from specviz.names import Mode
from specviz.probability.draft import ROOT, Draft
from specviz.traits import MethodTraits

MODES = ("sampled", "argmax", "shared")
_CHAINS: dict[str, list[str]] = {"shape": ["chain", "chains", "caterpillar"]}
_SEVERAL: dict[str, list[str]] = {"shape": ["chains", "caterpillar", "drawn_tree"]}
_TREE: dict[str, list[str]] = {"shape": ["tree"]}
_TREES: dict[str, list[str]] = {"shape": ["tree", "drawn_tree"]}
_PARENTS = {
    "chain": CHAIN,
    "tree": (ROOT, ROOT, 0),
    "chains": (ROOT, ROOT, 0, 1),
    "caterpillar": (ROOT, ROOT, 0, 1, 0),
    "drawn_tree": TREE,
}


def drawn_mode(knobs: Mapping[str, Any]) -> Mode:
    """How tokens are chosen at T > 0. Raises KnobError for a mode the layout has no law for."""
    shape, mode = knobs["shape"], knobs["draft_mode"]
    if shape == "tree" and mode not in ("auto", "argmax"):
        raise KnobError(
            f"knob draft_mode: a tree of the k best nodes is argmax, not '{mode}'; "
            f"use shape {'drawn_tree' if mode == 'sampled' else 'chain'}"
        )
    if mode == "shared" and shape != "chain":
        raise KnobError(
            f"knob draft_mode: the target's noise draws one token a place, so not shape {shape}; use shape chain"
        )
    chosen: Mode = ("argmax" if shape == "tree" else "sampled") if mode == "auto" else mode
    return chosen


def layout_example(knobs: Mapping[str, Any]) -> Draft:
    """What a verifier will be handed under these knobs, in its smallest form."""
    single = knobs["candidates"] == 1 and knobs["shape"] in ("chains", "caterpillar", "drawn_tree")
    return by_mode(knobs, _PARENTS["chain" if single else knobs["shape"]], drawn_mode(knobs))


DRAFT = Method(
    name="draft",
    help="a draft model proposes a chain, several chains or a tree (shape)",
    drafter="specviz.methods.draft_model.drafter:make",
    needs_draft=True,
    traits=MethodTraits(page="docs/papers/speculative-sampling.md"),
    verifiers=(
        "walk",
        "tokenwise",
        "blockwise",
        "hsd",
        "hsd_naive",
        "multi_tokenwise",
        "multi_hsd",
        "multi_traversal",
        "hsd_ref",
        "slack",
    ),
    default_verifier=("walk", "tokenwise"),
    example=layout_example,
    walks=lambda knobs: knobs["shape"] == "tree" or knobs["draft_mode"] == "shared",
    knobs=(
        choice(
            "shape",
            tuple(_PARENTS),
            "chain",
            "draft layout: one chain, the best continuations, chains side by side, chains off a main one, a "
            "sampled tree",
            applies="X",
        ),
        draft_mode("auto", "argmax", "sampled", "shared", more=" (auto: argmax for shape tree, else sampled)"),
        gamma(needs=_CHAINS),
        whole(
            "candidates", 1, 16, 2, "chains; children of a node (caterpillar, drawn_tree)", symbol="K", needs=_SEVERAL
        ),
        KnobSpec(
            name="replacement",
            kind="bool",
            default=True,
            needs=_SEVERAL,
            help="siblings may repeat a token; off: each is drawn from what the elder ones left",
        ),
        whole("d_max", 1, 16, 5, "deepest tree level", symbol="d", needs=_TREES, cuts="depth"),
        whole("w_max", 1, 20, 4, "most children of a node below the root", symbol="w", needs=_TREE, cuts="children"),
        whole("k_max", 1, 20, 10, "nodes expanded per level; children of the root (tree)", symbol="k", needs=_TREES),
        whole(
            "node_budget",
            0,
            256,
            60,
            "nodes sent to the target, most likely first; 0 drafts nothing",
            symbol="N",
            needs=_TREES,
        ),
    ),
)


SPS = Method(
    name="sps",
    help="standard speculative sampling: draft a chain, judge it, and so on in turn",
    drafter="specviz.methods.draft_model.drafter:make_chain",
    needs_draft=True,
    traits=MethodTraits(page="docs/papers/speculative-sampling.md"),
    verifiers=("walk", "tokenwise", "blockwise", "hsd"),
    default_verifier=("walk", "tokenwise"),
    example=by_mode,
    knobs=(gamma(), draft_mode(*MODES)),
)


ADAEDL = Method(
    name="adaedl",
    help="draft until the draft model's entropy promises a rejection, with a threshold that adapts",
    drafter="specviz.methods.draft_model.adaedl:make",
    needs_draft=True,
    verifiers=("walk", "tokenwise"),
    default_verifier=("walk", "tokenwise"),
    example=by_mode,
    traits=MethodTraits(threshold_symbol="λ"),
    knobs=(
        gamma(1),
        real(
            "entropy_gain",
            0,
            1,
            0.2,
            "a token of a law of entropy H is taken to be accepted with 1 - sqrt(gain * H); 0 never stops",
            symbol="γ_H",
        ),
        real(
            "lambda0",
            0,
            1,
            0.7,
            "the threshold a text begins with: a chain stops where that estimate falls below it",
            symbol="λ",
            applies="Q",
        ),
        real("target_rate", 0, 1, 0.9, "acceptance rate the threshold is steered to", symbol="ρ*"),
        real(
            "entropy_step",
            0,
            1,
            0.01,
            "how far one round moves the threshold, before smoothing; 0 keeps it",
            symbol="e",
        ),
        choice(
            "entropy_decrease",
            ("not_full", "full"),
            "not_full",
            "the threshold falls after a good round that did not accept all of gamma, or only after one that did",
        ),
        draft_mode(*MODES),
    ),
)
