"""`adaedl`: a chain that stops where the draft model's entropy says its next token would be rejected.

specbranch.md 8.3. `1 - sqrt(entropy_gain * H)` is an estimate from below of the chance that a token drawn from a law of
entropy H is accepted; below the threshold lambda the chain ends. After every round lambda moves so that the acceptance
rate stays near `target_rate`. Public re-implementations disagree on when it is lowered: that is `entropy_decrease`.
"""

from specviz.knobs import KnobSpec
from specviz.methods import Method
from specviz.methods.draft_model.sps import draft_mode, example, gamma
from specviz.traits import MethodTraits

METHOD = Method(
    name="adaedl",
    help="draft until the draft model's entropy promises a rejection, with a threshold that adapts",
    drafter="specviz.methods.draft_model.adaedl:make",
    needs_draft=True,
    verifiers=("walk", "tokenwise"),
    default_verifier=("walk", "tokenwise"),
    example=example,
    traits=MethodTraits(threshold_symbol="λ"),
    knobs=(
        gamma(1),
        KnobSpec(
            name="entropy_gain", symbol="γ_H", kind="float", lo=0, hi=1, default=0.2,
            help="a token of a law of entropy H is taken to be accepted with 1 - sqrt(gain * H); 0 never stops",
        ),
        KnobSpec(
            name="lambda0", symbol="λ", kind="float", lo=0, hi=1, default=0.7, applies="Q",
            help="the threshold a text begins with: a chain stops where that estimate falls below it",
        ),
        KnobSpec(
            name="target_rate", symbol="ρ*", kind="float", lo=0, hi=1, default=0.9,
            help="acceptance rate the threshold is steered to",
        ),
        KnobSpec(
            name="entropy_step", symbol="e", kind="float", lo=0, hi=1, default=0.01,
            help="how far one round moves the threshold, before smoothing; 0 keeps it",
        ),
        KnobSpec(
            name="entropy_decrease", kind="choice", choices=("not_full", "full"), default="not_full",
            help="the threshold falls after a good round that did not accept all of gamma, or only after one that did",
        ),
        draft_mode(),
    ),
)  # fmt: skip
