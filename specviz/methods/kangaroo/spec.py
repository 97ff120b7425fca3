"""`kangaroo`: a few shallow layers and a small trained adapter draft until they are unsure (Liu et al. 2024).

The adapter reads the states after one early layer with an attention of its own, so it knows the whole text, where an
exit head knows one state. Unlike `specbound` it never declines to draft: drafting ends *after* a token that the adapter
gave less than `tau`, and that weak token is verified like the rest. At most `w_max` are drafted. Whether a token is
weak is known before it is drawn, so drawn drafts keep their law.
"""

from collections.abc import Mapping
from typing import Any

from specviz.errors import KnobError
from specviz.knobs import KnobSpec
from specviz.methods import Method
from specviz.methods.common.knobs import draft_mode, part_folder, single, words
from specviz.methods.early_exit import spec
from specviz.probability.draft import Draft
from specviz.traits import MethodTraits


def example(knobs: Mapping[str, Any]) -> Draft:
    """What a verifier will be handed. Raises KnobError for more than one layer or adapter."""
    named = words(knobs["exit_layers"])
    if len(named) > 1:
        raise KnobError(f"knob exit_layers: kangaroo drafts behind one layer, not {', '.join(named)}; give one of them")
    single(knobs, "adapter")
    return spec.example(knobs)


METHOD = Method(
    name="kangaroo",
    help="the target's first layers and a small trained adapter draft, until unsure",
    drafter="specviz.methods.kangaroo.drafter:make",
    verifiers=("walk", "tokenwise"),
    example=example,
    traits=MethodTraits(exits="fixed", threshold_symbol="τ (η)"),
    knobs=(
        spec.tau(0.6, "drafting ends after a token that the adapter gives less than this; 0 never, above 1 after one"),
        spec.width(6),
        KnobSpec(
            name="exit_layers",
            symbol="E",
            kind="texts",
            default=[spec.AUTO],
            help="the layer behind which is drafted: auto is the adapter's; at any other the model's own head drafts",
        ),
        draft_mode("argmax", "sampled", "shared"),
        part_folder(
            "adapter", "folder of an adapter, or lens for the model's own head; none: the one trained for the target"
        ),
    ),
)
