"""`sps`: standard speculative sampling, one drafted chain a round (Leviathan 2023, Chen 2023; specbranch.md 8.1).

The plain form that the pipelines are compared with: the target waits while the chain is drafted, the draft model while
it is judged. Method `draft` has the same chain among its layouts, and every verifier for it.
"""

from collections.abc import Mapping
from typing import Any

from specviz.draft import ROOT, Draft
from specviz.knobs import KnobSpec
from specviz.methods import Method


def gamma(lowest: int = 0) -> KnobSpec:
    """The longest chain."""
    return KnobSpec(
        name="gamma", symbol="γ", kind="int", lo=lowest, hi=64, default=4, help="most drafted tokens per chain"
    )


def draft_mode() -> KnobSpec:
    """How a drafted token is chosen."""
    return KnobSpec(
        name="draft_mode", kind="choice", choices=("sampled", "argmax", "shared"), default="sampled", applies="X",
        help="how a drafted token is chosen at T > 0",
    )  # fmt: skip


def example(knobs: Mapping[str, Any]) -> Draft:
    """What a verifier will be handed: one chain, drawn unless the mode or the temperature says otherwise."""
    warm = knobs["temperature"] > 0 and knobs["draft_mode"] != "argmax"
    return Draft(
        tokens=(0, 0), parents=(ROOT, 0), ids=(0, 1), n_judged=2, n_fed=2, row_of=(0, 1) if warm else (-1, -1),
        shared=warm and knobs["draft_mode"] == "shared",
    )  # fmt: skip


METHOD = Method(
    name="sps",
    help="standard speculative sampling: draft a chain, judge it, and so on in turn",
    drafter="specviz.drafters.chain:make",
    needs_draft=True,
    verifiers=("walk", "tokenwise", "blockwise", "hsd"),
    default_verifier=("walk", "tokenwise"),
    example=example,
    knobs=(gamma(), draft_mode()),
)
