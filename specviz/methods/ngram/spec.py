"""`ngram`: prompt lookup. The text's own last words are looked up in the text, what followed them is the draft."""

from specviz.knobs import whole
from specviz.methods import Method
from specviz.methods.common.knobs import CHAIN, gamma, sample

METHOD = Method(
    name="ngram",
    help="prompt lookup: copy what followed the last earlier match of the text's suffix",
    drafter="specviz.methods.ngram.drafter:make",
    verifiers=("walk", "tokenwise"),
    example=lambda knobs: sample(CHAIN, drawn=False),
    knobs=(
        gamma(),
        whole("ngram_max", 1, 8, 3, "longest suffix that is looked up, tried first"),
        whole("ngram_min", 1, 8, 1, "shortest suffix that is looked up"),
    ),
)
