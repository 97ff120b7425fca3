"""`mtp`: multi-token prediction as models of 2025 and 2026 bring it, one layer for all depths (DeepSeek-AI 2024).

The layer joins the target's last state with the embedding of the token that followed, and its output takes the place of
that state for the token after. Embedding and head are the target's own, so a part is small. Models that bring such
layers in their own files draft with those.
"""

from specviz.knobs import real
from specviz.methods import Method, Part
from specviz.methods.common.knobs import by_mode, draft_mode, folder, gamma
from specviz.mtp_layers import has_mtp, unread_mtp

MTP = Part("MTP layer", "specviz train mtp", "mtp", own=has_mtp, unread=unread_mtp)

METHOD = Method(
    name="mtp",
    help="one layer on the target's last state and the next token drafts a chain, fed with its own output",
    drafter="specviz.methods.mtp.drafter:make",
    part=MTP,
    verifiers=("walk", "tokenwise"),
    example=by_mode,
    knobs=(
        gamma(0, "most drafted tokens, a call of the layer each"),
        real(
            "p_min",
            0,
            1,
            0.0,
            "drafting ends before a token whose best guess has less probability; 0: never",
            cuts="unsure",
        ),
        draft_mode("argmax", "sampled", "shared"),
        folder("MTP layer"),
    ),
)
