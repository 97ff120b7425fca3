"""`dflash`: a block of masked places is filled in one pass, and verified as far as a confidence head is sure.

The block is that of DFlash: few layers over the target's states, which every layer reads as keys and values, the
target's own embedding and head around them. The head that says how far to verify is that of DSpark and its kin.
"""

from specviz.knobs import real, whole
from specviz.methods import Method, Part
from specviz.methods.common.knobs import by_mode, draft_mode, folder

DFLASH = Part("parallel block drafter", "specviz train dflash", "dflash")

METHOD = Method(
    name="dflash",
    help="one pass fills a block of masked places, which is verified as far as its confidence head is sure",
    drafter="specviz.methods.dflash.drafter:make",
    part=DFLASH,
    verifiers=("walk", "tokenwise"),
    example=by_mode,
    knobs=(
        whole(
            "gamma",
            0,
            64,
            8,
            "most drafted tokens; a block has no more than it was trained for",
            symbol="γ",
            cuts="depth",
        ),
        real(
            "confidence",
            0,
            1,
            0.2,
            "verified as long as the chance that all tokens so far are kept is not below; 0: the whole block",
            cuts="unsure",
        ),
        draft_mode("argmax", "sampled", "shared"),
        folder("parallel block drafter"),
    ),
)
