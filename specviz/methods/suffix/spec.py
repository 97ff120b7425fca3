"""`suffix`: suffix decoding (Oliaro et al. 2024), no model. What followed the text's own last words is counted.

The counts are of this text and of earlier answers; a draft is as long as its match and the counts allow.

Knobs are those of the engines that serve it (`suffix_decoding_*`), under their names.
"""

from collections.abc import Mapping
from typing import Any

from specviz.errors import KnobError
from specviz.knobs import KnobSpec, real, whole
from specviz.methods import Method
from specviz.methods.common.knobs import CHAIN, TREE, by_mode, draft_mode
from specviz.probability.draft import Draft


def example(knobs: Mapping[str, Any]) -> Draft:
    """What a verifier will be handed. Raises KnobError for a tree whose tokens would be drawn."""
    if knobs["tree"] and knobs["draft_mode"] != "argmax":
        raise KnobError(
            f"knob draft_mode: a tree takes the likeliest paths, it is not '{knobs['draft_mode']}'; use tree off"
        )
    return by_mode(knobs, TREE if knobs["tree"] else CHAIN)


METHOD = Method(
    name="suffix",
    help="suffix decoding: what most often followed the text's last words, here and in earlier answers",
    drafter="specviz.methods.suffix.drafter:make",
    verifiers=("walk", "tokenwise"),
    example=example,
    knobs=(
        whole("max_spec_tokens", 0, 64, 24, "most drafted tokens; 0 decodes plainly", symbol="γ"),
        whole("max_tree_depth", 2, 64, 24, "longest match, its draft included", symbol="D", applies="Q"),
        whole("max_cached_requests", 0, 1000, 100, "earlier answers that are remembered; 0: this text alone"),
        real("max_spec_factor", 0, 8, 1.0, "drafted tokens per matched token, at most", symbol="α"),
        real(
            "min_token_prob",
            0,
            1,
            0.1,
            "drafting ends where a path's share of the counts falls below this",
            cuts="unsure",
        ),
        KnobSpec(
            name="tree",
            kind="bool",
            default=False,
            help="also draft the paths beside the likeliest, likeliest first",
        ),
        draft_mode("argmax", "sampled", "shared", more="; sampled: by the counts"),
    ),
)
