"""`sps`: standard speculative sampling, one drafted chain a round (Leviathan 2023, Chen 2023; specbranch.md 8.1).

The plain form that the pipelines are compared with: the target waits while the chain is drafted, the draft model while
it is judged. Method `draft` has the same chain among its layouts, and every verifier for it.
"""

from collections.abc import Mapping
from typing import Any

from specviz.knobs import KnobSpec
from specviz.methods import Method
from specviz.methods.common.samples import by_mode
from specviz.probability.draft import Draft


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
    return by_mode(knobs)


METHOD = Method(
    name="sps",
    help="standard speculative sampling: draft a chain, judge it, and so on in turn",
    drafter="specviz.methods.draft_model.chain:make",
    needs_draft=True,
    verifiers=("walk", "tokenwise", "blockwise", "hsd"),
    default_verifier=("walk", "tokenwise"),
    example=example,
    knobs=(gamma(), draft_mode()),
)
