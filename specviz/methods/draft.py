"""`draft`: a small model drafts a chain or a tree, the target verifies it in one pass (Leviathan 2023, Chen 2023)."""

from specviz.knobs import KnobSpec
from specviz.methods import Method

_CHAIN: dict[str, list[str]] = {"shape": ["chain"]}
_TREE: dict[str, list[str]] = {"shape": ["tree"]}

METHOD = Method(
    name="draft",
    help="a draft model proposes a chain (gamma) or a tree (d_max, w_max, k_max)",
    drafter="specviz.drafters.draft_model:make",
    needs_draft=True,
    verifiers=("walk", "tokenwise"),
    default_verifier=("walk", "tokenwise"),
    knobs=(
        KnobSpec(
            name="shape", kind="choice", choices=("chain", "tree"), default="chain", applies="X", help="draft layout",
        ),
        KnobSpec(
            name="draft_mode", kind="choice", choices=("auto", "argmax", "sampled", "shared"), default="auto",
            applies="X", help="how a drafted token is chosen at T > 0 (auto: sampled chains, argmax trees)",
        ),
        KnobSpec(
            name="gamma", symbol="γ", kind="int", lo=0, hi=64, default=4, needs=_CHAIN,
            help="most drafted tokens per chain",
        ),
        KnobSpec(name="d_max", symbol="d", kind="int", lo=1, hi=16, default=5, needs=_TREE, help="deepest tree level"),
        KnobSpec(
            name="w_max", symbol="w", kind="int", lo=1, hi=20, default=4, needs=_TREE,
            help="most children of a node below the root",
        ),
        KnobSpec(
            name="k_max", symbol="k", kind="int", lo=1, hi=20, default=10, needs=_TREE,
            help="children of the root; nodes expanded per level",
        ),
        KnobSpec(
            name="node_budget", symbol="N", kind="int", lo=0, hi=256, default=60, needs=_TREE,
            help="nodes sent to the target, most likely first; 0 drafts nothing",
        ),
    ),
)  # fmt: skip
